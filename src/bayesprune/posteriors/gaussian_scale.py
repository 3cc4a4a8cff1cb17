"""The law of a unit's Gaussian scale, z ~ N(loc, scale²), of either sign."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from bayesprune.formulas import log_uniform


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
