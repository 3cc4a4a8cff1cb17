"""The spike at zero against enumeration, quadrature and arithmetic in many digits."""

import math
from decimal import Decimal, getcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, logit

from bayesprune.formulas import dirac_slab

# loc, scale, phi, prior loc, prior scale, lam
CASES = [(0.0, 0.5, 0.5, 0.0, 1.0, 0.5), (1.2, 0.1, 0.9, 0.0, 1.4, 1e-3), (-0.3, 2.0, 0.02, 0.5, 0.7, 0.2)]


def enumerated(loc: float, scale: float, phi: float, prior_loc: float, prior_scale: float, lam: float) -> float:
    """KL of the joint of gate and weight: the gate's two values enumerated, the slab's integral by quadrature."""
    q, p = stats.norm(loc, scale), stats.norm(prior_loc, prior_scale)
    slab = integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), loc - 12 * scale, loc + 12 * scale, epsrel=1e-12)[0]
    return (1 - phi) * math.log((1 - phi) / (1 - lam)) + phi * (math.log(phi / lam) + slab)


@pytest.mark.parametrize("case", CASES)
def test_divergence_5_1(case: tuple[float, ...]) -> None:
    """(5.1) in both precisions."""
    loc, scale, phi, prior_loc, prior_scale, lam = case
    expected = enumerated(*case)
    arguments = (loc, scale, logit(phi), prior_loc, prior_scale, logit(lam))
    np.testing.assert_allclose(dirac_slab.kl_divergence(*arguments), expected, rtol=2e-5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(dirac_slab.kl_divergence(*arguments), expected, rtol=1e-9)


@pytest.mark.parametrize("log_lam", [-460.5, -20.0, -1e-3])
@pytest.mark.parametrize("odds", [-200.0, -3.0, 0.0, 40.0, 200.0])
def test_bernoulli_divergence_for_probabilities_that_floats_cannot_hold(log_lam: float, odds: float) -> None:
    getcontext().prec = 320
    lam = Decimal(log_lam).exp()
    phi = 1 / (1 + (-Decimal(odds)).exp())
    prior_logit = float((lam / (1 - lam)).ln())
    exact = float(phi * (phi / lam).ln() + (1 - phi) * ((1 - phi) / (1 - lam)).ln())
    np.testing.assert_allclose(dirac_slab.bernoulli_divergence(odds, prior_logit), exact, rtol=1e-4, atol=1e-5)
    slope = jax.grad(dirac_slab.bernoulli_divergence)(odds, prior_logit)
    np.testing.assert_allclose(slope, expit(odds) * expit(-odds) * (odds - prior_logit), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("odds", [-80.0, -25.0, -17.0, 0.3, 17.0, 25.0, 80.0])
def test_slopes_keep_their_digits_where_inclusion_saturates(odds: float) -> None:
    """Beyond log-odds of 16.6 a float32 has no 1 - phi left; the slopes, in float64, are written with phi(-logit)."""
    prior_logit, dead = -700.0, expit(-odds)
    slab = np.log(2.0) + 0.5 * (0.25 + 16.0 - 1.0)  # KL( N(4, 1/4) || N(0, 1) )
    by_logit = jax.grad(dirac_slab.bernoulli_divergence)(odds, prior_logit)
    np.testing.assert_allclose(by_logit, expit(odds) * dead * (odds - prior_logit), rtol=2e-6)
    by_prior = jax.grad(dirac_slab.bernoulli_divergence, 1)(odds, odds + 1.0)
    exact = dead - expit(-odds - 1.0) if odds > 0 else expit(odds + 1.0) - expit(odds)
    np.testing.assert_allclose(by_prior, exact, rtol=2e-6)
    whole = jax.grad(dirac_slab.kl_divergence, 2)(4.0, 0.5, odds, 0.0, 1.0, prior_logit)
    np.testing.assert_allclose(whole, expit(odds) * dead * (odds - prior_logit + slab), rtol=2e-6)


@pytest.mark.slow
def test_divergence_is_finite_and_has_finite_slopes_where_inclusion_saturates() -> None:
    odds = jnp.array([-1e4, -100.0, 0.0, 100.0, 1e4])
    value, slopes = jax.vmap(jax.value_and_grad(dirac_slab.kl_divergence, (0, 1, 2)), (None, None, 0, None, None, None))(
        0.3, 1e-6, odds, 0.0, 1.0, -460.0
    )
    assert np.isfinite(value).all() and all(np.isfinite(slope).all() for slope in slopes)


@pytest.mark.parametrize(("odds", "prior_odds"), [(-np.inf, -3.0), (np.inf, -3.0), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_certain_inclusion_costs_what_the_prior_gave_it(odds: float, prior_odds: float) -> None:
    """At phi of 0 or 1 the divergence is -log of the prior's probability of that, and it has no slope in the log-odds."""
    exact = np.logaddexp(0.0, -np.sign(odds) * prior_odds)
    with jax.enable_x64(True):
        np.testing.assert_allclose(dirac_slab.bernoulli_divergence(odds, prior_odds), exact, atol=1e-12)
        assert jax.grad(dirac_slab.bernoulli_divergence)(odds, prior_odds) == 0.0
        whole = dirac_slab.kl_divergence(0.3, 0.2, odds, 0.0, 1.0, prior_odds)
    slab = -np.log(0.2) + 0.5 * (0.2**2 + 0.3**2 - 1.0)
    np.testing.assert_allclose(whole, exact + (slab if odds > 0 else 0.0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["paper", "code"])
def test_optimal_inclusion_5_3(form: str) -> None:
    """(5.3): the network of Simulation II, its factors multiplied out."""
    weights = (200 + 1) * 7 + (7 + 1) * 7 + (7 + 1) * 7 + (7 + 1)
    last = (3000 * 200) ** 0.5 if form == "paper" else 3000**0.5 * 200
    lam = 1 / (weights * (7**4 * last) ** 0.1)
    np.testing.assert_allclose(dirac_slab.optimal_log_inclusion(weights, 3, 7, 3000, 200, form), math.log(lam), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"), [({"num_weights": 0}, "num_weights"), ({"num_rows": -3}, "num_rows"), ({"form": "codes"}, "'code'")]
)
def test_bad_arguments_are_named(change: dict, message: str) -> None:
    good = {"num_weights": 10, "num_hidden": 1, "width": 2, "num_rows": 5, "num_inputs": 3}
    with pytest.raises(ValueError, match=message):
        dirac_slab.optimal_log_inclusion(**(good | change))
