"""Regrowth: exact counts, among the dead only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.prune import regrowth

MASK = {"a": np.random.default_rng(0).random((6, 5)) < 0.4, "b": np.asarray([True, False, False, True])}


def test_the_largest_gradients_of_the_dead_wake() -> None:
    gradient = {"a": np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32), "b": np.asarray([9.0, -2.0, 1.0, 9.0])}
    grown = regrowth.largest_gradient(gradient, MASK, {"a": 4, "b": 1})
    dead = np.where(MASK["a"], -1, np.abs(gradient["a"]))
    np.testing.assert_array_equal(grown["a"], dead >= np.sort(dead, axis=None)[-4])
    np.testing.assert_array_equal(grown["b"], [0, 1, 0, 0])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_counts_are_exact_under_ties_until_the_dead_run_out(count: int) -> None:
    still = jax.tree.map(jnp.zeros_like, jax.tree.map(jnp.float32, MASK))
    grown = (regrowth.largest_gradient(still, MASK, count), regrowth.random(jax.random.key(0), MASK, count))
    for tree in grown:
        for name, alive in MASK.items():
            assert int(tree[name].sum()) == min(count, int((~alive).sum()))
            assert not (np.asarray(tree[name]) & alive).any()


def test_one_trace_serves_every_count() -> None:
    traces = []

    @jax.jit
    def grow(key: jax.Array, count: jax.Array) -> dict[str, jax.Array]:
        traces.append(count)
        return regrowth.random(key, MASK, count)

    assert [int(grow(jax.random.key(0), jnp.int32(n))["a"].sum()) for n in (2, 5)] == [2, 5]
    assert len(traces) == 1


@pytest.mark.slow
def test_random_growth_is_uniform_over_the_dead() -> None:
    """Each of 10 dead weights wakes with probability 0.3; 2000 draws, 5 deviations: one fixed key in 200 000 would fail."""
    mask = jnp.arange(15) < 5
    keys = jax.random.split(jax.random.key(7), 2000)
    share = np.asarray(jax.vmap(lambda key: regrowth.random(key, mask, 3))(keys)).mean(0)
    assert (share[:5] == 0).all()
    np.testing.assert_allclose(share[5:], 0.3, atol=5 * np.sqrt(0.3 * 0.7 / 2000))


def test_arrays_of_one_shape_do_not_share_their_noise() -> None:
    mask = {"a": jnp.zeros(1000, bool), "b": jnp.zeros(1000, bool)}
    grown = regrowth.random(jax.random.key(0), mask, 100)
    assert not np.array_equal(grown["a"], grown["b"])


def test_legacy_keys_are_taken_and_numbers_refused() -> None:
    assert int(regrowth.random(jax.random.PRNGKey(0), MASK["b"], 1).sum()) == 1
    with pytest.raises(TypeError, match="rng_key"):
        regrowth.random(0, MASK, 1)
