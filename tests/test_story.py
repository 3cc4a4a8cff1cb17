"""The whole story on real data, slowly: evidence prunes a net that then predicts better."""

import jax
import optax
import pytest

import bayesprune as bp


@pytest.mark.slow
def test_pruning_the_digits_on_the_way_loses_weights_and_gains_likelihood() -> None:
    train, test = bp.data.load("digits")
    bnn = bp.BNN(
        bp.nets.MLP(hidden=(64, 64), num_outputs=10),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
    )
    settings = {"num_steps": 4_000, "batch_size": 128, "optimizer": optax.adabelief(2e-2), "estimator": "local"}
    whole = bp.fit_svi(jax.random.key(0), bnn, train, **settings)
    pruned = bp.fit_svi(jax.random.key(0), bnn, train, sparsifier=bp.methods.BMR(), every=200, **settings)
    figures = [bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask) for fit in (whole, pruned)]
    # Seen over three keys: accuracy .97 to .98, density .4, nll lower by 40 to 60 %. The bounds leave room; the key is fixed.
    assert figures[1]["accuracy"] > 0.955
    assert figures[1]["nll"] < 0.85 * figures[0]["nll"]
    assert pruned.history["prune/density"][-1] < 0.5
