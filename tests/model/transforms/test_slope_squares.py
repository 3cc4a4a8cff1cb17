"""Squared slopes by the variances of local noise, against the slopes of one row after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.model.transforms.local_noise import drawn_once, local_noise
from bayesprune.model.transforms.slopes import SlopeSquares

ROWS = 7


def dense(w, x):
    return jnp.tanh(x @ w["a"] + w["b"]) @ w["c"].T


def masked(w, x):
    """Dead weights, a transposed kernel, a norm's scale and shift."""
    alive = jnp.arange(12).reshape(4, 3) % 2 == 0
    h = x @ jnp.where(alive, w["a"], 0)
    h = (h - h.mean(1, keepdims=True)) * w["b"] + 0.1
    return jax.nn.gelu(h) @ w["c"].T - w["d"]


def again(w, x):
    """A kernel that is met twice: its slopes are sums."""
    h = jnp.tanh(x @ w["a"])
    return jnp.tanh(h @ w["c"].T @ w["c"]) @ w["c"].T + w["d"]


def tokens(w, x):
    """Two tokens of a row share a kernel; the last layer meets a row once."""
    h = jnp.sin(x.reshape(-1, 2, 2) @ w["a"][:2])
    return h.sum(1) @ w["c"].T


CASES = {"dense": (dense, set()), "masked": (masked, set()), "again": (again, {"c"}), "tokens": (tokens, {"a"})}


def weights():
    keys = jax.random.split(jax.random.key(3), 4)
    shapes = {"a": (4, 3), "b": (3,), "c": (2, 3), "d": (2,)}
    return {name: jax.random.normal(key, shape) for (name, shape), key in zip(shapes.items(), keys, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_squares_are_those_of_every_rows_slopes(name) -> None:
    fn, several = CASES[name]
    w, x = weights(), jax.random.normal(jax.random.key(4), (ROWS, 4))
    directions = jax.random.normal(jax.random.key(5), (ROWS, 2))
    ones = jax.tree.map(jnp.ones_like, w)
    lifted = lambda v: {site: SlopeSquares(w[site], v[site]) for site in w}  # noqa: E731
    drawn = drawn_once(fn, "draw")(lifted(ones), x)
    assert {site for site, once in drawn.items() if once} & set("acb") == several
    outputs, pull = jax.vjp(lambda v: local_noise(fn, "draw")(lifted(v), x), ones)
    np.testing.assert_allclose(outputs, fn(w, x), rtol=1e-6)
    slopes = [jax.grad(lambda w, row=row, by=by: by @ fn(w, row[None])[0])(w) for row, by in zip(x, directions, strict=True)]
    for site, found in pull(directions)[0].items():
        if drawn[site]:
            assert not np.asarray(found).any()
        else:
            expected = sum(np.square(np.asarray(slope[site], float)) for slope in slopes)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=site)


def test_others_have_plain_slopes() -> None:
    """Beside weights of this kind a plain array is differentiated as ever."""
    w, x = weights(), jax.random.normal(jax.random.key(4), (ROWS, 4))
    mixed = lambda c: local_noise(dense, "draw")({"a": SlopeSquares(w["a"], 1.0), "b": w["b"], "c": c}, x).sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(mixed)(w["c"]), jax.grad(lambda c: dense(w | {"c": c}, x).sum())(w["c"]), rtol=1e-5)
