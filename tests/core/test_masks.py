"""Masks: counts exact under ties, NaN and restriction, one trace for every count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core import masks
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab

TIED = np.asarray([2.0, 1.0, 1.0, 3.0, 1.0, -np.inf, np.nan, 1.0, np.inf], np.float32)


def reference(scores: np.ndarray, count: int, within: np.ndarray) -> np.ndarray:
    """By repeatedly taking the best that is left, first come first served; NaN when nothing else is left."""
    alive = np.zeros(scores.shape, bool)
    for _ in range(count):
        left = [i for i in range(scores.size) if within[i] and not alive[i]]
        if left:
            alive[max(left, key=lambda i: (-np.inf if np.isnan(scores[i]) else scores[i], -i))] = True
    return alive


@pytest.mark.parametrize("seed", range(4))
def test_top_k_against_a_greedy_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, 30).astype(np.float32)
    scores[rng.integers(0, 30, 3)] = np.nan
    within = rng.random(30) < 0.7
    for count in (0, 1, 7, 15, 30, 99):
        np.testing.assert_array_equal(masks.top_k(scores, count, within), reference(scores, count, within))


def test_top_k_keeps_exactly_that_many_of_equal_scores_the_earlier_ones() -> None:
    for count in range(10):
        assert masks.count(masks.top_k(TIED, count)) == min(count, 9)
    np.testing.assert_array_equal(masks.top_k(np.zeros((2, 3), np.float32), 4), [[1, 1, 1], [1, 0, 0]])


def test_whole_numbers_are_told_apart_beyond_what_float32_counts() -> None:
    scores = jnp.array([-3, 2**24, 2**24 + 1, 5, 2**31 - 1])
    assert masks.top_k(scores, 2, jnp.arange(5) < 4).tolist() == [False, True, True, False, False]
    assert masks.top_k(scores[:3], 1).tolist() == [False, False, True]


def test_nan_is_the_first_to_go() -> None:
    np.testing.assert_array_equal(masks.top_k(np.asarray([np.nan, 0.0, -1e30], np.float32), 2), [0, 1, 1])


def test_one_trace_serves_all_counts() -> None:
    traces = []

    @jax.jit
    def choose(scores: jax.Array, count: jax.Array) -> jax.Array:
        traces.append(count)
        return masks.top_k(scores, count)

    for count in (1, 4, 7):
        assert masks.count(choose(jnp.asarray(TIED), jnp.int32(count))) == count
    assert len(traces) == 1


def test_a_tree_is_ranked_as_one_array() -> None:
    rng = np.random.default_rng(0)
    scores = {"a": rng.integers(0, 5, (3, 4)).astype(np.float32), "b": rng.integers(0, 5, 6).astype(np.float32)}
    within = {"a": rng.random((3, 4)) < 0.6, "b": rng.random(6) < 0.6}
    flat, inside = (np.concatenate([tree["a"].ravel(), tree["b"]]) for tree in (scores, within))
    for count in (0, 3, 8):
        got = masks.top_k_tree(scores, count, within)
        assert got["a"].shape == (3, 4)
        np.testing.assert_array_equal(np.concatenate([got["a"].ravel(), got["b"]]), reference(flat, count, inside))


def test_leaves_may_have_counts_of_their_own() -> None:
    scores = {"a": jnp.arange(4.0), "b": jnp.arange(3.0)}
    got = masks.top_k_leaves(scores, {"a": 3, "b": 1})
    assert jax.tree.map(int, jax.tree.map(masks.count, got)) == {"a": 3, "b": 1}
    assert masks.count(masks.top_k_leaves(scores, 2)) == 4
    assert masks.top_k_tree({}, 3) == {}


def test_counts_and_densities_are_exact_beyond_what_float32_counts() -> None:
    mask = {"a": np.ones(2**24, bool), "b": np.asarray([True, False, False])}
    total = masks.count(mask)
    assert total.dtype == jnp.int32 and total == 2**24 + 1
    np.testing.assert_allclose(masks.density({"a": np.asarray([True, False]), "b": np.zeros(6, bool)}), 1 / 8)
    assert masks.count({}) == 0 and masks.density({}) == 1


def test_full_like_has_one_array_per_node() -> None:
    tree = {"a": MeanField(jnp.zeros((2, 3)), jnp.ones((2, 3))), "b": jnp.zeros(4), "c": SpikeSlab(*[jnp.zeros(2)] * 3)}
    full = masks.full_like(tree)
    assert jax.tree.map(jnp.shape, full) == {"a": (2, 3), "b": (4,), "c": (2,)}
    assert masks.density(full) == 1 and full["a"].dtype == bool


def test_apply_puts_the_dead_at_exactly_zero_even_nan_and_keeps_the_rest() -> None:
    mask, bad = jnp.asarray([True, False]), jnp.asarray([2.0, jnp.nan])
    tree = {"a": MeanField(bad, bad, unit=2.0), "b": bad, "c": SpikeSlab(bad, bad, jnp.asarray([1.0, -3.0]))}
    got = masks.apply({"a": mask, "b": mask, "c": mask}, tree)
    for array in (got["a"].loc, got["a"].scale, got["b"], got["c"].loc, got["c"].scale):
        np.testing.assert_array_equal(array, [2, 0])
    np.testing.assert_array_equal(got["c"].logit, [1, -3])
    assert got["a"].unit == 2.0
    assert got["b"].dtype == bad.dtype


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_top_k_orders_every_number_and_makes_no_nan(kind: str) -> None:
    """Against Python's sort; infinities, both zeros, the dtype's ends, NaN, and what may not stay."""
    numbers = (
        [3, -2, 0, 7, -2, 0, 1] if kind == "int32" else [0.0, -0.0, -np.inf, np.inf, 1e-37, -1e-37, -3e38, 3e38, np.nan, 2.0]
    )
    scores = np.asarray(numbers * 2, kind)
    within = np.arange(len(scores)) % 3 > 0
    place = lambda i: (-np.inf if np.isnan(scores[i]) else scores[i]) + 0.0  # noqa: E731
    order = sorted(np.flatnonzero(within), key=lambda i: -place(i))
    with jax.enable_x64(kind == "float64"), jax.debug_nans(True), jax.numpy_dtype_promotion("strict"):
        top = jax.jit(masks.top_k)
        for count in range(len(scores) + 1):
            assert set(np.flatnonzero(top(scores, count, within))) == set(order[:count])
