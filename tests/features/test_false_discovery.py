import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.features import control_fdr, expected_fdr


def test_no_larger_set_keeps_the_level():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=8) ** 0.3
        level = rng.uniform(0.05, 0.5)
        chosen = control_fdr(p, level)
        sizes = [
            size for size in range(1, 9) for group in itertools.combinations(p, size) if np.mean(1 - np.array(group)) <= level
        ]
        assert chosen.sum() == max(sizes, default=0)
        assert expected_fdr(p, chosen) <= level + 1e-12
        assert not chosen.any() or p[chosen].min() >= p[~chosen].max(initial=0.0)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_share_equal_to_the_level_is_within_it(dtype):
    """Probabilities and levels in hundredths, for which the rule is arithmetic of whole numbers."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        size, level = int(rng.integers(1, 30)), int(rng.integers(1, 50))
        percent = np.sort(rng.choice([100 - level, 100 - level, *rng.integers(0, 101, 8)], size))[::-1]
        wrong = np.cumsum(100 - percent)
        wanted = int((wrong <= level * np.arange(1, size + 1)).sum())
        chosen = control_fdr((percent / 100).astype(dtype), level / 100)
        assert chosen.sum() == wanted and chosen[:wanted].all()


def test_a_level_below_the_resolution_of_the_probabilities_takes_only_what_is_certain():
    p = np.array([1.0, 1.0 - 2.0**-24, 1.0], np.float32)
    assert control_fdr(p, 1e-9).tolist() == [True, False, True]


def test_calibrated_probabilities_give_the_rate_asked_for():
    # 2000 sets of 200 members. The false share of a set (about 70 members) deviates by about 0.04, the mean over sets by
    # 0.001: 0.006 is six of those. It sits just below the level, since one member more would exceed it.
    rng = np.random.default_rng(0)
    shares, picked = [], []
    for _ in range(2000):
        p = rng.beta(0.5, 0.5, size=200)
        truth = rng.random(200) < p
        chosen = control_fdr(p, 0.15)
        shares.append((chosen & ~truth).sum() / max(1, chosen.sum()))
        picked.append(chosen.sum())
    assert 0.15 - 0.012 < np.mean(shares) < 0.15 + 0.006
    assert np.mean(picked) > 50


def test_overconfident_probabilities_break_it():
    # The promise rests on calibration: pushed towards 0 and 1, the same members give twice the rate. (Same budget.)
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(500):
        p = rng.beta(0.5, 0.5, size=200)
        truth = rng.random(200) < p
        chosen = control_fdr(1 / (1 + ((1 - p) / p) ** 3), 0.05)
        shares.append((chosen & ~truth).sum() / max(1, chosen.sum()))
    assert np.mean(shares) > 0.1


def test_ties_enter_by_index_and_shapes_are_kept():
    p = jnp.array([[0.75, 1.0], [0.75, 0.75]])
    assert control_fdr(p, 0.125).tolist() == [[True, True], [False, False]]
    assert control_fdr(p, 0.2).tolist() == [[True, True], [True, True]]
    assert not control_fdr(np.full(3, 0.2), 0.5).any()
    assert control_fdr(np.zeros(0), 0.5).shape == (0,)
    assert expected_fdr(p, np.zeros((2, 2), bool)) == 0.0
    assert expected_fdr(p, np.array([[1, 1], [0, 0]])) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: control_fdr(np.array([0.5, 1.5]), 0.1), "probabilities"),
        (lambda: control_fdr(np.array([0.5, np.nan]), 0.1), "probabilities"),
        (lambda: control_fdr(np.array([0.5]), 0.0), "level"),
        (lambda: control_fdr(np.array([0.5]), 1.0), "level"),
        (lambda: expected_fdr(np.array([0.5]), np.array([True, False])), "selected"),
        (lambda: expected_fdr(np.array([0.5]), np.array([0.3])), "selected"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
