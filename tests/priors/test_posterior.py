"""Yesterday's posterior as today's prior: its moments, what is forgotten, what is dead, and the evidence of all data."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from numpyro.handlers import seed, trace
from numpyro.infer.util import log_density
from tests.infer import programs

import bayesprune as bp
from bayesprune.infer.settings import starting_mask

UNIT = 0.5  # of priors.Gaussian(0.5), whose sites are in units of its scale


def fit_of(mask: dict | None = None, **changed) -> bp.FitResult:
    """As a fit of `programs.small_bnn` under a Gaussian prior would be, of random moments."""
    bnn, rng = programs.small_bnn(prior=bp.priors.Gaussian(UNIT)), np.random.default_rng(0)
    params = {}
    for spec in bnn.layout:
        stem = "auto" if spec.prunable else "dense"
        params[f"{spec.path}_{stem}_loc"] = jnp.asarray(rng.normal(size=spec.shape), jnp.float32)
        params[f"{spec.path}_{stem}_scale"] = jnp.asarray(rng.uniform(0.1, 0.9, size=spec.shape), jnp.float32)
    params |= changed
    return bp.FitResult(params | bnn.describe(params), None, np.ones(1), mask or {}, {})


def test_the_law_is_the_product_of_posterior_and_first_prior() -> None:
    """(22.2), oracle: the normalised product of the two densities on a grid."""
    fit, forgotten = fit_of(), 0.3
    prior = bp.priors.Posterior(fit, forgetting=forgotten)
    mean = UNIT * float(fit.params["Dense_0.bias_auto_loc"][2])
    spread = UNIT * float(fit.params["Dense_0.bias_auto_scale"][2])
    w = np.linspace(-5, 5, 200_001)
    weights = np.exp(
        (1 - forgotten) * scipy.stats.norm.logpdf(w, mean, spread) + forgotten * scipy.stats.norm.logpdf(w, 0, UNIT)
    )
    weights /= weights.sum()
    expected = weights @ w
    np.testing.assert_allclose(prior.loc["Dense_0.bias"][2], expected, rtol=1e-5)
    np.testing.assert_allclose(prior.scale["Dense_0.bias"][2] ** 2, weights @ (w - expected) ** 2, rtol=1e-5)


@pytest.mark.slow
def test_without_forgetting_its_density_is_the_fitted_one_and_a_fit_starts_there() -> None:
    fit = fit_of()
    prior = bp.priors.Posterior(fit)
    bnn = programs.small_bnn(prior=prior)
    values = {str(s.path): np.random.default_rng(1).normal(size=s.shape).astype(np.float32) for s in bnn.layout}
    ours = log_density(seed(lambda: prior.model(bnn.layout), 0), (), {}, values)[0]
    stems = {str(s.path): f"{s.path}_{'auto' if s.prunable else 'dense'}" for s in bnn.layout}
    law = {
        p: (UNIT * np.asarray(fit.params[f"{s}_loc"]), UNIT * np.asarray(fit.params[f"{s}_scale"])) for p, s in stems.items()
    }
    theirs = sum(scipy.stats.norm.logpdf(value, *law[path]).sum() for path, value in values.items())
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    start = trace(seed(bnn.guide, 0)).get_trace()
    for path, stem in stems.items():
        np.testing.assert_allclose(start[f"{stem}_loc"]["value"], law[path][0], rtol=1e-6)
        np.testing.assert_allclose(start[f"{stem}_scale"]["value"], law[path][1], rtol=1e-6)


@pytest.mark.slow
def test_evidence_is_against_the_first_prior_also_the_second_time() -> None:
    """Oracle: (2.5) with the fitted moments and the first prior's scale, by SciPy."""
    bnn = programs.small_bnn(prior=bp.priors.Posterior(fit_of()))
    params = {name: value for name, value in fit_of().params.items() if not name.endswith(("$unit", "$prior_scale"))}
    second = bp.FitResult(params | bnn.describe(params), None, np.ones(1), {}, {})
    loc, scale = (np.asarray(params[f"Dense_0.bias_auto_{field}"], np.float64) for field in ("loc", "scale"))
    lost = scipy.stats.norm.logpdf(0, 0, UNIT) - scipy.stats.norm.logpdf(0, loc, scale)
    np.testing.assert_allclose(bp.scores.evidence(bnn.read(second.params))["Dense_0.bias"], lost, rtol=1e-4, atol=1e-5)
    assert bp.bmr_prune(second.params).mask["Dense_0.bias"].shape == (8,)
    third = bp.priors.Posterior(second, forgetting=0.5)
    np.testing.assert_allclose(third.first["Dense_0.bias"], UNIT)


def test_what_was_pruned_stays_dead_unless_asked() -> None:
    alive = np.arange(8) % 2 == 0
    prior = bp.priors.Posterior(fit_of({"Dense_0.bias": alive}))
    bnn = programs.small_bnn(prior=prior)
    np.testing.assert_array_equal(starting_mask(bnn, None)["Dense_0.bias"], alive)
    assert list(starting_mask(bnn, None)) == ["Dense_0.bias"] and starting_mask(bnn, {}) == {}
    np.testing.assert_allclose(prior.scale["Dense_0.bias"][~alive], UNIT)  # the first prior, for those that are asked back
    assert not prior.loc["Dense_0.bias"][~alive].any()
    with pytest.raises(ValueError, match=r"pruned weights at 'Dense_0.bias', which may not be pruned.*mask=\{\}"):
        starting_mask(programs.small_bnn(prior=prior, prunable=bp.select.nothing), None)


def test_what_is_no_fit_or_another_networks_is_refused() -> None:
    with pytest.raises(TypeError, match="fit must be a fit"):
        bp.priors.Posterior(fit_of().params)
    with pytest.raises(ValueError, match=r"forgetting must lie in \[0, 1\)"):
        bp.priors.Posterior(fit_of(), forgetting=1.0)
    points = fit_of(**{"Dense_0.bias_auto_scale": jnp.zeros(8)})
    with pytest.raises(ValueError, match=r"points at 'Dense_0.bias'.*moped"):
        bp.priors.Posterior(points)
    bare = bp.FitResult({"w_auto_loc": jnp.ones(3), "w_auto_scale": jnp.ones(3)}, None, np.ones(1), {}, {})
    with pytest.raises(ValueError, match="do not say which sites are weights"):
        bp.priors.Posterior(bare)
    other = bp.BNN(
        bp.nets.MLP((5,), 3), prior=bp.priors.Posterior(fit_of()), likelihood=bp.likelihoods.Categorical(), input_shape=(4,)
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"fit of another network: of 'Dense_0.kernel', \(4, 5\), it has shape \(4, 8\)"):
        seed(other.model, 0)(np.ones((1, 4), np.float32))


@pytest.mark.slow
def test_two_days_are_one(rng_key) -> None:
    """Oracle: the normal equations of all rows. With orthogonal columns the mean field is exact on each day."""
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 20, np.float32)
    y = signs @ np.array([0.8, 0.0], np.float32) + 0.5 * np.random.default_rng(0).normal(size=80).astype(np.float32)

    def bnn(prior) -> bp.BNN:
        net, noise = bp.nets.MLP((), 1), bp.likelihoods.Normal(0.5)
        weights_alone = lambda path, shape: path.endswith("kernel")  # noqa: E731
        return bp.BNN(
            net, prior=prior, likelihood=noise, input_shape=(2,), frozen="Dense_0.bias", prunable=weights_alone
        )  # fmt: skip

    settings = {
        "num_steps": 3_000, "optimizer": optax.adam(optax.cosine_decay_schedule(0.02, 3_000)), "kl_weight": 1.0,
        "course": bp.courses.Plain(), "progress": False, "init_params": None,
    }  # fmt: skip
    start = bp.from_trained(bnn(bp.priors.Gaussian()), {"Dense_0": {"kernel": np.zeros((2, 1)), "bias": np.zeros(1)}})
    fit = bp.fit_svi(rng_key, bnn(bp.priors.Gaussian()), bp.Dataset(signs[:40], y[:40]), **settings | {"init_params": start})
    second = bnn(bp.priors.Posterior(fit))
    still = {"Dense_0.bias": np.zeros(1, np.float32)}
    fit = bp.fit_svi(jax.random.key(1), second, bp.Dataset(signs[40:], y[40:]), **settings | {"init_params": still})
    precision = signs.T @ signs / 0.25 + np.eye(2)
    node = second.posterior(fit.params)["Dense_0.kernel"]
    np.testing.assert_allclose(np.ravel(node.loc), np.linalg.solve(precision, signs.T @ y / 0.25), atol=5e-3)
    np.testing.assert_allclose(np.ravel(node.scale), np.diag(precision) ** -0.5, rtol=0.03)
    np.testing.assert_array_equal(np.ravel(bp.bmr_prune(fit.params).mask["Dense_0.kernel"]), [True, False])
