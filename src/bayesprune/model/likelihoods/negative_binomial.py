"""Counts that vary more than Poisson's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy.special import gammaln, xlog1py, xlogy

from bayesprune.core.checks import check_positive
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import learned, without_inputs
from bayesprune.model.likelihoods.links import rate
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.likelihoods.targets import check_counts, check_shape, observe_rows, one_for_each, squeeze

REFERENCE = "lawless1987negative"


@dataclass(frozen=True)
class NegativeBinomial:
    """Counts: E[y] = m = exp f and Var[y] = m + m² / concentration (21.5); f (rows, 1) with y (rows,), or both (..., outputs).

    Args:
        concentration: r, which is Poisson's at infinity; None learns one for all rows.
        concentration_shape, concentration_rate: of the learned one's prior, Gamma(2, 0.1).
        noise: of several outputs, "per_output": each learns a concentration of its own; "shared": all have one.

    exp is that of (21.1).

    Raises:
        ValueError: a number that is not positive; an unknown ``noise``.

    Source: Lawless (1987), eq. 1.1.
    """

    concentration: float | None = None
    concentration_shape: float = 2.0
    concentration_rate: float = 0.1
    noise: str = learned.PER_OUTPUT

    def __post_init__(self) -> None:
        learned.check_given(self.concentration, "concentration", "mean² over the variance beyond Poisson's")
        check_positive(self.concentration_shape, "concentration_shape")
        check_positive(self.concentration_rate, "concentration_rate")
        learned.check_noise(self.noise)

    def observe(self, outputs: Any, y: Any) -> Any:
        spread = self._concentration(outputs.shape[-1])
        return observe_rows(dist.NegativeBinomial2(rate(squeeze(outputs)), spread), y)

    def guide(self, family: Family, output_shape: OutputShape = (1,)) -> None:
        learned.guide(family, "concentration", self.concentration, learned.sizes_of(self.noise, output_shape[-1]))

    def mean(self, outputs: Any) -> Any:
        return rate(squeeze(outputs))

    def check(self, y: Any, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, one_for_each(output_shape), "NegativeBinomial")
        check_counts(y, "NegativeBinomial")

    def baseline(self, y: Any) -> float | None:
        """-log likelihood of all counts by the mean of each output, nats: (21.5) at m_j, which is the best m under any r.

        None where no output varies, and where r is learned: the best r is no closed form.

        >>> print(round(NegativeBinomial(1.0).baseline(np.array([0, 2])), 4))
        2.7726
        """
        r = self.concentration
        if r is None or not without_inputs.varies(y):
            return None
        counts = without_inputs.columns(y)
        means = counts.mean(0)
        ways = gammaln(counts + r) - gammaln(counts + 1.0) - gammaln(r)
        return -float(np.sum(ways - xlog1py(r, means / r) + xlogy(counts, means / (r + means))))

    def _concentration(self, num_outputs: int) -> Any:
        sizes = learned.sizes_of(self.noise, num_outputs)
        return learned.positive("concentration", self.concentration, self.concentration_shape, self.concentration_rate, sizes)
