"""Units cut by their scales: each criterion against its definition, whole units, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core.types import Evidence
from bayesprune.methods.shrinkage import Shrinkage
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.scales import LogNormalScale
from tests.infer import programs


def posterior(log_tau, log_nu=0.0, spread=0.5):
    law = lambda shape: LogNormalScale(jnp.reshape(jnp.array(log_tau), shape), spread, log_nu, 0.1)  # noqa: E731
    units = len(log_tau)
    return {
        "a.kernel": Scaled(jnp.ones((3, units)), jnp.ones((3, units)), law=law((1, units))),
        "a.bias": Scaled(jnp.zeros(units), jnp.ones(units), law=law((units,))),
    }


def cut(method, seen):
    key = jax.random.key(0)
    return method.step(key, Evidence(seen, None), method.init(key, seen))[0].mask


def test_the_factor_compares_units_with_their_layer() -> None:
    """kappa above one half is tau below 1 (its law is symmetric in log tau), whatever its layer; bias and column alike."""
    mask = cut(Shrinkage(), posterior([-2.0, 0.1, 3.0], log_nu=-9.0))
    np.testing.assert_array_equal(mask["a.kernel"], np.broadcast_to([False, True, True], (3, 3)))
    np.testing.assert_array_equal(mask["a.bias"], [False, True, True])


def test_below_is_absolute() -> None:
    """P(nu tau < delta) > .9: a unit goes where log delta is 1.28 standard deviations above its mean."""
    away = np.log(1e-2) - np.array([1.2, 1.4]) * np.hypot(0.5, 0.1)
    mask = cut(Shrinkage("below", delta=1e-2), posterior([*(away + 3.0), 5.0], log_nu=-3.0))
    np.testing.assert_array_equal(mask["a.bias"], [True, False, True])


def test_the_best_unit_stays_whole() -> None:
    mask = cut(Shrinkage(), posterior([-5.0, -4.0, -6.0]))
    np.testing.assert_array_equal(mask["a.kernel"], np.broadcast_to([False, True, False], (3, 3)))


def test_the_dead_stay_dead_and_do_not_count_as_best() -> None:
    seen, method, key = posterior([5.0, -4.0, -6.0]), Shrinkage(), jax.random.key(0)
    state = method.init(key, seen)
    dead = {site: jnp.arange(3) > 0 for site in state.mask} | {"a.kernel": jnp.broadcast_to(jnp.arange(3) > 0, (3, 3))}
    mask = method.step(key, Evidence(seen, None), state._replace(mask=dead))[0].mask
    np.testing.assert_array_equal(mask["a.bias"], [False, True, False])


@pytest.mark.slow
def test_evidence_is_the_cut_of_units_at_zero() -> None:
    bnn = programs.small_bnn(prior=bp.priors.Horseshoe())
    fit = bp.fit_svi(jax.random.key(0), bnn, programs.classes(rows=40), num_steps=4, progress=False)
    ours = bp.prune_once(fit.params, Shrinkage("evidence"), program=bnn).mask
    named = bp.prune_once(fit.params, bp.methods.Cut("evidence", threshold=0.0, scope="unit"), program=bnn).mask
    assert all(np.array_equal(ours[site], named[site]) for site in named)


@pytest.mark.slow
def test_a_fit_keeps_the_units_that_it_needs(rng_key) -> None:
    """At first the scales of a layer's units say nothing of who is needed, and half of them would go.

    Of 359 digits, of which .97 is .009 by chance: a verified fit is at most .05 below one that prunes nothing; without a look
    it loses .1 or more (found: .964, .969 and .816, with 16 and 20 % of the weights). Fixed key.
    """
    train, test = bp.data.load("digits")
    bnn = bp.BNN(
        bp.nets.MLP((32, 32), 10),
        prior=bp.priors.GroupHorseshoe(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(8, 8, 1),
    )

    def accuracy(**settings) -> tuple[float, float]:
        fit = bp.fit_svi(rng_key, bnn, train, num_steps=1_000, batch_size=128, progress=False, **settings)
        assert not {"prune/order", "prune/gains"} & set(fit.history)
        alive = float(np.mean(fit.mask["Dense_0.kernel"])) if fit.mask else 1.0
        return bp.evaluate(rng_key, bnn, fit.params, test, mask=fit.mask, num_samples=20)["accuracy"], alive

    whole, verified = accuracy()[0], accuracy(sparsifier=Shrinkage())
    blind = accuracy(sparsifier=Shrinkage(), course=bp.courses.Standard(verified=0))
    assert verified[0] > whole - 0.05 and verified[1] < 0.5
    assert blind[0] < whole - 0.1


def test_refusals() -> None:
    with pytest.raises(ValueError, match="unknown criterion 'scale'"):
        Shrinkage("scale")
    with pytest.raises(ValueError, match=r"delta=0\.01 is of criterion='below', got 'factor'"):
        Shrinkage(delta=1e-2)
    with pytest.raises(ValueError, match="threshold must lie"):
        Shrinkage(threshold=1.5)
    with pytest.raises(ValueError, match=r"without a threshold, got threshold=0.9"):
        Shrinkage("evidence", threshold=0.9)
    with pytest.raises(TypeError, match=r"law of the units' scales.*priors.Horseshoe.*program=bnn"):
        bp.prune_once({"w": MeanField(jnp.ones(3), jnp.ones(3))}, Shrinkage())
