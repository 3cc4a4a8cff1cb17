"""Counts whose variance is their mean."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy.special import gammaln, xlogy

from bayesprune.model.families import Family
from bayesprune.model.likelihoods import without_inputs
from bayesprune.model.likelihoods.links import rate
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.likelihoods.targets import check_counts, check_shape, observe_rows, one_for_each, squeeze

REFERENCE = "nelder1972generalized"


@dataclass(frozen=True)
class Poisson:
    """Counts: y ~ Poisson(exp f), f of shape (rows, 1) with y (rows,), or both (rows, ..., outputs); exp as (21.1) has it.

    Counts are not standardised. A network that starts far from their mean takes long: give large counts a net whose last bias
    can reach log(mean).

    Source: Nelder & Wedderburn (1972).
    """

    def observe(self, outputs: Any, y: Any) -> Any:
        return observe_rows(dist.Poisson(rate(squeeze(outputs))), y)

    def guide(self, family: Family) -> None:
        return None

    def mean(self, outputs: Any) -> Any:
        return rate(squeeze(outputs))

    def check(self, y: Any, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, one_for_each(output_shape), "Poisson")
        check_counts(y, "Poisson")

    def baseline(self, y: Any) -> float | None:
        """-log likelihood of all counts by the mean of each output, nats (21.13); None where none varies.

          sum_j sum_i m_j - y_ij log m_j + log y_ij!,    m_j the mean of the j-th output's counts

        >>> print(round(Poisson().baseline(np.array([0, 2])), 4))
        2.6931
        """
        if not without_inputs.varies(y):
            return None
        counts = without_inputs.columns(y)
        means = counts.mean(0)
        return float(np.sum(means - xlogy(counts, means) + gammaln(counts + 1.0)))
