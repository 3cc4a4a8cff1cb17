"""Operations that are written in simpler ones, against JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun
from scipy import special

from bayesprune.structure.ops import written_out

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 7, 4)).astype(np.float32)


def written(function, *arrays, known=()):
    """What the one operation of ``function`` is written in, as a function; None: it is kept."""
    (equation,) = jax.make_jaxpr(function)(*arrays).eqns
    program = written_out(equation, [*known, *[None] * (len(arrays) - len(known))])
    return program if program is None else lambda *arrays: jaxpr_as_fun(program)(*arrays)[0]


@pytest.mark.fast_cases(9)
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


@pytest.mark.parametrize("reverse", [False, True])
def test_running_logarithms_of_sums(reverse) -> None:
    function = lambda x: lax.cumlogsumexp(x, axis=1, reverse=reverse)  # noqa: E731
    np.testing.assert_allclose(written(function, X)(X), function(X), rtol=1e-5, atol=1e-5)


def test_parts() -> None:
    (equation,) = jax.make_jaxpr(lambda x: lax.split(x, (3, 0, 4), axis=1))(X).eqns
    for ours, its in zip(jaxpr_as_fun(written_out(equation, [None]))(X), lax.split(X, (3, 0, 4), axis=1), strict=True):
        np.testing.assert_array_equal(ours, its)


def test_the_inverse_error_function() -> None:
    x = np.concatenate([np.linspace(-1, 1, 999), [1e-20, 0.0, 1 - 6e-8]]).astype(np.float32)
    np.testing.assert_allclose(written(lax.erf_inv, x)(x), special.erfinv(x.astype(float)), rtol=3e-6)


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize("way", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("places", [2, [6, 0, 3], [5]], ids=["one", "several", "a list of one"])
def test_what_is_put_at_known_places(way, places) -> None:
    updates = RNG.normal(size=X[:, np.asarray(places)].shape).astype(np.float32)
    put = lambda x, updates: getattr(x.at[:, np.asarray(places)], way)(updates)  # noqa: E731
    equation = next(e for e in jax.make_jaxpr(put)(X, updates).eqns if e.primitive.name.startswith("scatter"))
    index = np.reshape(np.asarray(places, np.int32), equation.invars[1].aval.shape)
    program = written_out(equation, [None, index, None])
    np.testing.assert_array_equal(jaxpr_as_fun(program)(X, index, updates)[0], put(jnp.asarray(X), updates))
    assert written_out(equation, [None, None, None]) is None
    assert written_out(equation, [None, index + 7, None]) is None  # beyond the end: dropped, or moved inside


def test_what_is_put_twice_in_one_place_is_kept() -> None:
    put = lambda x: lax.scatter_add(  # noqa: E731
        x, np.array([[1], [1]]), np.ones((2, 3, 4), np.float32), lax.ScatterDimensionNumbers((1, 2), (1,), (1,))
    )
    (equation,) = jax.make_jaxpr(put)(X).eqns
    assert written_out(equation, [None, np.array([[1], [1]]), None]) is None


def test_what_is_simple_is_kept() -> None:
    assert written(jnp.tanh, X) is None
