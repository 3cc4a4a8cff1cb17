"""Predictive laws of real targets, mixtures of Gaussians: how metrics take them, a few targets at a time, and their quantiles.

A law is known by its components and their pairs, or, at a cost that hardly grows with the draws, by its Fourier series. Within
half a period P on either side, the sign of t - Y and the distance |Y - Y'| are a square and a triangle wave of period 2P, and
the mean of each of their terms is one number of the mixture (21.17). A Gaussian of deviation s damps the term of frequency w by
exp(-(w s)²/2), so that a dozen terms give all digits where the draws lie within a few deviations of one another.

Source: Davies 1973, of the inversion of a characteristic function at equal distances.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Complex128, Float64, Int
from scipy.optimize.elementwise import find_root
from scipy.special import ndtr, ndtri

from bayesprune.report.inputs import ArrayLike, finite

Matrix = Float64[np.ndarray, "rows outputs"]
Draws = Float64[np.ndarray, "num_samples rows outputs"]
Targets = Float64[np.ndarray, " targets"]
Centres = Float64[np.ndarray, "num_samples targets"]
Noises = Float64[np.ndarray, "num_samples _"]  # of every target, or one for all
Values = Float64[np.ndarray, "..."]
Numbers = Int[np.ndarray, " some"]

FADED = 6.4  # deviations times frequency from which on a wave is left out: exp(-FADED²/2) = 1e-9
MARGIN = 9.0  # deviations between the draws and the period's end: what lies beyond has no weight
FEW = 5.0  # terms for each draw, up to which they cost less than the draws' pairs
VALUES = 2**16  # draws at once: they stay in a processor's cache
LIKELY = 1e-3  # quantiles further out are not asked of the waves, which are right to one part in 1e9 of all
BEYOND = 1e-3  # deviations by which a bracket is wider, so that its root is inside whatever waves are off by


def columns(values: ArrayLike, name: str) -> Matrix:
    """(rows,) or (rows, outputs) to (rows, outputs)."""
    array = finite(values, name)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must have shape (rows,) or (rows, outputs) and hold something, got {array.shape}.")
    return array.reshape(len(array), -1)


def mixture(draws: ArrayLike, noise_scale: float | ArrayLike) -> tuple[Draws, Draws]:
    """Centres and standard deviations of the mixture, both (num_samples, rows, outputs)."""
    centre = finite(draws, "draws")
    if centre.ndim not in (2, 3) or centre.size == 0:
        raise ValueError(
            f"draws must have shape (num_samples, rows) or (num_samples, rows, outputs), got {centre.shape}: "
            "bayesprune.predict_draws gives it; a single prediction needs a leading axis of one."
        )
    noise = finite(noise_scale, "noise_scale")
    if (noise < 0).any():
        raise ValueError(f"noise_scale must not be negative, got {noise.min()}: it is a standard deviation.")
    try:
        noise = np.broadcast_to(noise, centre.shape)
    except ValueError:
        raise ValueError(
            f"noise_scale of shape {noise.shape} does not broadcast against draws of shape {centre.shape}: "
            "give a number, or add axes, as in noise_scale[:, None, None] for one value per draw."
        ) from None
    shape = (*centre.shape[:2], -1)
    return centre.reshape(shape), noise.reshape(shape)


def matching(draws: Draws, y: ArrayLike) -> Matrix:
    """The targets of draws, (rows, outputs)."""
    target = columns(y, "y")
    if target.shape != draws.shape[1:]:
        raise ValueError(f"y must match the rows and outputs of draws, {draws.shape[1:]}, got {np.shape(y)}.")
    return target


class Waves(NamedTuple):
    """``sums``: Phi_j of (21.17), j = 1, 3, 5, ..., of every target about its ``middle``; ``half``: the period's half, P.

    The terms are counted for each target's own period, see `periods`: with a longer one a narrow target would need more.
    """

    half: float | Targets
    middle: Targets
    sums: Complex128[np.ndarray, "terms targets"]

    @classmethod
    def of(cls, centre: Centres, noise: Noises, half: float | Targets, terms: int) -> "Waves":
        """Of draws (num_samples, targets) and their deviations, of the same shape or (num_samples, 1).

        ``half``: one for all targets only where the noise is the same for all.
        """
        middle = 0.5 * (centre.max(axis=0) + centre.min(axis=0))
        frequency = np.pi / half
        angle, damped = frequency * (centre - middle), 0.5 * (frequency * noise) ** 2
        wave = np.empty(angle.shape, np.complex128)
        np.cos(angle, out=wave.real)
        np.sin(angle, out=wave.imag)
        # The next odd wave is this one times `step`, exp(-j² damped + i j angle) growing by differences of squares.
        step, faster = wave * wave, np.exp(-8.0 * damped)
        wave *= np.exp(-damped)
        step *= faster
        sums = np.empty((terms, centre.shape[1]), np.complex128)
        for number in range(terms):
            np.mean(wave, axis=0, out=sums[number])
            wave *= step
            step *= faster
        return cls(half, middle, sums)

    def only(self, targets: Numbers) -> "Waves":
        """Those of some targets, by number."""
        half = self.half[targets] if isinstance(self.half, np.ndarray) and self.half.ndim else self.half
        return Waves(half, self.middle[targets], self.sums[:, targets])

    def cdf(self, x: Targets) -> Targets:
        """The distribution function at ``x``, one value for each target."""
        wave = np.exp(1j * np.pi / self.half * (x - self.middle))
        step, below = wave * wave, np.zeros(x.shape)
        for number, one in enumerate(self.sums):
            below += (wave * one.conj()).imag / (2 * number + 1)
            wave *= step
        return 0.5 + 2.0 / np.pi * below

    def spread(self) -> Targets:
        """E|Y - Y'| / 2 of two targets of the same law."""
        orders = 2.0 * np.arange(len(self.sums)) + 1.0
        size = self.sums.real**2 + self.sums.imag**2
        return 0.25 * self.half - 2.0 * self.half / np.pi**2 * (orders**-2 @ size)


def periods(centre: Centres, noise: Noises) -> tuple[Targets, Targets]:
    """Half a period that is long enough for each target, and the terms that its series needs."""
    half = np.ptp(centre, axis=0) + MARGIN * noise.max(axis=0)
    return half, np.ceil(0.5 * (FADED * half / (np.pi * noise.min(axis=0)) + 1.0))


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
    """The laws of all targets of `mixture`, row by row and output by output, in parts of similar ones."""
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
