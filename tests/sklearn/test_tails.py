"""Whether residuals are taken for Gaussian or for Student's t: of 20 samples each, none wrong where the truth is plain."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.sklearn.tails import is_heavy, scale


def test_gaussians_are_light_and_t_with_two_degrees_heavy() -> None:
    """Of Gaussians the gain is below 0 but for chance of some 1 / n; of t(2) it exceeds a quarter of a nat a row."""
    rng = np.random.default_rng(0)
    assert not any(is_heavy(rng.standard_normal((300, 1))) for _ in range(20))
    assert all(is_heavy(7.0 * rng.standard_t(2, (300, 1))) for _ in range(20))
    assert not is_heavy(rng.standard_t(2, (20, 1))), "too few rows say nothing"
    assert not is_heavy(np.zeros((100, 1)))


def test_the_scale_is_that_of_scipys_fit() -> None:
    residuals = 3.0 * np.random.default_rng(1).standard_t(3, 500)
    wanted = stats.t.fit(residuals, fdf=3, floc=0)[2]
    np.testing.assert_allclose(scale(residuals, 3.0), wanted, rtol=1e-3)


def test_nearly_all_zeros_have_the_least_scale() -> None:
    """The likelihood grows without end as the scale falls: it ends where the square of a ratio is a number still."""
    with np.errstate(all="raise"):
        assert scale(np.r_[np.zeros(59), 1.0], 2.0) == pytest.approx(1e-12)
