"""An exchange keeps the count, drops the lowest scores and reactivates the highest growth; plain NumPy says which those are."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.prune.exchange import exchange

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
