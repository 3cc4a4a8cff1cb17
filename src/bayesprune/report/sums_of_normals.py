"""Scores of Gaussian mixtures, added up over rows that come in parts: memory grows with one of them."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from bayesprune.report.inputs import ArrayLike
from bayesprune.report.laws import laws
from bayesprune.report.mixture import Draws, Matrix, matching, mixture

LEVEL = 0.95
VALUES = 2**16  # draws at once: they stay in a processor's cache


@dataclass
class SumsOfNormals:
    """Figures of real targets, as `regression.regression_summary` has them, of all rows that were added."""

    rows: int = 0
    targets: int = 0
    totals: dict[str, float] = field(default_factory=dict)

    def add(self, draws: ArrayLike, y: ArrayLike, noise_scale: float | ArrayLike) -> None:
        """More rows; arguments and errors are those of `regression.gaussian_nll`."""
        try:
            centre, noise = mixture(draws, noise_scale)
        except ValueError as error:
            raise ValueError(f"from row {self.rows} on, {error}") if self.rows else error from None
        check_noise(noise)
        target = matching(centre, y)
        flat, within, width, score = target.reshape(-1), *(np.empty(target.size) for _ in range(3))
        for law in laws(centre, noise):
            low, high = law.quantile((1.0 - LEVEL) / 2.0), law.quantile((1.0 + LEVEL) / 2.0)
            mine = flat[law.targets]
            within[law.targets] = (low <= mine) & (mine <= high)
            width[law.targets], score[law.targets] = high - low, law.score(mine)
        found = {
            "rmse": (centre.mean(axis=0) - target) ** 2,
            "nll": -nats(centre, noise, target),
            "coverage": within,
            "interval_width": width,
            "crps": score,
        }
        self.rows, self.targets = self.rows + len(target), self.targets + target.size
        self.totals = {name: self.totals.get(name, 0.0) + float(values.sum()) for name, values in found.items()}

    def figures(self) -> dict[str, float]:
        """Means over targets; nll over rows."""
        means = {name: total / (self.rows if name == "nll" else self.targets) for name, total in self.totals.items()}
        return means | {"rmse": float(np.sqrt(means["rmse"]))}


def nats(centre: Draws, noise: Draws, target: Matrix) -> Float64[np.ndarray, " rows"]:
    """log mean_k prod_o N(y[i, o]; centre[k, i, o], noise²) of every row."""
    found = np.empty(len(target))
    size = max(1, VALUES // centre[:, 0].size)
    for first in range(0, len(target), size):
        part = slice(first, first + size)
        z = (target[part] - centre[:, part]) / noise[:, part]
        log_density = (-0.5 * z**2 - np.log(noise[:, part])).sum(axis=2)
        most = log_density.max(axis=0)
        found[part] = most + np.log(np.exp(log_density - most).mean(axis=0))
    return found - 0.5 * target.shape[1] * np.log(2.0 * np.pi)


def check_noise(noise: Draws) -> None:
    """Refuse noise of zero, under which a target has no density."""
    if (noise == 0).any():
        raise ValueError("noise_scale must be positive for a likelihood, got 0: pass the noise's standard deviation.")
