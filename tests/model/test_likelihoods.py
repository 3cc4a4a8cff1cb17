"""Likelihoods: densities against SciPy, means, shapes of targets, refusals."""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import scipy.special
import scipy.stats
from numpyro.handlers import seed, trace

import bayesprune as bp
from bayesprune.model.families import MeanFieldFamily
from bayesprune.model.likelihoods import Likelihood

RNG = np.random.default_rng(0)
ONE, THREE = RNG.normal(size=(5, 1)), RNG.normal(size=(5, 3))
LABELS, BITS = np.array([0, 2, 1, 1, 0]), np.array([0, 1, 1, 0, 1])
TOKENS = RNG.normal(size=(5, 2, 3))
TOKEN_LABELS = np.stack([LABELS, LABELS[::-1]], axis=1)

CASES = {
    "classes": (
        bp.likelihoods.Categorical(), THREE, LABELS,
        scipy.special.log_softmax(THREE, axis=1)[np.arange(5), LABELS].sum(), scipy.special.softmax(THREE, axis=1),
    ),
    "bits": (
        bp.likelihoods.Bernoulli(), ONE, BITS,
        scipy.stats.bernoulli.logpmf(BITS, scipy.special.expit(ONE[:, 0])).sum(), scipy.special.expit(ONE[:, 0]),
    ),
    "many bits": (
        bp.likelihoods.Bernoulli(), THREE, THREE > 0.3,
        scipy.stats.bernoulli.logpmf(THREE > 0.3, scipy.special.expit(THREE)).sum(), scipy.special.expit(THREE),
    ),
    "reals": (
        bp.likelihoods.Normal(0.5), ONE, ONE[::-1, 0], scipy.stats.norm.logpdf(ONE[::-1, 0], ONE[:, 0], 0.5).sum(), ONE[:, 0],
    ),
    "labels of tokens": (
        bp.likelihoods.Categorical(), TOKENS, TOKEN_LABELS,
        sum(np.log(scipy.special.softmax(TOKENS[i, t])[TOKEN_LABELS[i, t]]) for i in range(5) for t in range(2)),
        scipy.special.softmax(TOKENS, axis=2),
    ),
    "bits of tokens": (
        bp.likelihoods.Bernoulli(), TOKENS[..., :1], TOKENS[..., 1] > 0,
        scipy.stats.bernoulli.logpmf(TOKENS[..., 1] > 0, scipy.special.expit(TOKENS[..., 0])).sum(),
        scipy.special.expit(TOKENS[..., 0]),
    ),
    "vectors of tokens": (
        bp.likelihoods.Normal(0.5), TOKENS, 2 * TOKENS, scipy.stats.norm.logpdf(2 * TOKENS, TOKENS, 0.5).sum(), TOKENS,
    ),
    "vectors": (bp.likelihoods.Normal(0.5), THREE, 2 * THREE, scipy.stats.norm.logpdf(2 * THREE, THREE, 0.5).sum(), THREE),
}  # fmt: skip


def log_likelihood(likelihood, outputs, y):
    site = trace(seed(likelihood.observe, 0)).get_trace(jnp.asarray(outputs), jnp.asarray(y))["obs"]
    return site["fn"].log_prob(site["value"])


@pytest.mark.parametrize("case", CASES)
def test_density_and_mean(case) -> None:
    likelihood, outputs, y, density, mean = CASES[case]
    found = log_likelihood(likelihood, outputs, y)
    assert found.shape == (5,), "one number for each row"
    assert float(found.sum()) == pytest.approx(density, rel=1e-5)
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(outputs)), mean, rtol=1e-5)
    assert isinstance(likelihood, Likelihood)
    likelihood.check(np.asarray(y, int if "bits" in case else None), outputs.shape[1:])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", ["bits", "reals"])
def test_a_column_of_targets_is_a_vector_of_them(case) -> None:
    likelihood, outputs, y, density, _ = CASES[case]
    assert float(log_likelihood(likelihood, outputs, y[:, None]).sum()) == pytest.approx(density, rel=1e-5)
    likelihood.check(y[:, None], (1,))


def test_learned_noise_is_a_gamma_precision() -> None:
    likelihood = bp.likelihoods.Normal()
    sites = trace(seed(likelihood.observe, 0)).get_trace(jnp.asarray(ONE), jnp.asarray(ONE[:, 0]))
    precision = sites["noise_precision"]
    at = scipy.stats.gamma.logpdf(float(precision["value"]), 6.0, scale=1 / 6)
    assert float(precision["fn"].log_prob(precision["value"])) == pytest.approx(at, rel=1e-5)
    np.testing.assert_allclose(sites["obs"]["fn"].scale, float(precision["value"]) ** -0.5, rtol=1e-6)
    guide = trace(seed(likelihood.guide, 0)).get_trace(MeanFieldFamily())
    assert guide["noise_precision"]["type"] == "sample"
    assert likelihood.read_noise_scale({"noise_precision_log_loc": jnp.log(4.0)}) == pytest.approx(0.5)
    assert bp.likelihoods.Normal(0.3).read_noise_scale({}) == 0.3


def test_without_targets_it_draws_them() -> None:
    with numpyro.handlers.seed(rng_seed=0):
        assert bp.likelihoods.Normal(0.5).observe(jnp.asarray(THREE), None).shape == (5, 3)
        assert bp.likelihoods.Bernoulli().observe(jnp.asarray(ONE), None).shape == (5,)


OUTPUTS = "but the network's outputs are "
BAD = {
    "rank": (bp.likelihoods.Categorical(), np.zeros((5, 1), int), (3,), ValueError, rf"{OUTPUTS}\(rows, 3\).* \(rows,\)"),
    "labels of rows": (bp.likelihoods.Categorical(), LABELS, (2, 3), ValueError, rf"{OUTPUTS}\(rows, 2, 3\).* \(rows, 2\)"),
    "label of a token": (bp.likelihoods.Categorical(), np.full((5, 2), 3), (2, 3), ValueError, "labels from 3 to 3.*3 outputs"),
    "reals as classes": (bp.likelihoods.Categorical(), np.zeros(5), (3,), TypeError, "integer class labels.*use Normal"),
    "label": (bp.likelihoods.Categorical(), np.array([0, 3]), (3,), ValueError, r"labels from 0 to 3.*\[0, 3\).*4 outputs"),
    "bit": (bp.likelihoods.Bernoulli(), np.array([0, 2]), (1,), ValueError, "only 0 and 1"),
    "bit columns": (bp.likelihoods.Bernoulli(), np.zeros((5, 2)), (3,), ValueError, rf"shape \(5, 2\), {OUTPUTS}\(rows, 3\)"),
    "columns": (bp.likelihoods.Normal(), np.zeros(5), (3,), ValueError, r"Normal compares with y of shape \(rows, 3\)"),
    "cube": (bp.likelihoods.Normal(), np.zeros((5, 2, 2)), (2, 1), ValueError, r"\(rows, 2\) or \(rows, 2, 1\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_targets_of_another_kind_are_refused(case) -> None:
    likelihood, y, outputs, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        likelihood.check(y, outputs)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_noise_that_is_none_is_refused(scale) -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        bp.likelihoods.Normal(scale)


def test_the_prior_of_the_noise_can_be_chosen() -> None:
    """Log density of the precision under Gamma(shape, rate), against SciPy."""
    site = trace(seed(bp.likelihoods.Normal(noise_shape=2.0, noise_rate=0.5).noise_scale, 0)).get_trace()["noise_precision"]
    expected = scipy.stats.gamma.logpdf(float(site["value"]), 2.0, scale=2.0)
    np.testing.assert_allclose(site["fn"].log_prob(site["value"]), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="noise_rate must be positive"):
        bp.likelihoods.Normal(noise_rate=0.0)
