"""Kronecker factors on the way back, against the slopes of one row after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.model.transforms.slopes import dense_sites, with_slope_factors, zero_factors

SITES = ["a", "c"]


def dense(w, x):
    return jnp.tanh(x @ w[0]) @ w[1].T


def turned(w, x):
    """Rows on the second axis, in a jitted part."""
    return jax.jit(lambda a, z: jnp.sin(a.T @ z))(w[0], x.T).T @ w[1].T


def scaled(w, x):
    """A kernel on its way through another operation: not the array itself any more."""
    return jnp.tanh(x @ (2 * w[0])) @ w[1].T


def twice(w, x):
    h = jnp.tanh(x @ w[0])
    return jnp.tanh(h @ w[1].T @ w[1]) @ w[1].T


def tokens(w, x):
    return (x.reshape(-1, 2, 2) @ w[0][:2]).sum(1) @ w[1].T


@pytest.mark.parametrize(
    ("fn", "found"), [(dense, {"a", "c"}), (turned, {"a", "c"}), (scaled, {"c"}), (twice, {"a"}), (tokens, {"c"})]
)
def test_factors_are_partial_traces_of_every_rows_slopes(fn, found) -> None:
    keys = jax.random.split(jax.random.key(3), 4)
    w = [jax.random.normal(keys[0], (4, 3)), jax.random.normal(keys[1], (2, 3))]
    x, directions = jax.random.normal(keys[2], (7, 4)), jax.random.normal(keys[3], (7, 2))
    assert dense_sites(fn, SITES)(w, x) == found
    factors = {site: zero_factors(w[SITES.index(site)]) for site in found}
    outputs, pull = jax.vjp(lambda factors: with_slope_factors(fn, SITES)(w, factors, x), factors)
    np.testing.assert_allclose(outputs, fn(w, x), rtol=1e-6)
    slopes = [jax.grad(lambda w, row=row, by=by: by @ fn(w, row[None])[0])(w) for row, by in zip(x, directions, strict=True)]
    for site, (rows, columns) in pull(directions)[0].items():
        of_site = np.stack([np.asarray(slope[SITES.index(site)], float) for slope in slopes])
        np.testing.assert_allclose(rows, np.einsum("nij,nkj->ik", of_site, of_site), rtol=1e-4, atol=1e-5, err_msg=site)
        np.testing.assert_allclose(columns, np.einsum("nij,nik->jk", of_site, of_site), rtol=1e-4, atol=1e-5, err_msg=site)
