"""Families of posteriors: their names tell them apart, and draws have the moments that they state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.types import MeanField, SpikeSlab
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.correlated import Correlated, marginal

LOC, SCALE, LOGIT = jnp.array([1.5, 0.0, -0.3]), jnp.array([0.2, 1.0, 0.5]), jnp.array([2.0, -1.0, 0.0])


def correlated(rows, columns, loc) -> Correlated:
    return Correlated(loc, marginal(rows, columns, loc.shape), None, 2.0, rows, columns)


NODES = {
    "mean_field": MeanField(LOC, SCALE, None, 0.5),
    "spike_slab": SpikeSlab(LOC, SCALE, LOGIT, jnp.array([1.0, 2.0, 0.5])),
    "points": MeanField(LOC, jnp.zeros(3), None, 3.0),
    "samples": MeanField(LOC, SCALE, None, 2.0),  # the moments; draws stay in the parameters
    "structured": MeanField(LOC, SCALE, None, 2.0),  # the marginals; correlations stay in the parameters
    "full": correlated(jnp.array([[0.2, 0, 0], [0.6, 0.8, 0], [0.3, 0, 0.4]]), jnp.ones((1, 1)), LOC),
    "matrix_normal": correlated(jnp.array([[0.2, 0], [0.6, 0.8]]), jnp.array([[1.0, 0], [0.5, 1.0]]), jnp.ones((2, 2))),
}
FAMILIES = {type(family).__module__.rpartition(".")[2]: family for family in posterior_params.families()}


def test_every_file_with_a_family_is_found() -> None:
    assert set(FAMILIES) == set(NODES)


@pytest.mark.parametrize("kind", NODES)
def test_what_is_written_is_read_back(kind) -> None:
    family, node = FAMILIES[kind], NODES[kind]
    draws = jnp.stack([LOC - SCALE, LOC + SCALE])[None]  # have these moments
    params = {family.name("net.w", field): draws if field == "draws" else jnp.zeros_like(node.loc) for field in family.fields}
    params["other"] = 1.0
    written = posterior_params.write(params, {"net.w": node}) | posterior_params.describe({"net.w": node})
    back = posterior_params.read(written)["net.w"]
    assert type(back) is type(node) and written["other"] == 1.0
    for field in {"loc", "scale", *family.fields, "unit"} - {"correlation", "draws", "factor"}:
        np.testing.assert_allclose(getattr(back, field), getattr(node, field), atol=1e-7)


@pytest.mark.parametrize("kind", NODES)
def test_draws_have_the_moments(kind, rng_key) -> None:
    """100,000 draws: means and variances within 5 standard errors (fails once in 1e5)."""
    family, node = FAMILIES[kind], NODES[kind]
    draws = np.asarray(jax.vmap(lambda key: family.draw(key, node))(jax.random.split(rng_key, 100_000)), np.float64)
    mean, variance = (np.asarray(value, np.float64) for value in family.moments(node))
    centred = draws - mean
    np.testing.assert_array_less(np.abs(centred.mean(0)), 5 * np.sqrt(variance / len(draws)) + 1e-6)
    error = np.sqrt(((centred**4).mean(0) - variance**2).clip(0) / len(draws))
    np.testing.assert_array_less(np.abs((centred**2).mean(0) - variance), 5 * error + 1e-6)


def test_parameters_without_the_entry_know_of_no_prior() -> None:
    params = {"w_auto_loc": LOC, "w_auto_scale": SCALE}
    assert posterior_params.read(params)["w"].prior_scale is None
    entry = posterior_params.describe({"w": MeanField(LOC, SCALE, 0.3)})
    assert float(posterior_params.read(params | entry)["w"].prior_scale) == pytest.approx(0.3)


def test_what_the_entry_does_not_name_is_no_weight() -> None:
    params = {"w_auto_loc": LOC, "w_auto_scale": SCALE, "noise_auto_loc": LOC, "noise_auto_scale": SCALE}
    assert list(posterior_params.read(params | posterior_params.describe({"w": MeanField(LOC, SCALE)}))) == ["w"]
