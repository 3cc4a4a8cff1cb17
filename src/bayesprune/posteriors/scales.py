"""Laws of a unit's scale: log-normal with a scale of the layer, Gaussian, or log-normal within bounds."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayesprune.formulas import log_normal, log_uniform, truncated_log_normal


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LogNormalScale:
    """q(log tau) = N(loc, scale²) and q(log upsilon) = N(layer_loc, layer_scale²), independent; arrays that broadcast.

    >>> law = LogNormalScale(jnp.array([0.0, -20.0]), jnp.array([0.1, 0.1]))
    >>> print(law.below(1e-3), law.shrinkage().round(2))
    [0. 1.] [0.5 1. ]
    """

    loc: Any
    scale: Any
    layer_loc: Any = 0.0
    layer_scale: Any = 0.0

    def log_mean(self) -> Any:
        """Mean of log s."""
        return self.loc + self.layer_loc

    def log_std(self) -> Any:
        """Standard deviation of log s."""
        return jnp.hypot(self.scale, self.layer_scale)

    priors: ClassVar[str] = "priors.Horseshoe or priors.GroupHorseshoe"  # whose fits have this law

    # Of `redundancy`, which has no zero of its own: a scale is large or small beside the others.
    ceiling: ClassVar[float] = math.inf

    def mean(self) -> Any:
        """E s."""
        return jnp.exp(self.log_mean() + 0.5 * jnp.square(self.log_std()))

    def variance(self) -> Any:
        """Var s."""
        return log_normal.variance(self.log_mean(), self.log_std())

    def redundancy(self) -> Any:
        """Minus the log mode of s, (16.4): the higher, the less is a unit there."""
        return -log_normal.log_mode(self.log_mean(), self.log_std())

    def below(self, bound: ArrayLike) -> Any:
        """P(s < bound), (3.5)."""
        return log_normal.probability_below(bound, self.log_mean(), self.log_std())

    def shrinkage(self) -> Any:
        """E 1/(1 + tau²), (3.6): the unit's own scale against that of its layer."""
        return log_normal.expected_shrinkage(self.loc, self.scale)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianScale:
    """q(z) = N(loc, scale²), one z for each unit; arrays that broadcast.

    >>> law = GaussianScale(jnp.array([1.0, 0.01]), jnp.array([0.01, 0.1]))
    >>> print(law.log_alpha().round(1))
    [-9.2  4.6]
    """

    loc: Any
    scale: Any

    priors: ClassVar[str] = "priors.GroupNormalJeffreys"  # whose fits have this law

    # Of `redundancy`: there the noise is as large as the signal, and no group above has a say.
    ceiling: ClassVar[float] = 0.0

    def mean(self) -> Any:
        """E z."""
        return self.loc

    def variance(self) -> Any:
        """Var z."""
        return jnp.square(self.scale)

    def log_alpha(self) -> Any:
        """log scale² - log loc²."""
        return log_uniform.log_alpha(self.loc, self.scale)

    def redundancy(self) -> Any:
        """log alpha: the higher, the less is a unit there."""
        return self.log_alpha()


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
        return jnp.exp(truncated_log_normal.log_moment(1.0, *self._arguments()))

    def variance(self) -> Any:
        """Var theta, (18.2)."""
        return jnp.square(self.mean() / self.snr())

    def snr(self) -> Any:
        """E theta / sd theta."""
        return truncated_log_normal.snr(*self._arguments())

    def removal_gain(self) -> Any:
        """Log evidence gained where theta is all but 0, (18.4), nats."""
        return truncated_log_normal.removal_gain(*self._arguments())

    def uniform_gain(self, reduced_low: ArrayLike, reduced_high: ArrayLike) -> Any:
        """Log evidence gained where log theta is uniform between the two, (18.5), nats."""
        return truncated_log_normal.uniform_gain(*self._arguments(), reduced_low, reduced_high)

    def _arguments(self) -> tuple[Any, Any, Any, Any]:
        return self.loc, jnp.maximum(self.scale, LEAST_SCALE), self.low, self.high
