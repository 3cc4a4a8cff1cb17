"""Moving labels against moving the arrays that they describe."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from bayesprune.structure.ops import PRIMITIVES, movement

MOVES = {  # shape, parameters as of the primitive, the operation itself
    "transpose": ((2, 3, 4), {"permutation": (2, 0, 1)}, lambda x: lax.transpose(x, (2, 0, 1))),
    "broadcast_in_dim": (
        (3, 4),
        {"shape": (2, 3, 5, 4), "broadcast_dimensions": (1, 3)},
        lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)),
    ),
    "squeeze": ((2, 1, 3, 1), {"dimensions": (1, 3)}, lambda x: lax.squeeze(x, (1, 3))),
    "slice": (
        (5, 6, 3),
        {"start_indices": (1, 0, 0), "limit_indices": (4, 6, 2), "strides": (1, 2, 1)},
        lambda x: lax.slice(x, (1, 0, 0), (4, 6, 2), (1, 2, 1)),
    ),
    "rev": ((2, 3, 4), {"dimensions": (0, 2)}, lambda x: lax.rev(x, (0, 2))),
}
RESHAPES = [
    ((2, 3, 4), (6, 4)),
    ((2, 3, 4), (2, 12)),
    ((6, 4), (2, 3, 4)),
    ((4, 6), (8, 3)),
    ((2, 3, 4, 5), (6, 20)),
    ((1, 3, 1, 4), (3, 4, 1)),
    ((12,), (1, 3, 1, 4)),
    ((2, 6), (2, 2, 3)),
    ((1,), ()),
    ((), (1, 1)),
]


def patterns(shape, rng):
    """Labels that stay the same along every possible choice of axes."""
    for kept in range(2 ** len(shape)):
        sizes = tuple(n if kept >> axis & 1 else 1 for axis, n in enumerate(shape))
        yield rng.integers(0, 5, sizes)


def check(shape, params, name, run):
    rng = np.random.default_rng(0)
    new = np.asarray(run(jnp.zeros(shape))).shape
    move = PRIMITIVES[name].move(params, shape, new)
    assert move is not None
    for labels in patterns(shape, rng):
        wanted = np.asarray(run(jnp.asarray(np.broadcast_to(labels, shape))))
        moved = move(labels)
        assert moved.ndim == len(new)
        np.testing.assert_array_equal(np.broadcast_to(moved, new), wanted)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", MOVES)
def test_labels_move_as_their_arrays_do(name) -> None:
    shape, params, run = MOVES[name]
    check(shape, params, name, run)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("shape", "new"), RESHAPES)
def test_reshapes(shape, new) -> None:
    check(shape, {"dimensions": None, "new_sizes": new}, "reshape", lambda x: lax.reshape(x, new))


def test_joining() -> None:
    rng = np.random.default_rng(1)
    shapes = [(2, 3, 4), (2, 1, 4), (2, 2, 4)]
    for parts in zip(*(patterns(shape, rng) for shape in shapes), strict=True):
        full = [np.broadcast_to(part, shape) for part, shape in zip(parts, shapes, strict=True)]
        joined = movement.concatenate(parts, shapes, 1)
        np.testing.assert_array_equal(np.broadcast_to(joined, (2, 6, 4)), np.concatenate(full, axis=1))
    same = [np.full((1, 1, 1), 7)] * 2
    assert movement.concatenate(same, shapes[:2], 1).shape == (1, 1, 1)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("config", [((0, 0, 0), (1, 2, 0), (0, 0, 0)), ((0, 1, 1), (-1, 0, 0), (2, -1, 0))])
def test_padding(config) -> None:
    rng = np.random.default_rng(2)
    shape = (2, 3, 4)
    for labels in patterns(shape, rng):
        wanted = np.asarray(lax.pad(jnp.asarray(np.broadcast_to(labels, shape)), jnp.asarray(9), config))
        np.testing.assert_array_equal(np.broadcast_to(movement.pad(labels, shape, 9, config), wanted.shape), wanted)


def test_zeros_around_a_map_are_the_maps() -> None:
    config = ((0, 0, 0), (1, 1, 0), (1, 1, 0))
    assert movement.pad(np.array([[[3, 4]]]), (1, 5, 2), movement.NOTHING, config).tolist() == [[[-1, 3, 4, -1]]]
    assert movement.pad(np.array([[[3]]]), (1, 5, 1), movement.NOTHING, config).shape == (1, 1, 3)
