"""Whether residuals are taken for Gaussian or for Student's t: of 20 samples each, none wrong where the truth is plain."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.sklearn.tails import costs_the_mean, is_heavy, scale


def test_gaussians_are_light_and_t_with_two_degrees_heavy() -> None:
    """Of Gaussians the gain is below 0 but for chance of some 1 / n; of t(2) it exceeds a quarter of a nat a row."""
    rng = np.random.default_rng(0)
    assert not any(is_heavy(rng.standard_normal((300, 1))) for _ in range(20))
    assert all(is_heavy(7.0 * rng.standard_t(2, (300, 1))) for _ in range(20))
    assert not is_heavy(rng.standard_t(2, (20, 1))), "too few rows say nothing"
    assert not is_heavy(np.zeros((100, 1)))


@pytest.mark.parametrize(("skew", "costs"), [(0.0, False), (0.1, False), (1.0, True)])
def test_a_t_that_is_far_from_the_mean_of_skewed_noise_is_told(skew: float, costs: bool) -> None:
    """Log-normal noise, whose mode is below its mean: by the R² that the mode, SciPy's, loses of targets that are noise alone.

    Twenty samples each; of 400 rows the locations are known within a tenth of what is asked.
    """
    law = stats.lognorm(skew) if skew else stats.t(3)
    for seed in range(20):
        noise = law.rvs((400, 1), random_state=seed)
        assert costs_the_mean(noise, noise - noise.mean(), 3.0) is costs
    signal = 100.0 * np.random.default_rng(0).standard_normal((400, 1))  # beside which the noise's skew is nothing
    assert not costs_the_mean(signal + noise, noise - noise.mean(), 3.0)


def test_degenerate_residuals_cost_nothing_or_say_so() -> None:
    for residuals in (np.zeros(60), np.r_[np.zeros(59), 1.0], np.r_[np.full(30, -1.0), np.full(30, 1.0)]):
        assert costs_the_mean(residuals[:, None], residuals[:, None], 3.0) in (True, False)


def test_the_scale_is_that_of_scipys_fit() -> None:
    residuals = 3.0 * np.random.default_rng(1).standard_t(3, 500)
    wanted = stats.t.fit(residuals, fdf=3, floc=0)[2]
    np.testing.assert_allclose(scale(residuals, 3.0), wanted, rtol=1e-3)


def test_nearly_all_zeros_have_the_least_scale() -> None:
    """The likelihood grows without end as the scale falls: it ends where the square of a ratio is a number still."""
    with np.errstate(all="raise"):
        assert scale(np.r_[np.zeros(59), 1.0], 2.0) == pytest.approx(1e-12)
