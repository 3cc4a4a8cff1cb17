"""Sparse variational dropout: the prior's divergence in a fit, its cut, and what it refuses."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.formulas import log_uniform
from bayesprune.model.prior import FittedLogUniform, LogUniformDensity
from bayesprune.posteriors.divergence import divergence


def test_weights_have_the_exact_divergence_or_the_fit() -> None:
    """(13.2) and (13.5), by kinds."""
    loc, scale = np.array([0.3, -1.0]), np.array([0.2, 2.0])
    q = dist.Normal(loc, scale)
    np.testing.assert_allclose(divergence(q, LogUniformDensity()), log_uniform.exact_kl_divergence(loc, scale), rtol=1e-6)
    np.testing.assert_allclose(divergence(q, FittedLogUniform()), log_uniform.kl_divergence(loc, scale), rtol=1e-6)
    assert not np.allclose(divergence(q, LogUniformDensity()), divergence(q, FittedLogUniform()), atol=1e-4)


@pytest.mark.slow
def test_a_loss_is_misfit_and_divergence(rng_key) -> None:
    """Of a regression in which x is 0, the bound is a constant of the data and KL of every weight."""
    data = bp.Dataset(np.zeros((4, 3), np.float32), np.zeros(4, np.float32))
    for name, law in (("exact", log_uniform.exact_kl_divergence), ("fit", log_uniform.kl_divergence)):
        bnn = bp.BNN(
            bp.nets.MLP(hidden=(), num_outputs=1), prior=bp.priors.LogUniform(name), likelihood=bp.likelihoods.Normal(1.0),
            input_shape=(3,), bayesian=bp.select.kernels,
        )  # fmt: skip
        fit = bp.fit_svi(rng_key, bnn, data, num_steps=1, course=bp.courses.Plain(rate=1e-12))
        node = bnn.posterior(fit.params)["Dense_0.kernel"]
        constant = 4 * 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(fit.losses[0], constant + np.sum(law(node.loc, node.scale)), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Cut leaves no path")
def test_a_fit_is_cut_where_dropout_rates_are_high_and_has_no_evidence(rng_key) -> None:
    data = programs.classes()
    bnn = programs.small_bnn(prior=bp.priors.LogUniform(), bayesian=bp.select.kernels)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=20, estimator="local")
    assert sorted(bnn.read(fit.params)) == [f"Dense_{n}.kernel" for n in range(3)]
    params = fit.params | {"Dense_0.kernel_auto_scale": jax.numpy.full((4, 8), 10.0)}
    pruned = bp.prune_once(params, bp.methods.Cut(score="snr", threshold=0.2231), program=bnn)
    node = bnn.read(params)["Dense_0.kernel"]
    cut = log_uniform.log_alpha(node.loc, node.scale) > 3.0
    np.testing.assert_array_equal(~np.asarray(pruned.mask["Dense_0.kernel"])[np.asarray(cut)], True)
    assert cut.all()
    with pytest.raises(ValueError, match="Gaussian"):
        bp.bmr_prune(fit.params)


def test_a_compact_network_keeps_the_weights_law(rng_key) -> None:
    """They are independent Gaussians: no draws are needed, and a single layer's mean is that of its locs."""
    data = bp.Dataset(np.eye(4, 3, dtype=np.float32), np.zeros(4, np.float32))
    bnn = bp.BNN(
        bp.nets.MLP(hidden=(), num_outputs=1), prior=bp.priors.LogUniform(), likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(3,), bayesian=bp.select.kernels,
    )  # fmt: skip
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=2)
    node = bnn.posterior(fit.params)["Dense_0.kernel"]
    small = bp.compact(bnn, fit.params, {"Dense_0.kernel": np.array([[True], [False], [True]])})
    x = np.eye(3, dtype=np.float32)
    means = np.where([True, False, True], node.loc[:, 0], 0.0) + np.asarray(fit.params["Dense_0.bias"])
    np.testing.assert_allclose(small.predict(x, rng_key=rng_key, num_samples=4000), means, atol=5e-4)
    draws = np.asarray(small.predict_draws(rng_key, x, num_samples=4000))[..., 0]
    np.testing.assert_allclose(draws.std(0), np.where([True, False, True], node.scale[:, 0], 0.0), rtol=0.06, atol=1e-5)


def test_points_draws_and_unknown_names_are_refused(rng_key) -> None:
    data = programs.classes()
    with pytest.raises(ValueError, match="LogUniform has no maximum"):
        bp.fit_svi(rng_key, programs.small_bnn(prior=bp.priors.LogUniform(), posterior="map"), data, num_steps=1)
    with pytest.raises(ValueError, match="divergence"):
        bp.priors.LogUniform("dawson")
