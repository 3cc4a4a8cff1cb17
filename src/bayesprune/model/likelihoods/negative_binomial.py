"""Counts that vary more than Poisson's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy.special import gammaln, xlog1py, xlogy

from bayesprune.core.checks import check_positive
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import counts, learned, without_inputs
from bayesprune.model.likelihoods.protocol import COUNTS, OVERDISPERSED, Named, OutputShape

REFERENCE = "lawless1987negative"


@dataclass(frozen=True)
class NegativeBinomial(counts.Counts):
    """Counts: E[y] = m = start exp f, Var[y] = m + m² / concentration (21.5); f (rows, 1), y (rows,), or both (..., outputs).

    Args:
        concentration: r, which is Poisson's at infinity; None learns one for all rows.
        concentration_shape, concentration_rate: of the learned one's prior, Gamma(2, 0.1), with a ``start`` that of r / start:
            variances may then be like Poisson's, of counts of any size.
        noise: of several outputs, "per_output": each learns a concentration of its own; "shared": all have one.
        start, exposure, link: as of `Poisson`.

    exp is that of (21.1).

    Raises:
        ValueError: a number that is not positive; an unknown ``noise``; another word for the exposure or the link.

    Source: Lawless (1987), eq. 1.1.
    """

    concentration: float | None = None
    concentration_shape: float = 2.0
    concentration_rate: float = 0.1
    noise: str = learned.PER_OUTPUT
    start: Any = None
    exposure: str | None = None
    link: str = "exp"

    def __post_init__(self) -> None:
        learned.check_given(
            self.concentration, "concentration", "mean² over the variance beyond Poisson's", 1e5, "Poisson(...)"
        )
        check_positive(self.concentration_shape, "concentration_shape")
        check_positive(self.concentration_rate, "concentration_rate")
        learned.check_noise(self.noise)
        super().__post_init__()

    def _law(self, mean: Array, num_outputs: int) -> Any:
        # The prior's scale goes with the mean, the guide's start does not: it is 1, counts that vary as much as their mean. At
        # r = start the first gradients would be `start` times as large as the later ones, and an optimiser remembers them.
        sizes, start = learned.sizes_of(self.noise, num_outputs), 1.0 if self.start is None else np.asarray(self.start)
        rate: Any = self.concentration_rate / (start if sizes else np.mean(start))
        r = learned.positive("concentration", self.concentration, self.concentration_shape, rate, sizes)
        return dist.NegativeBinomial2(mean, r)

    def guide(self, family: Family, output_shape: OutputShape = (1,)) -> None:
        learned.guide(family, "concentration", self.concentration, learned.sizes_of(self.noise, output_shape[-1]))

    def baseline(self, y: Array) -> float | None:
        """-log likelihood of all counts by the mean of each output, nats: (21.5) at m_j, which is the best m under any r.

        None where no output varies; and where r is learned, or exposures are known: the best r, or m, is no closed form.

        >>> print(round(NegativeBinomial(1.0).baseline(np.array([0, 2])), 4))
        2.7726
        """
        r = self.concentration
        if r is None or self.exposure is not None or not without_inputs.varies(y):
            return None
        found = without_inputs.columns(y)
        means = found.mean(0)
        ways = gammaln(found + r) - gammaln(found + 1.0) - gammaln(r)
        return -float(np.sum(ways - xlog1py(r, means / r) + xlogy(found, means / (r + means))))


NAMED = {
    "negative_binomial": Named((COUNTS, OVERDISPERSED), lambda targets: NegativeBinomial(), default_of=(OVERDISPERSED,)),
}
