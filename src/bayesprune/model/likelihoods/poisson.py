"""Counts whose variance is their mean."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import gammaln, xlogy

from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import counts, without_inputs
from bayesprune.model.likelihoods.protocol import COUNTS, OVERDISPERSED, Named

REFERENCE = "nelder1972generalized"


@dataclass(frozen=True)
class Poisson(counts.Counts):
    """Counts: y ~ Poisson(start exp f), f (rows, 1) with y (rows,), or both (rows, ..., outputs); exp as (21.1) has it.

    Args:
        start: E[y] where outputs are zero, where a network starts: the mean of the counts, ``y.mean()``, or one for each
            output, ``y.mean(0)``. None: 1. Weights and their priors are for outputs of about 1, and log 1000 is 7.
        exposure: "known": how much time, area or the like a row was counted over is data, E[y] = exposure start exp f; y has
            two columns for each output, (rows, 2 outputs), first the counts, then the exposures, all positive. What is
            predicted, and drawn, is of an exposure of one.
        link: "exp", or "softplus", (21.34): log(1 + exp f) / log 2 in the place of exp f, which grows as f does. A factor times
            another is a factor then only where counts are rare; but a row that is unlike all others is not predicted by the
            exponential of a sum.

    Raises:
        ValueError: a start that is not positive; another word for the exposure or the link.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Poisson(start=1000.0).mean(jnp.zeros((2, 1))))
        [1000. 1000.]
        >>> Poisson(exposure="known").check(np.array([[3.0, 0.5], [0.0, 2.0]]), (1,))

    Source: Nelder & Wedderburn (1972).
    """

    start: Any = None
    exposure: str | None = None
    link: str = "exp"

    def _law(self, mean: Array, num_outputs: int) -> Any:
        return _Poisson(mean)

    def guide(self, family: Family) -> None:
        return None

    def baseline(self, y: Array) -> float | None:
        """-log likelihood of all counts by the mean of each output, nats (21.13); None where none varies.

          sum_j sum_i m_j - y_ij log m_j + log y_ij!,    m_j the mean of the j-th output's counts

        Of known exposures e_ij, e_ij sum_i y_ij / sum_i e_ij takes the place of m_j.

        >>> print(round(Poisson().baseline(np.array([0, 2])), 4))
        2.6931
        """
        found, exposure = self.apart(np.asarray(y)) if self.exposure is not None else (y, np.ones(1))
        if not without_inputs.varies(found):
            return None
        found, exposure = without_inputs.columns(found), without_inputs.columns(exposure)
        means = exposure * found.sum(0) / np.broadcast_to(exposure, found.shape).sum(0)
        return float(np.sum(means - xlogy(found, means) + gammaln(found + 1.0)))


NAMED = {"poisson": Named((COUNTS, OVERDISPERSED), lambda targets: Poisson(), default_of=(COUNTS,))}


FEW = 16.0  # counts up to which nothing is large
NEAR, TERMS = 0.1, 9  # |d| below which h is summed as a series, and by how many terms: what is left is 1e-9 of it


class _Poisson(dist.Poisson):  # type: ignore[misc]
    """With a density that holds in single precision, in which y log m - m - log y! is wrong by two nats at y = 1e6.

      log p(y | m) = -m h(d) - log(2 pi y) / 2 - 1 / (12 y) + 1 / (360 y³),   d = (y - m) / m,   h(d) = (1 + d) log(1 + d) - d

    for y > 16, with h as a series where d is small, the sum over k of (-1)^(k + 1) d^(k + 1) / (k (k + 1)).

    Source: Loader (2000), Fast and accurate computation of binomial probabilities, sections 2 and 5.
    """

    def log_prob(self, value: Any) -> Any:
        y, rate = jnp.where(value > FEW, value, FEW), self.rate
        d = (y - rate) / rate
        near = jnp.abs(d) < NEAR
        small = jnp.where(near, d, 0.0)
        series = rate * small * sum(-((-small) ** k) / (k * (k + 1)) for k in range(1, TERMS))
        apart = jnp.where(near, series, y * jnp.log(y / rate) + rate - y)
        many = -apart - 0.5 * jnp.log(2.0 * jnp.pi * y) - 1.0 / (12.0 * y) + 1.0 / (360.0 * y**3)
        return jnp.where(value > FEW, many, super().log_prob(value))
