"""Regrowth has exact counts; an exchange is what plain NumPy makes of it; what comes back begins as the weights beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune import regrowth
from bayesprune.prune.regrowth import check_new_scale, exchange, renew

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


SHAPES = {"a": (6, 5), "b": (40,)}


def made(seed: int, ties: bool):
    rng = np.random.default_rng(seed)
    draw = (lambda shape: rng.integers(0, 3, shape).astype(np.float32)) if ties else (lambda shape: rng.normal(size=shape))
    scores, growth = ({s: draw(shape) for s, shape in SHAPES.items()} for _ in range(2))
    return scores, growth, {s: rng.random(shape) < 0.4 for s, shape in SHAPES.items()}


def by_hand(scores, growth, mask, number):
    """Sort pairs (value, position) in Python; of equal values the earlier position stays, and wakes."""
    alive = sorted(np.flatnonzero(mask), key=lambda i: (-scores[i], i))
    staying = alive[: len(alive) - number]
    dead = sorted(set(range(len(mask))) - set(staying), key=lambda i: (-growth[i], i))
    new = np.zeros(len(mask), bool)
    new[[*staying, *dead[:number]]] = True
    return new


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_array_by_array(seed, fraction, ties) -> None:
    scores, growth, mask = made(seed, ties)
    new = exchange(*({s: jnp.asarray(v) for s, v in tree.items()} for tree in (scores, growth, mask)), fraction)
    for site in SHAPES:
        flat = [tree[site].reshape(-1) for tree in (scores, growth, mask)]
        number = int(np.round(np.float32(fraction) * np.float32(flat[2].sum())))  # as float32 has it
        np.testing.assert_array_equal(np.asarray(new[site]).reshape(-1), by_hand(*flat, number))


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_everywhere_the_total_stays_and_every_array_keeps_its_best(fraction, ties) -> None:
    scores, growth, mask = made(7, ties)
    growth["b"] = growth["b"] + 100  # all that is reactivated is there
    new = exchange(*({s: jnp.asarray(v) for s, v in t.items()} for t in (scores, growth, mask)), fraction, everywhere=True)
    assert sum(int(m.sum()) for m in new.values()) == sum(m.sum() for m in mask.values())
    for site in SHAPES:
        best = np.argmax(np.where(mask[site], scores[site], -np.inf))
        assert new[site].reshape(-1)[best]
    if fraction == 1.0:
        assert int(new["a"].sum()) == max(1, sum(m.sum() for m in mask.values()) - 40)
    if fraction == 0.0:
        assert all(np.array_equal(new[s], mask[s]) for s in SHAPES)


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
