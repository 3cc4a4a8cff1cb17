"""Ratios of the prior of masks against its formula by enumeration, and probabilities of sets against a sum over orders."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.formulas import unit_masks


def log_prior(alive: int, total: int, c: float) -> float:
    """Of one mask, up to the constant of the layer: every mask of k units has the same."""
    return -c * alive**2 - math.log(math.comb(total, alive))


@pytest.mark.parametrize("c", [0.0, 0.3])
def test_ratios_of_the_prior(c) -> None:
    """(19.1), for every birth and death of one to three units in a layer of six; of two layers the sum."""
    for total, k, j in itertools.product((4, 6), range(1, 7), (-3, -2, -1, 0, 1, 2, 3)):
        if not (k <= total and 1 <= k + j <= total):
            continue
        wanted = log_prior(k + j, total, c) - log_prior(k, total, c)
        found = unit_masks.log_prior_ratio(jnp.array([k]), jnp.array([j]), jnp.array([total]), c, most=3)
        assert float(found) == pytest.approx(wanted, abs=1e-5)
        both = unit_masks.log_prior_ratio(jnp.array([k, 2]), jnp.array([j, 1]), jnp.array([total, 5]), c, most=3)
        assert float(both) == pytest.approx(wanted + log_prior(3, 5, c) - log_prior(2, 5, c), abs=1e-5)


def test_the_prior_s_masses_add_up_by_number_of_units() -> None:
    """(19.1): C(N, k) masks of k units share exp(-c k²), so that the number itself has a prior prop. to it."""
    masses = np.zeros(5)
    for mask in itertools.product((0, 1), repeat=4):
        masses[sum(mask)] += math.exp(log_prior(sum(mask), 4, 0.2))
    np.testing.assert_allclose(masses, np.exp(-0.2 * np.arange(5) ** 2))


def test_a_layer_of_thousands_keeps_its_digits() -> None:
    """(19.1): a ratio of factorials of ten thousand, by whole numbers."""
    wanted = math.log(math.comb(10_000, 4_000) / math.comb(10_000, 4_003)) - 1e-4 * (2 * 4_000 * 3 + 9)
    found = unit_masks.log_prior_ratio(jnp.array([4_000]), jnp.array([3]), jnp.array([10_000]), 1e-4, most=3)
    assert float(found) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.slow_cases(1)
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("most", [1, 3, 5])
def test_probabilities_of_sets(most) -> None:
    """(19.3), by the sum over orders; of all sets of one size it is 1, also where weights are of very different size."""
    rng = np.random.default_rng(0)
    log_weights, within = rng.normal(size=6) * 8, np.array([True, True, False, True, True, True])
    for size in range(min(most, 5) + 1):
        total = 0.0
        for chosen in itertools.combinations(np.flatnonzero(within), size):
            exact = 0.0
            for order in itertools.permutations(chosen):
                left, p = set(np.flatnonzero(within)), 1.0
                for unit in order:
                    p *= math.exp(log_weights[unit]) / sum(math.exp(log_weights[u]) for u in left)
                    left -= {unit}
                exact += p
            found = unit_masks.log_set_probability(
                jnp.asarray(log_weights, jnp.float32), jnp.asarray(within), jnp.asarray(np.isin(np.arange(6), chosen)), most
            )
            assert float(found) == pytest.approx(math.log(exact), rel=1e-4, abs=1e-5)
            total += exact
        assert total == pytest.approx(1.0)


@pytest.mark.slow
def test_numbers_of_sets() -> None:
    for n, k in itertools.product(range(8), range(8)):
        if k <= n:
            assert float(jnp.exp(unit_masks.log_choices(jnp.array(n), jnp.array(k)))) == pytest.approx(
                math.comb(n, k), rel=1e-4
            )
