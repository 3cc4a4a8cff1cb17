"""A mixture of Gaussians by its Fourier series: what the distribution function of many draws costs, whatever their number.

Within half a period P on either side, the sign of t - Y and the distance |Y - Y'| are a square and a triangle wave of period
2P, and the mean of each of their terms is one number of the mixture (21.17). A Gaussian of deviation s damps the term of
frequency w by exp(-(w s)²/2), so that a dozen terms give all digits where the draws lie within a few deviations of one another.

Source: Davies 1973, of the inversion of a characteristic function at equal distances.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex128, Float64, Int

from bayesprune.report.mixture import Centres, Noises, Targets

FADED = 6.4  # deviations times frequency from which on a wave is left out: exp(-FADED²/2) = 1e-9
MARGIN = 9.0  # deviations between the draws and the period's end: what lies beyond has no weight
FEW = 5.0  # terms for each draw, up to which they cost less than the draws' pairs


class Waves(NamedTuple):
    """``sums``: Phi_j of (21.17), j = 1, 3, 5, ..., of every target about its ``middle``; ``half``: the period's half, P.

    The terms are counted for each target's own period, see `periods`: with a longer one a narrow target would need more.
    """

    half: float | Float64[np.ndarray, " targets"]
    middle: Float64[np.ndarray, " targets"]
    sums: Complex128[np.ndarray, "terms targets"]

    @classmethod
    def of(cls, centre: Centres, noise: Noises, half: float | Float64[np.ndarray, " targets"], terms: int) -> "Waves":
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

    def only(self, targets: Int[np.ndarray, " some"]) -> "Waves":
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
