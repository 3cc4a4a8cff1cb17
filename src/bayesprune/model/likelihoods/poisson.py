"""Counts whose variance is their mean."""

from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesprune.model.families import Family
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
