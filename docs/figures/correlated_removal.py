"""Evidence of removing an input from a correlated regression: by the exact posterior, and by its mean-field optimum.

    python docs/figures/correlated_removal.py      # writes correlated_removal.png beside this file

60 rows, three inputs, the first two with correlation rho, y = 1.0 x1 + 0.0 x2 + 0.4 x3 + noise; the mean over 200 data sets.
"""

from pathlib import Path

import jax
import numpy as np

from bayesprune.formulas.gaussian import log_evidence_gain_of_removal
from bayesprune.report import plots
from bayesprune.report.plots_style import PALETTE, figure, style

TRUE, ROWS, SETS = np.array([1.0, 0.0, 0.4]), 60, 200
CORRELATIONS = np.array([0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95])


def posterior(rho: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the conjugate posterior under N(0, 1), noise of unit variance."""
    shared = np.linalg.cholesky(np.array([[1, rho, 0], [rho, 1, 0], [0, 0, 1]]))
    x = rng.normal(size=(ROWS, 3)) @ shared.T
    precision = x.T @ x + np.eye(3)
    return np.linalg.solve(precision, x.T @ (x @ TRUE + rng.normal(size=ROWS))), precision


def gains(rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Exact and diagonal, the mean over data sets, by input."""
    rng = np.random.default_rng(0)
    exact, diagonal = [], []
    for _ in range(SETS):
        loc, precision = posterior(rho, rng)
        exact.append(log_evidence_gain_of_removal(loc, np.diag(np.linalg.inv(precision)) ** 0.5, 1.0))
        diagonal.append(log_evidence_gain_of_removal(loc, np.diag(precision) ** -0.5, 1.0))
    return np.mean(exact, 0), np.mean(diagonal, 0)


def draw() -> None:
    """Write the figure, and say its numbers."""
    exact, diagonal = (np.array(part) for part in zip(*map(gains, CORRELATIONS), strict=True))
    fig = figure(9.0, 3.4)
    for index, ax in enumerate(fig.subplots(1, 3)):
        ax.plot(CORRELATIONS, exact[:, index], "o-", color=PALETTE[0], label="exact, marginal variance")
        ax.plot(CORRELATIONS, diagonal[:, index], "s--", color=PALETTE[1], label="mean field")
        ax.axhline(0, color="0.5", linewidth=0.8)
        title = f"x{index + 1}: w = {TRUE[index]:g}, {'correlated' if index < 2 else 'independent'}"
        style(ax, "correlation of x1 and x2", "" if index else "log evidence gained (nats)", title)
        if index == 2:
            ax.legend(frameon=False, loc="center")
    plots.save(fig, Path(__file__).with_suffix(".png"))
    for rho, one, other in zip(CORRELATIONS, exact, diagonal, strict=True):
        print(f"{rho:.2f}  exact {np.round(one, 2)}  mean field {np.round(other, 2)}")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    draw()
