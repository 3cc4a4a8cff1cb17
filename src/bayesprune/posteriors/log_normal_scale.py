"""The law of a unit's scale, s = upsilon tau: log-normal, one tau for each unit and one upsilon for the whole layer."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayesprune.formulas import log_normal


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
