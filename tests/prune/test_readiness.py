"""Readiness against NumPy's mean."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.posteriors.mean_field import MeanField
from bayesprune.prune.bookkeeping import readiness

RNG = np.random.default_rng(0)


def posterior(*scales: np.ndarray) -> dict[str, MeanField]:
    return {str(i): MeanField(jnp.zeros(s.shape), jnp.asarray(s, jnp.float32)) for i, s in enumerate(scales)}


def test_it_is_the_mean_over_the_alive_weights_of_all_layers() -> None:
    before = [np.exp(RNG.normal(size=(4, 5))), np.exp(RNG.normal(size=7))]
    now = [np.exp(RNG.normal(size=(4, 5))), np.exp(RNG.normal(size=7))]
    mask = {"0": RNG.random((4, 5)) < 0.5, "1": RNG.random(7) < 0.5}
    changes = np.concatenate([np.abs(np.log(n / b))[mask[str(i)]] for i, (n, b) in enumerate(zip(now, before, strict=True))])
    np.testing.assert_allclose(readiness(posterior(*now), posterior(*before), mask), np.exp(-np.mean(changes)), rtol=1e-5)


def test_halving_and_doubling_read_one_half_whatever_the_units() -> None:
    for unit in (1e-6, 1.0, 1e6):
        before, now = np.full(4, unit), unit * np.asarray([0.5, 2.0, 0.5, 2.0])
        np.testing.assert_allclose(readiness(posterior(now), posterior(before)), 0.5, rtol=1e-5)


def test_nothing_moved_reads_one_and_nothing_alive_too() -> None:
    still = posterior(np.ones(3))
    assert readiness(still, still) == 1
    assert readiness(posterior(np.full(3, 9.0)), still, {"0": jnp.zeros(3, bool)}) == 1
    assert readiness(posterior(np.zeros(3)), posterior(np.zeros(3))) == 1
    assert readiness({}, {}) == 1


def test_a_scale_that_appears_or_vanishes_has_moved_without_bound() -> None:
    assert readiness(posterior(np.ones(3)), posterior(np.zeros(3))) == 0


def test_dead_weights_do_not_count_even_with_nan() -> None:
    now, before = np.asarray([1.0, np.nan, 0.0]), np.asarray([0.5, 1.0, 1.0])
    mask = {"0": jnp.asarray([True, False, False])}
    np.testing.assert_allclose(jax.jit(readiness)(posterior(now), posterior(before), mask), 0.5, rtol=1e-6)
