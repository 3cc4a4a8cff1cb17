"""The predictive laws of many targets, a few at a time, each by what costs it least; and their quantiles."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, ndtri

from bayesprune.report.mixture import Centres, Draws, Noises, Targets
from bayesprune.report.waves import FEW, Waves, periods

Values = Float64[np.ndarray, "..."]
Numbers = Int[np.ndarray, " some"]


class Pairs(NamedTuple):
    """A mixture by its components and their pairs, however narrow: the definition as it is.

    Draws (num_samples, targets), and their deviations, of the same shape or (num_samples, 1).
    """

    centre: Centres
    noise: Noises

    def cdf(self, x: Targets) -> Targets:
        """The distribution function at ``x``, one value for each target."""
        return ndtr((x - self.centre) / self.noise).mean(axis=0)

    def only(self, targets: Numbers) -> "Pairs":
        """Those of some targets, by number."""
        return Pairs(self.centre[:, targets], self.noise if self.noise.shape[1] == 1 else self.noise[:, targets])

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
BEYOND = 1e-3  # deviations by which a bracket is wider, so that its root is inside whatever waves are off by


class Law(NamedTuple):
    """The law of some ``targets`` of all, by number; ``by``: its distribution function and its spread. Noise is above 0."""

    targets: Numbers
    centre: Centres
    noise: Noises
    by: Waves | Pairs

    def quantile(self, probability: float) -> Targets:
        """Where the distribution function is ``probability``: a root between the quantiles of the components."""
        own, margin = self.centre + float(ndtri(probability)) * self.noise, BEYOND * self.noise.max(axis=0)
        low, high = own.min(axis=0) - margin, own.max(axis=0) + margin
        by = self.by if min(probability, 1.0 - probability) >= LIKELY else Pairs(self.centre, self.noise)
        missing = lambda x, some: by.only(some.astype(int)).cdf(x) - probability  # noqa: E731
        found = find_root(missing, (low, high), args=(np.arange(len(low)),))
        # Where the noise is next to nothing beside the rounding of the draws, the root is at an end.
        return np.where(found.success, found.x, np.where(found.f_bracket[0] > 0, low, high))

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
