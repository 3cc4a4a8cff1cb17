"""A mixture of Gaussians by its components and their pairs, however narrow: the definition as it stands."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtr

from bayesprune.report.mixture import Centres, Noises, Targets

Values = Float64[np.ndarray, "..."]


class Pairs(NamedTuple):
    """Draws (num_samples, targets), and their deviations, of the same shape or (num_samples, 1)."""

    centre: Centres
    noise: Noises

    def law(self, x: Targets) -> tuple[Targets, Targets, Targets]:
        """The distribution function, its density, and the density's slope at ``x``, one value for each target."""
        z = (x - self.centre) / self.noise
        density = np.exp(-0.5 * z**2) / (np.sqrt(2.0 * np.pi) * self.noise)
        return ndtr(z).mean(axis=0), density.mean(axis=0), -(z * density / self.noise).mean(axis=0)

    def spread(self) -> Targets:
        """E|Y - Y'| / 2 of two targets of the same law: all pairs of (21.9)."""
        number = len(self.centre)
        total = 0.5 * mean_size(np.zeros_like(self.centre), 2 * self.noise**2).sum(axis=0)
        for lag in range(1, number // 2 + 1):
            # Pairs by their distance around the circle; each is met twice, but for those of half a circle, where all are.
            twice = 1.0 if 2 * lag == number else 2.0
            other, variance = np.roll(self.centre, lag, axis=0), self.noise**2 + np.roll(self.noise, lag, axis=0) ** 2
            total += 0.5 * twice * mean_size(self.centre - other, variance).sum(axis=0)
        return total / number**2


def mean_size(mean: Values, variance: Values) -> Values:
    """E|x| of x ~ N(mean, variance)."""
    scale = np.sqrt(variance)
    z = np.divide(mean, scale, out=np.zeros_like(mean), where=scale > 0)
    size = mean * (2.0 * ndtr(z) - 1.0) + scale * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * z**2)
    return np.where(scale > 0, size, np.abs(mean))
