"""The truncated normal as a distribution of a program."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from bayesprune.formulas import truncated_log_normal
from bayesprune.model.truncated_normal import TruncatedNormal
from bayesprune.posteriors.divergence import closed_form, divergence, read_elementwise


@pytest.mark.parametrize("law", [(-3.0, 2.0), (4.0, 1.0), (-26.0, 1.5)])
def test_draws_and_density_are_scipys(law, rng_key) -> None:
    """20,000 draws by the Kolmogorov-Smirnov test at 1e-4 (fixed key); densities to rounding."""
    loc, scale = law
    exact = stats.truncnorm((-20 - loc) / scale, -loc / scale, loc, scale)
    ours = TruncatedNormal(loc, scale, -20.0, 0.0)
    draws = np.asarray(jax.jit(lambda key: ours.sample(key, (20_000,)))(rng_key), np.float64)
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-4
    np.testing.assert_allclose(ours.log_prob(draws[:50]), exact.logpdf(draws[:50]), rtol=1e-3, atol=1e-3)


def test_the_divergence_from_the_uniform_is_closed() -> None:
    """That of (18.1); a prior that is wider adds the log of the widths' ratio, one that is narrower has none."""
    q = TruncatedNormal(np.array([-3.0, -8.0]), 2.0, -20.0, 0.0)
    nats = lambda low, high: divergence(q, read_elementwise(dist.Uniform(low, high).expand((2,))))  # noqa: E731
    assert closed_form(q, dist.Uniform(-20.0, 0.0)) is not None
    own = truncated_log_normal.kl_uniform(np.array([-3.0, -8.0]), 2.0, -20.0, 0.0)
    np.testing.assert_allclose(nats(-20.0, 0.0), own, rtol=1e-6)
    np.testing.assert_allclose(nats(-30.0, 10.0), own + np.log(2), rtol=1e-6)
    assert np.isinf(nats(-10.0, 0.0)).all()
