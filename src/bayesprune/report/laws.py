"""The predictive laws of many targets, a few at a time, each by what costs it least; and their quantiles."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import ndtr, ndtri

from bayesprune.report.mixture import Centres, Draws, Noises, Targets
from bayesprune.report.waves import FEW, Waves, periods

Values = Float64[np.ndarray, "..."]


class Pairs(NamedTuple):
    """A mixture by its components and their pairs, however narrow: the definition as it is.

    Draws (num_samples, targets), and their deviations, of the same shape or (num_samples, 1).
    """

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


VALUES = 2**16  # draws at once: they stay in a processor's cache
LIKELY = 1e-3  # quantiles further out are not asked of the waves, which are right to one part in 1e9 of all
STEPS = 100  # bisections alone would end a bracket of any width
NEAR, HALVED = 1e-4, 1e-9  # deviations: a step of Halley's leaves an error of its third power, a bisection one of its size


class Law(NamedTuple):
    """The law of some ``targets`` of all, by number; ``by``: its distribution function, density and slope, and its spread."""

    targets: Int[np.ndarray, " some"]
    centre: Centres
    noise: Noises
    by: Waves | Pairs

    def quantile(self, probability: float) -> Targets:
        """Where the distribution function is ``probability``, by steps of Halley's within a bracket."""
        score = float(ndtri(probability))
        own, total = self.centre + score * self.noise, np.sqrt(self.centre.var(axis=0) + (self.noise**2).mean(axis=0))
        least = np.broadcast_to(self.noise.min(axis=0), total.shape)
        by = self.by if min(probability, 1.0 - probability) >= LIKELY else Pairs(self.centre, self.noise)
        return _root(by.law, probability, own.min(axis=0), own.max(axis=0), self.centre.mean(axis=0) + score * total, least)

    def score(self, target: Targets) -> Targets:
        """The continuous ranked probability score of each target, (21.9)."""
        return mean_size(target - self.centre, self.noise**2).mean(axis=0) - self.by.spread()


def laws(centre: Draws, noise: Draws) -> Iterator[Law]:
    """The laws of all targets of `mixture.mixture`, row by row and output by output, in parts of similar ones."""
    number = len(centre)
    centre, noise = centre.reshape(number, -1), _as_kept(noise).reshape(number, -1)
    size = max(1, VALUES // number)
    for first in range(0, centre.shape[1], 16 * size):
        part = slice(first, first + 16 * size)
        mine, own = centre[:, part], noise if noise.shape[1] == 1 else noise[:, part]
        with np.errstate(divide="ignore", invalid="ignore"):  # no noise has no waves
            half, terms = periods(mine, own)
        order = np.argsort(terms, kind="stable")
        for begin in range(0, len(order), size):
            some = order[begin : begin + size]
            few = terms[some] <= FEW * number
            for chosen, waves in ((some[few], True), (some[~few], False)):
                if len(chosen):
                    alike = own.shape[1] == 1  # the noise of all targets: the longest period then takes the most terms
                    m, s = mine[:, chosen], own if alike else own[:, chosen]
                    span = half[chosen].max() if alike else half[chosen]
                    by = Waves.of(m, s, span, int(terms[chosen].max())) if waves else Pairs(m, s)
                    yield Law(first + chosen, m, s, by)


def _as_kept(noise: Draws) -> Float64[np.ndarray, "num_samples _ _"]:
    """(num_samples, 1, 1) where a deviation is the same for all targets of a draw, and in memory only once."""
    same = all(size == 1 or stride == 0 for size, stride in zip(noise.shape[1:], noise.strides[1:], strict=True))
    return noise[:, :1, :1] if same else noise


def _root(
    law: Callable[[Targets], tuple[Targets, Targets, Targets]],
    probability: float,
    low: Targets,
    high: Targets,
    start: Targets,
    least: Targets,
) -> Targets:
    """Where ``law`` reaches the probability, between ``low`` and ``high``; ``least``: the scale on which it is smooth.

    A step of Halley's within the bracket is taken if the one before it has at least halved what is missing; else half of the
    bracket: between components of unlike scales such steps may go to and fro for ever.
    """
    x, before = np.clip(start, low, high), np.full(start.shape, np.inf)
    for _ in range(STEPS):
        below, density, slope = law(x)
        missing = below - probability
        low, high = np.where(missing < 0, x, low), np.where(missing < 0, high, x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = missing / density
            # Between two far components the density is next to nothing, and its slope says nothing of the way to either.
            moved = x - step / (1.0 - np.clip(0.5 * step * slope / density, -0.5, 0.5))
        inside = (low <= moved) & (moved <= high) & (np.abs(missing) <= 0.5 * before)
        before = np.abs(missing)
        moved = np.where(inside, moved, 0.5 * (low + high))
        done = np.abs(moved - x) <= np.where(inside, NEAR, HALVED) * least
        x = moved
        if done.all():
            break
    return x
