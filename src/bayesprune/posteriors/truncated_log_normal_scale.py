"""The law of a unit's multiplicative noise, theta = e^y with y ~ N(loc, scale²) within bounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayesprune.formulas import truncated_log_normal as formulas

# Narrower than this a law is as good as a point, and float32 cannot say its ratios.
LEAST_SCALE = 1e-4


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TruncatedLogNormalScale:
    """q(log theta) = N(loc, scale²) on [low, high], one theta for each unit; arrays that broadcast.

    >>> law = TruncatedLogNormalScale(jnp.array([-0.5, -18.0]), jnp.array([0.1, 3.0]))
    >>> print(law.snr() > 1, law.removal_gain() > 0)
    [ True False] [False  True]
    """

    loc: Any
    scale: Any
    low: Any = -20.0
    high: Any = 0.0

    priors: ClassVar[str] = "priors.UnitNoise"  # whose fits have this law

    def mean(self) -> Any:
        """E theta, (18.2)."""
        return jnp.exp(formulas.log_moment(1.0, *self._arguments()))

    def variance(self) -> Any:
        """Var theta, (18.2)."""
        return jnp.square(self.mean() / self.snr())

    def snr(self) -> Any:
        """E theta / sd theta."""
        return formulas.snr(*self._arguments())

    def removal_gain(self) -> Any:
        """Log evidence gained where theta is all but 0, (18.4), nats."""
        return formulas.removal_gain(*self._arguments())

    def uniform_gain(self, reduced_low: ArrayLike, reduced_high: ArrayLike) -> Any:
        """Log evidence gained where log theta is uniform between the two, (18.5), nats."""
        return formulas.uniform_gain(*self._arguments(), reduced_low, reduced_high)

    def _arguments(self) -> tuple[Any, Any, Any, Any]:
        return self.loc, jnp.maximum(self.scale, LEAST_SCALE), self.low, self.high
