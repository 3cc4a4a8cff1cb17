"""Families of posteriors: their names tell them apart, and draws have the moments that they state."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions.kl import kl_divergence
from scipy import stats

from bayesprune.posteriors import mean_field, points, samples, spike_slab, structured
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.correlated import FULL, MATRIX_NORMAL, Correlated, CorrelatedNormal
from bayesprune.posteriors.divergence import closed_form, divergence
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.rows_and_columns import marginal
from bayesprune.posteriors.spike_slab import SpikeSlab

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
FAMILIES = dict(
    zip(
        NODES,
        (mean_field.FAMILY, spike_slab.FAMILY, points.FAMILY, samples.FAMILY, structured.FAMILY, FULL, MATRIX_NORMAL),
        strict=True,
    )
)


def test_every_record_of_names_is_found() -> None:
    assert set(posterior_params.families()) == set(FAMILIES.values())


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


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", NODES)
def test_draws_have_the_moments(kind, rng_key) -> None:
    """100,000 draws: means and variances within 5 standard errors (fails once in 1e5)."""
    node = NODES[kind]
    draws = np.asarray(jax.vmap(node.draw)(jax.random.split(rng_key, 100_000)), np.float64)
    mean, variance = (np.asarray(value, np.float64) for value in node.moments())
    centred = draws - mean
    np.testing.assert_array_less(np.abs(centred.mean(0)), 5 * np.sqrt(variance / len(draws)) + 1e-6)
    error = np.sqrt(((centred**4).mean(0) - variance**2).clip(0) / len(draws))
    np.testing.assert_array_less(np.abs((centred**2).mean(0) - variance), 5 * error + 1e-6)


@pytest.mark.parametrize("kind", NODES)
def test_a_node_is_cut_or_conditioned_to_zero(kind) -> None:
    node = NODES[kind]
    alive = jnp.array([[True, True], [False, False]]) if node.whole else jnp.array([True, False, True])
    for left in (node.cut(alive), node.given_zero(alive)):
        assert type(left) is type(node)
        np.testing.assert_array_equal(np.asarray(left.loc)[~np.asarray(alive)], 0)
        np.testing.assert_array_equal(np.asarray(left.scale)[~np.asarray(alive)], 0)
    if not node.together:
        np.testing.assert_array_equal(left.loc, jnp.where(alive, node.loc, 0))


def test_gain_is_the_ratio_of_densities_at_zero_or_says_why_there_is_none() -> None:
    """Savage and Dickey by SciPy: log q(0) - log p(0)."""
    node = MeanField(LOC, SCALE, 0.7)
    expected = stats.norm.logpdf(0, LOC, SCALE) - stats.norm.logpdf(0, 0, 0.7)
    np.testing.assert_allclose(node.gain(), expected, rtol=1e-5)
    full = NODES["full"].under(0.7)
    np.testing.assert_allclose(full.gain(), stats.norm.logpdf(0, LOC, full.scale) - stats.norm.logpdf(0, 0, 0.7), rtol=1e-5)
    with pytest.raises(ValueError, match="no Gaussian about zero"):
        NODES["mean_field"].gain()
    with pytest.raises(TypeError, match="spike and slab"):
        NODES["spike_slab"].gain()


def test_divergence_is_that_of_draws(rng_key) -> None:
    """KL as the mean of log q - log p over 100,000 draws by SciPy, within 5 standard errors (fails once in 1e5)."""
    prior = dist.Normal(0.0, 1.3)
    for node in (MeanField(LOC, SCALE), NODES["matrix_normal"]):
        plain = dataclasses.replace(node, unit=1.0)
        draws = np.asarray(jax.vmap(plain.draw)(jax.random.split(rng_key, 100_000)), np.float64).reshape(100_000, -1)
        covariance = np.kron(*(np.asarray(f @ f.T) for f in (node.rows, node.columns))) if node.together else np.diag(SCALE**2)
        q = stats.multivariate_normal(np.ravel(node.loc), covariance).logpdf(draws)
        ratio = q - stats.norm.logpdf(draws, 0, 1.3).sum(1)
        nats = node.divergence(prior)
        assert nats.shape == node.loc.shape
        assert abs(float(nats.sum()) - ratio.mean()) < 5 * ratio.std() / np.sqrt(len(ratio))
    with pytest.raises(ValueError, match=r"Normal from Laplace has no closed form"):
        MeanField(LOC, SCALE).divergence(dist.Laplace())


def test_a_law_of_its_own_is_found_by_numpyros_registry() -> None:
    class OwnNormal(dist.Normal):
        pass

    assert closed_form(OwnNormal(), dist.Normal()) is None  # not for a class that the registry's derives from
    kl_divergence.register(OwnNormal, dist.Normal)(lambda q, p: jnp.full(jnp.shape(q.loc), 2.0))
    assert float(divergence(OwnNormal(0.0, 1.0), dist.Normal())) == 2.0
    np.testing.assert_allclose(  # NumPyro's own, and not of laws with an event
        divergence(dist.Gamma(2.0, 3.0), dist.Gamma(1.0, 1.0)), kl_divergence(dist.Gamma(2.0, 3.0), dist.Gamma(1.0, 1.0))
    )
    assert closed_form(dist.Dirichlet(jnp.ones(2)), dist.Dirichlet(jnp.ones(2))) is None
    assert closed_form(CorrelatedNormal(LOC, jnp.eye(3), jnp.ones((1, 1))), dist.Normal()) is not None


def test_parameters_without_the_entry_know_of_no_prior() -> None:
    params = {"w_auto_loc": LOC, "w_auto_scale": SCALE}
    assert posterior_params.read(params)["w"].prior_scale is None
    entry = posterior_params.describe({"w": MeanField(LOC, SCALE, 0.3)})
    assert float(posterior_params.read(params | entry)["w"].prior_scale) == pytest.approx(0.3)


def test_what_the_entry_does_not_name_is_no_weight() -> None:
    params = {"w_auto_loc": LOC, "w_auto_scale": SCALE, "noise_auto_loc": LOC, "noise_auto_scale": SCALE}
    assert list(posterior_params.read(params | posterior_params.describe({"w": MeanField(LOC, SCALE)}))) == ["w"]
