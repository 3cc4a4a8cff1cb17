"""The cost of rounding against an integral, bits against a count."""

import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

from bayesprune.formulas import rounding


def test_cost_16_5_is_the_divergence_of_the_rounded_posterior(float64) -> None:
    """(16.5): the mean over offsets of KL( N(loc + d, s²) || N(loc, s²) ), each by an integral; sqrt 12 scale costs a half."""
    step, scale = 0.3, 0.17

    def divergence(offset):
        def term(w):
            gain = stats.norm.logpdf(w, offset, scale) - stats.norm.logpdf(w, 0.0, scale)
            return stats.norm.pdf(w, offset, scale) * gain

        return integrate.quad(term, -10 * scale, 10 * scale)[0]

    offsets, weight = np.polynomial.legendre.leggauss(4)
    exact = weight @ [divergence(d * step / 2) for d in offsets] / 2
    np.testing.assert_allclose(rounding.cost(step, scale), exact, rtol=1e-8)
    np.testing.assert_allclose(rounding.cost(np.sqrt(12) * scale, scale), 0.5, rtol=1e-12)


def test_a_shared_step_costs_what_it_may_in_the_mean() -> None:
    scale = jnp.array([1e-12, 3e-12, 0.2])
    step = rounding.shared_step(0.25, scale)
    np.testing.assert_allclose(rounding.cost(step, scale).mean(), 0.25, rtol=1e-5)


def test_bits_16_6_are_counted() -> None:
    """(16.6): the mantissa by a loop over its places, the exponent at values where it steps."""
    variance = np.array([1.0, 0.3, 0.01, 1e-4, 1e-9, 0.0])
    loop = [sum(2 * v < 2.0**-t for t in range(1, 24)) for v in variance]
    np.testing.assert_array_equal(rounding.mantissa_bits(variance), loop)
    assert loop[3] == 12 and loop[5] == 23
    # log2(max + 1) + 1 = 2 at a weight of 1: two bits up to there, three beyond.
    assert [float(rounding.exponent_bits(w)) for w in (0.5, 0.99, 1.01, 6.9, 7.1)] == [2, 2, 3, 3, 4]
