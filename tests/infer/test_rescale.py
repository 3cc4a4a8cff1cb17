"""Scales under another noise: those that linear models have in closed form, and counts whose law is known."""

from dataclasses import replace

import jax
import numpy as np
import pytest
import scipy.stats

import bayesprune as bp
from bayesprune.infer import refit_noise
from bayesprune.infer.refit_noise import information, rescaled
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.mean_field import MeanField

RNG = np.random.default_rng(0)


def linear(prior):
    return bp.BNN(bp.nets.MLP((), 1), prior=prior, likelihood=bp.likelihoods.Normal(), input_shape=(3,))


@pytest.mark.slow
@pytest.mark.parametrize("prior", [bp.priors.Gaussian(0.7), bp.priors.DiracSlab()])
def test_scales_are_those_of_a_linear_model_under_the_new_noise(prior) -> None:
    """(21.19): the mean field's precision of weight j is 1 / p² + c sum_i x_ij², whichever precision c the noise has."""
    bnn = linear(prior)
    fit = bp.fit_svi(
        jax.random.key(0), bnn, bp.Dataset(RNG.normal(size=(20, 3)), RNG.normal(size=20)), num_steps=1, progress=False
    )
    squares = np.array([[5.0], [2.0], [0.4]])

    def under(c):
        nodes = bnn.posterior(fit.params)
        node = nodes["Dense_0.kernel"]
        least = float(node.prior_scale if isinstance(node, MeanField) else 1.0) ** -2.0
        nodes["Dense_0.kernel"] = replace(node, scale=((least + c * squares) ** -0.5).astype(np.float32))
        return posterior_params.write(fit.params, nodes)

    found = rescaled(bnn, under(3.0), 7.0)
    np.testing.assert_allclose(
        bnn.posterior(found)["Dense_0.kernel"].scale, bnn.posterior(under(21.0))["Dense_0.kernel"].scale, rtol=1e-5
    )


def test_the_dead_and_those_no_surer_than_their_prior_stay() -> None:
    bnn = linear(bp.priors.DiracSlab())
    fit = bp.fit_svi(
        jax.random.key(0), bnn, bp.Dataset(RNG.normal(size=(20, 3)), RNG.normal(size=20)), num_steps=1, progress=False
    )
    nodes = bnn.posterior(fit.params)
    scale = np.array([[0.0], [1.2], [0.1]], np.float32)
    nodes["Dense_0.kernel"] = replace(nodes["Dense_0.kernel"], scale=scale)
    found = rescaled(bnn, posterior_params.write(fit.params, nodes), 4.0)
    scales = np.asarray(bnn.posterior(found)["Dense_0.kernel"].scale)
    assert (scales[:2] == scale[:2]).all() and scales[2, 0] == pytest.approx((1 + 4 * 99) ** -0.5, rel=1e-5)
    assert all(np.array_equal(found[name], fit.params[name]) for name in fit.params if name.endswith(("loc", "logit")))


def test_information_is_fishers_of_the_log_mean() -> None:
    """By SciPy: the expected square of the score of log m, summed over all counts."""
    r, mean, step = 3.0, 20.0, 1e-4
    y = np.arange(2000)
    log = [scipy.stats.nbinom.logpmf(y, r, r / (r + mean * np.exp(sign * step))) for sign in (1, -1)]
    score = (log[0] - log[1]) / (2 * step)
    wanted = np.sum(scipy.stats.nbinom.pmf(y, r, r / (r + mean)) * score**2)
    found = information({refit_noise.LOG_R_LOC: np.float32(np.log(r))}, np.full(4, mean))
    assert found == pytest.approx(wanted, rel=1e-4)
    assert information({refit_noise.LOC: np.float32(np.log(5.0))}, np.ones(1)) == pytest.approx(5.0, rel=1e-5)
    assert information({refit_noise.LOC: np.zeros(2, np.float32)}, np.ones(1)) is None


@pytest.mark.every
@pytest.mark.slow
def test_large_poisson_counts_have_the_spread_of_their_errors() -> None:
    """A negative binomial on Poisson counts of mean 10,000, judged by 400 new rows: deviations (y - f) / sd have size 1.

    The spread is 1.25 times Poisson's, for so far is the network from the means: the size is .99. Of scales as trained under a
    far larger noise it was 1.5 times, the network's own part .35 of Poisson's variance. The size of 400 Gaussian numbers is
    within .15 of 1 but for one table in 50,000.
    """
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.7, 1.7, (800, 2)).astype(np.float32)
    rates = 1e4 * np.exp(0.3 * x[:, 0])
    y = rng.poisson(rates)
    model = bp.BayesianSparseRegressor(hidden=(10,), likelihood="negative_binomial", random_state=0).fit(x[:400], y[:400])
    mean, std = model.predict(x[400:], return_std=True)
    assert np.sqrt(np.mean(((y[400:] - mean) / std) ** 2)) == pytest.approx(1.0, abs=0.15)
    assert np.median(model.uncertainty(x[400:]).epistemic / rates[400:]) < 0.1
