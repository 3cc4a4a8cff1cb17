"""Operations that are written in simpler ones, against JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

from bayesprune.structure.simpler import simpler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 7, 4)).astype(np.float32)


def written(function, *arrays, known=()):
    """What the one operation of ``function`` is written in, as a function; None: it is kept."""
    (equation,) = jax.make_jaxpr(function)(*arrays).eqns
    program = simpler(equation, [*known, *[None] * (len(arrays) - len(known))])
    return program if program is None else lambda *arrays: jaxpr_as_fun(program)(*arrays)[0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("function", [lax.cumsum, lax.cumprod, lax.cummax, lax.cummin])
@pytest.mark.parametrize("x", [X, (10 * X).astype(np.int32), X[:, :1], X[:, :0]], ids=["floats", "whole", "one", "none"])
def test_running_sums(function, reverse, x) -> None:
    ours = written(lambda x: function(x, axis=1, reverse=reverse), x)
    np.testing.assert_allclose(ours(x), function(x, axis=1, reverse=reverse), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("starts", [(0, 2, 1), (0, 6, 3), (-3, 1, 0)], ids=["inside", "moved back", "moved on"])
def test_slices_whose_place_is_known(starts) -> None:
    at = [np.asarray(start, np.int32) for start in starts]
    cut = lambda x, *at: lax.dynamic_slice_p.bind(x, *at, slice_sizes=(3, 2, 3))  # noqa: E731
    ours = written(cut, X, *at, known=[None, *at])
    np.testing.assert_array_equal(ours(X, *at), lax.dynamic_slice(X, starts, (3, 2, 3)))
    assert written(cut, X, *at, known=[None, *at[:2], None]) is None
    part = RNG.normal(size=(3, 2, 3)).astype(np.float32)
    put = lambda x, part, *at: lax.dynamic_update_slice_p.bind(x, part, *at)  # noqa: E731
    ours = written(put, X, part, *at, known=[None, None, *at])
    np.testing.assert_array_equal(ours(X, part, *at), lax.dynamic_update_slice(X, part, starts))
    assert written(put, X, part, *at) is None


def test_what_is_simple_is_kept() -> None:
    assert written(jnp.tanh, X) is None
