import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.features import top_fraction


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.77, 1.0])
def test_the_count_is_exact_under_ties(fraction):
    values = np.random.default_rng(0).integers(0, 3, size=30).astype(float)
    keep = top_fraction(values, fraction)
    assert keep.sum() == max(1, round(fraction * 30))
    assert values[keep].min() >= values[~keep].max(initial=-1.0)


def test_ties_go_to_the_lower_index_and_minus_infinity_is_last():
    assert top_fraction(jnp.zeros(4), 0.5).tolist() == [True, True, False, False]
    assert top_fraction(np.array([-np.inf, -3.0, -np.inf, -2.0]), 0.5).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_fraction(np.array([1.0, np.nan]), 0.5), "NaN"),
        (lambda: top_fraction(np.zeros(0), 0.5), "importance"),
        (lambda: top_fraction(np.zeros(3), 0.0), "fraction"),
        (lambda: top_fraction(np.zeros(3), 1.2), "fraction"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
