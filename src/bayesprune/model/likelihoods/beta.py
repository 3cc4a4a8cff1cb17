"""Shares: real targets between 0 and 1."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import learned
from bayesprune.model.likelihoods.links import share
from bayesprune.model.likelihoods.protocol import SHARES, Named, OutputShape
from bayesprune.model.likelihoods.targets import check_shape, observe_rows, one_for_each, squeeze

REFERENCE = "ferrari2004beta"


@dataclass(frozen=True)
class Beta:
    """Shares in (0, 1): y ~ Beta(r m, r (1 - m)) with m = sigmoid f (21.6); f (rows, 1) with y (rows,), or both (..., outputs).

    Args:
        concentration: r; Var[y] = m (1 - m) / (1 + r). None learns one for all rows.
        concentration_shape, concentration_rate: of the learned one's prior, Gamma(2, 0.1).
        noise: of several outputs, "per_output": each learns a concentration of its own; "shared": all have one.

    The output goes through (21.1) first, so that neither parameter underflows.

    Raises:
        ValueError: a number that is not positive; an unknown ``noise``.

    Source: Ferrari & Cribari-Neto (2004), eq. 4.
    """

    concentration: float | None = None
    concentration_shape: float = 2.0
    concentration_rate: float = 0.1
    noise: str = learned.PER_OUTPUT

    def __post_init__(self) -> None:
        learned.check_given(
            self.concentration, "concentration", "how narrow the shares are", 1e4, "Normal(...) of the shares' logits"
        )
        check_positive(self.concentration_shape, "concentration_shape")
        check_positive(self.concentration_rate, "concentration_rate")
        learned.check_noise(self.noise)

    def observe(self, outputs: jax.Array, y: jax.Array | None) -> Any:
        sizes = learned.sizes_of(self.noise, outputs.shape[-1])
        prior = (self.concentration_shape, self.concentration_rate)
        spread = learned.positive("concentration", self.concentration, *prior, sizes)
        outputs = squeeze(outputs)
        return observe_rows(dist.Beta(spread * share(outputs), spread * share(-outputs)), y)

    def guide(self, family: Family, output_shape: OutputShape = (1,)) -> None:
        learned.guide(family, "concentration", self.concentration, learned.sizes_of(self.noise, output_shape[-1]))

    def mean(self, outputs: Array) -> Any:
        return share(squeeze(outputs))

    def check(self, y: Array, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, one_for_each(output_shape), "Beta")
        values = np.asarray(y, np.float32)  # as it is trained on: a share that is next to 1 rounds to 1
        wrong = ~((values > 0) & (values < 1))
        if wrong.any():
            raise ValueError(
                f"data.y must lie strictly between 0 and 1 for Beta (in single precision), got {np.asarray(y)[wrong].flat[0]}: "
                "move shares off the ends, as (y (rows - 1) + 0.5) / rows does (Smithson & Verkuilen 2006)."
            )


NAMED = {"beta": Named((SHARES,), lambda targets: Beta(), default_of=(SHARES,))}
