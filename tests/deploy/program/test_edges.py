"""Padding between neighbours, and edges that are cut off, against JAX's own."""

import jax
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

from bayesprune.deploy.program.plain import plain

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "config",
    [
        ((0, 0, 1), (0, 0, 2)),
        ((2, 1, 1), (-1, 3, 0)),
        ((-1, -1, 3), (0, -2, 1)),
        ((0, 0, 0), (-4, 0, 0)),
        ((1, 1, 1), (-1, 0, 4)),
    ],
)
def test_between_neighbours_and_cut_off(config) -> None:
    (equation,) = jax.make_jaxpr(lambda x: lax.pad(x, np.float32(7), config))(X).eqns
    program = plain(equation)
    for inner in program.eqns:
        sides = inner.params.get("padding_config", ())
        assert all(low >= 0 <= high and not between for low, high, between in sides)
    (made,) = jaxpr_as_fun(program)(X, np.float32(7))
    np.testing.assert_array_equal(made, lax.pad(X, np.float32(7), config))


def test_plain_edges_are_kept() -> None:
    (equation,) = jax.make_jaxpr(lambda x: lax.pad(x, np.float32(7), ((1, 2, 0), (0, 0, 0))))(X).eqns
    assert plain(equation) is None
