"""The family of points beside random scales of units."""

import math
from dataclasses import dataclass
from typing import Any

from bayesprune.model.families import MapFamily


@dataclass(frozen=True)
class NoisyPoints(MapFamily):
    """Weights as points, with all that is random in the noise of their units: for `priors.UnitNoise`.

    Its parameters have the names of `MapFamily`'s, so that a fit can start from a trained one's.

    Args:
        init_range, init_loc, unit: as of `MeanFieldFamily`.
        init_scale: the standard deviation of log theta at the start.
        init_spread: has to be 0.
    """

    init_loc: str = "he"
    init_scale: float = math.exp(-5.0)
    init_spread: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init_spread:
            raise ValueError(f"init_spread must be 0 where weights are points, got {self.init_spread}: leave it out.")


def check_noisy_points(family: Any, prior: str) -> None:
    """Refuse another family for a prior whose weights are points."""
    if not isinstance(family, NoisyPoints):
        raise ValueError(
            f"priors.{prior} has points for weights and a posterior of the units' noise, and {type(family).__name__} has not: "
            "leave posterior= at 'mean_field', or give model.noisy_points.NoisyPoints()."
        )
