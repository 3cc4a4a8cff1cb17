"""Dropout in prediction, against the enumeration of its gates."""

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp


class Gated(nn.Module):
    """Inputs that are dropped with probability .4, and a weight for each."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        return nn.Dense(1, use_bias=False)(nn.Dropout(0.4, deterministic=not train)(x))


@pytest.mark.slow
def test_a_prediction_is_the_mean_over_gates(rng_key) -> None:
    """(14.1): of sigmoid(sum z x w) over eight gates, and its variance; 4,000 draws. Five standard errors: below 1e-5."""
    bnn = bp.BNN(
        Gated(),
        prior=bp.priors.Gaussian(1.0, centred=True),
        likelihood=bp.likelihoods.Bernoulli(),
        input_shape=(3,),
        posterior="map",
        prunable=bp.select.kernels,
    )
    w, x = np.array([2.0, -1.0, 0.7]), np.array([1.0, 1.5, -2.0])
    values, shares = [], []
    for gates in itertools.product((0.0, 1.0), repeat=3):
        z = np.array(gates)
        values.append(1 / (1 + np.exp(-np.sum(z / 0.6 * x * w))))
        shares.append(np.prod(np.where(z > 0, 0.6, 0.4)))
    mean = np.dot(shares, values)
    variance = np.dot(shares, np.square(values)) - mean**2
    params = {"Dense_0.kernel_map_loc": jnp.asarray(w[:, None], jnp.float32)}
    rows = np.stack([x, x]).astype(np.float32)
    draws = bp.predict_draws(rng_key, bp.mc_dropout(bnn), params, rows, num_samples=4_000)[..., 0].astype(float)
    assert (np.abs(draws.mean(0) - mean) < 5 * (variance / 4_000) ** 0.5).all()
    assert (np.abs(draws.var(0) / variance - 1) < 0.1).all()
    assert np.corrcoef(draws.T)[0, 1] < 0.1, "rows have gates of their own"
    alone = bp.predict(rng_key, bnn, params, rows, num_samples=3)
    np.testing.assert_allclose(alone, 1 / (1 + np.exp(-np.sum(x * w))), rtol=1e-5)


@pytest.mark.slow
def test_what_does_not_drop_is_refused_and_the_net_itself_stays(rng_key) -> None:
    plain, resnet = programs.small_bnn(), bp.nets.ResNet(3, stage_sizes=(1,), features=4)
    with pytest.raises(ValueError, match="no noise in training"):
        bp.mc_dropout(plain)
    batch = bp.BNN(resnet, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 3))
    with pytest.raises(ValueError, match="batch statistics"):
        bp.mc_dropout(batch)
    with pytest.raises(TypeError, match=r"bp\.BNN"):
        bp.mc_dropout(bp.nets.MLP((4,), 2))
    net = bp.nets.MLP((8,), 3, dropout=0.5)
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    dropping = bp.mc_dropout(bnn)
    assert dropping != bnn and dropping == bp.mc_dropout(bnn) and not bnn.drops
    fit = bp.fit_svi(rng_key, bnn, programs.classes(), num_steps=2)
    figures = bp.evaluate(jax.random.key(1), dropping, fit.params, programs.classes(), num_samples=3)
    assert np.isfinite(figures["nll"])


def test_gates_are_not_left_out_without_a_word(rng_key) -> None:
    """A compact network and a linearised one have weights alone."""
    bnn = bp.BNN(Gated(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Bernoulli(), input_shape=(3,))
    params = bp.fit_svi(rng_key, bnn, bp.Dataset(np.eye(3), np.array([0, 1, 1])), num_steps=2, progress=False).params
    with pytest.raises(ValueError, match="no gates that are drawn"):
        bp.compact(bp.mc_dropout(bnn), params)
    with pytest.raises(ValueError, match="gates would be left out"):
        bp.predict_draws(rng_key, bp.mc_dropout(bnn), params, np.eye(3, dtype=np.float32), num_samples=2, linearised=True)
