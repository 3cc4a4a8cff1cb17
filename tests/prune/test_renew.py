"""How woken weights begin."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune.renew import check_new_scale, renew

LOC, SCALE = np.array([1.0, -2.0, 3.0, np.nan]), np.array([0.1, 0.4, 2.0, np.nan])
OLD, NEW = np.array([True, True, True, False]), np.array([True, True, False, True])


def softplus_inverse(y: float) -> float:
    """By bisection on log(1 + exp(x))."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.log1p(np.exp(middle)) < y else (low, middle)
    return low


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("new_scale", "expected"),
    [
        ("mean", 0.25),
        ("mean_raw", np.log1p(np.exp((softplus_inverse(0.1) + softplus_inverse(0.4)) / 2))),
        (0.03, 0.03),
    ],
)
def test_a_woken_weight_starts_at_zero_with_its_neighbours_scale(new_scale, expected) -> None:
    node = renew(MeanField(jnp.asarray(LOC), jnp.asarray(SCALE)), jnp.asarray(OLD), jnp.asarray(NEW), new_scale)
    np.testing.assert_array_equal(node.loc[:3], LOC[:3])
    np.testing.assert_allclose(node.scale[:3], SCALE[:3], rtol=1e-6)
    assert float(node.loc[3]) == 0.0
    assert float(node.scale[3]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("new_scale", ["mean", "mean_raw", 0.5])
def test_points_stay_points(new_scale) -> None:
    node = renew({"w": MeanField(jnp.ones(4), jnp.zeros(4))}, {"w": jnp.asarray(OLD)}, {"w": jnp.asarray(NEW)}, new_scale)
    np.testing.assert_array_equal(node["w"].scale, np.zeros(4))


def test_where_everything_is_exchanged_the_fallen_give_the_scale() -> None:
    old, new = jnp.array([True, True, False, False]), jnp.array([False, False, True, True])
    node = renew(MeanField(jnp.ones(4), jnp.array([0.1, 0.3, 7.0, 7.0])), old, new)
    np.testing.assert_allclose(node.scale[2:], 0.2, rtol=1e-6)


@pytest.mark.parametrize("wrong", ["median", 0.0, -1.0])
def test_what_is_no_scale_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match="new_scale"):
        check_new_scale(wrong)


def test_a_woken_gate_has_the_mean_log_odds_of_its_neighbours() -> None:
    logit = jnp.array([1.0, 3.0, 50.0, -70.0])
    node = renew(SpikeSlab(jnp.asarray(LOC), jnp.asarray(SCALE), logit), jnp.asarray(OLD), jnp.asarray(NEW))
    np.testing.assert_allclose(node.logit, [1.0, 3.0, 50.0, 2.0])
