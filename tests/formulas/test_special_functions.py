"""Special functions against SciPy's over all that formulas ask of them: JAX 0.10's `erfcx` is 0 within (9.195, 9.419)."""

import jax
import jax.numpy as jnp
import jax.scipy.special as of_jax
import numpy as np
import pytest
import scipy.special as of_scipy

from bayesprune.formulas import truncated_log_normal as noise
from bayesprune.formulas.truncated_log_normal import erfcx

EVERYWHERE = np.concatenate([np.linspace(-5, 60, 200_001), np.linspace(9, 9.5, 20_001), np.linspace(26, 27, 20_001)])
USED = {  # range, and the error that is allowed beside 1e-5 of the value
    "erf": (-6, 6, 0),
    "erfc": (-6, 9, 0),
    "ndtr": (-12, 9, 0),
    "log_ndtr": (-60, 9, 1e-6),
    "ndtri": (1e-6, 0.999, 0),
    "gammaln": (1e-3, 1e4, 3e-6),
    "digamma": (1e-3, 1e4, 2e-6),
    "entr": (0, 1, 1e-6),
}


def test_erfcx_has_no_gap_in_single_precision() -> None:
    x = EVERYWHERE.astype(np.float32)
    np.testing.assert_allclose(erfcx(jnp.asarray(x)), of_scipy.erfcx(x.astype(float)), rtol=1e-5)
    slopes = jax.vmap(jax.grad(erfcx))(jnp.linspace(9.0, 9.5, 501))
    exact = [2 * at * of_scipy.erfcx(at) - 2 / np.sqrt(np.pi) for at in np.linspace(9.0, 9.5, 501)]
    np.testing.assert_allclose(slopes, exact, rtol=2e-3)  # a difference of numbers a hundred times as large


def test_erfcx_has_no_gap_in_double_precision(float64) -> None:
    np.testing.assert_allclose(erfcx(jnp.asarray(EVERYWHERE)), of_scipy.erfcx(EVERYWHERE), rtol=1e-14)


@pytest.mark.parametrize("name", USED)
def test_functions_of_jax_that_formulas_use_are_those_of_scipy(name) -> None:
    low, high, beside = USED[name]
    x = np.linspace(low, high, 300_001).astype(np.float32)
    np.testing.assert_allclose(getattr(of_jax, name)(x), getattr(of_scipy, name)(x.astype(float)), rtol=2e-5, atol=beside)


@pytest.mark.slow
def test_noise_has_finite_moments_where_a_bound_is_in_the_gap() -> None:
    """A unit of a fit on the digits: log theta's N(-3.490328, 13.340395²) within [-20, 0] had no mean in single precision."""
    loc, scale = -3.490328, 13.340395
    y = np.linspace(-20, 0, 2_000_001)
    density = np.exp(-0.5 * ((y - loc) / scale) ** 2)
    exact = [(np.exp(power * y) * density).sum() / density.sum() for power in (1, 2)]
    found = [float(noise.log_moment(power, loc, scale, -20.0, 0.0)) for power in (1.0, 2.0)]
    np.testing.assert_allclose(found, np.log(exact), atol=2e-5)
    around = jnp.linspace(12.0, 15.0, 3001)  # scales
    means = noise.log_moment(1.0, loc, around, -20.0, 0.0)
    assert (
        np.isfinite(means).all()
        and np.isfinite(jax.vmap(jax.grad(lambda s: noise.log_moment(1.0, loc, s, -20.0, 0.0)))(around)).all()
    )
