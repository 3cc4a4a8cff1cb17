"""Real targets with noise of heavy tails: outliers pull less."""

from dataclasses import dataclass
from typing import Any

import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import learned
from bayesprune.model.likelihoods.protocol import NUMBERS, Named, OutputShape
from bayesprune.model.likelihoods.targets import check_shape, observe_rows, one_for_each, squeeze

REFERENCE = "lange1989robust"


@dataclass(frozen=True)
class StudentT:
    """Real targets: y ~ f + scale t_df, Student's t (21.4); f of shape (rows, 1) with y (rows,), or both (rows, ..., outputs).

    Args:
        df: degrees of freedom; 4 keeps a variance; None learns them, df ~ Gamma(df_shape, df_rate) (Juárez & Steel 2010).
        scale: of the noise, in the units of y, not its standard deviation, which is scale sqrt(df / (df - 2)); None learns
            it, scale^-2 ~ Gamma(noise_shape, noise_rate), for standardised targets (see `Normal`).
        noise: of several outputs, "per_output": each learns a scale and df of its own; "shared": all have one.

    ``mean`` is f: the mean of y where df > 1, its median always.

    Raises:
        ValueError: a number that is not positive; an unknown ``noise``.

    Source: Lange, Little & Taylor (1989), eq. 2.
    """

    df: float | None = 4.0
    scale: float | None = None
    noise_shape: float = 6.0
    noise_rate: float = 6.0
    df_shape: float = 2.0
    df_rate: float = 0.1
    noise: str = learned.PER_OUTPUT

    def __post_init__(self) -> None:
        learned.check_given(self.df, "df", "degrees of freedom", 1e4, "Normal(...)")
        learned.check_given(self.scale, "scale", "the noise's scale")
        for name in ("noise_shape", "noise_rate", "df_shape", "df_rate"):
            check_positive(getattr(self, name), name)
        learned.check_noise(self.noise)

    def observe(self, outputs: Array, y: Array | None) -> Any:
        sizes = learned.sizes_of(self.noise, outputs.shape[-1])
        df = learned.positive("df", self.df, self.df_shape, self.df_rate, sizes)
        scale = self.scale
        if scale is None:
            scale = learned.positive("noise_precision", None, self.noise_shape, self.noise_rate, sizes) ** -0.5
        return observe_rows(dist.StudentT(df, squeeze(outputs), scale), y)

    def guide(self, family: Family, output_shape: OutputShape = (1,)) -> None:
        sizes = learned.sizes_of(self.noise, output_shape[-1])
        learned.guide(family, "df", self.df, sizes)
        learned.guide(family, "noise_precision", self.scale, sizes)

    def mean(self, outputs: Array) -> Any:
        return squeeze(outputs)

    def check(self, y: Array, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, one_for_each(output_shape), "StudentT")

    def least_spread(self, num_targets: int) -> float:
        """About the standard deviation of targets below which the prior of the noise rules (21.14); 0 of a given scale."""
        learns = self.scale is None
        return learned.least_spread(self.noise_shape, self.noise_rate, num_targets) if learns else 0.0


NAMED = {"student_t": Named((NUMBERS,), lambda targets: StudentT())}
