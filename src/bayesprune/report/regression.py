"""Scores of real predictions: root mean square error, log likelihood of the predictive mixture, 95 % intervals.

The predictive distribution of a target is the mixture over network draws k of N(draws[k], noise_scale²). ``noise_scale`` is a
standard deviation in the target's units: a number, or an array that broadcasts against ``draws``, such as (outputs,), or
(num_samples, 1, 1) where the noise was drawn with the network.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from bayesprune.core.checks import check_within
from bayesprune.report.inputs import ArrayLike
from bayesprune.report.laws import VALUES, Draws, Matrix, columns, laws, matching, mixture

LEVEL = 0.95


def rmse(mean: ArrayLike, y: ArrayLike) -> float:
    """Root mean square error, sqrt(mean (mean - y)²), over all rows and outputs, in the target's units.

    ``mean`` and ``y``: (rows,) or (rows, outputs). If targets were standardised, undo it before, in both. Raises
    ``ValueError`` for NaN or shapes that differ.

    >>> rmse(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == 2**0.5
    True
    """
    prediction, target = columns(mean, "mean"), columns(y, "y")
    if prediction.shape != target.shape:
        raise ValueError(f"mean and y must have the same shape, got {np.shape(mean)} and {np.shape(y)}: average draws first.")
    return float(np.sqrt(np.mean((prediction - target) ** 2)))


def gaussian_nll(draws: ArrayLike, y: ArrayLike, noise_scale: float | ArrayLike) -> float:
    """Negative log likelihood of the predictive mixture, noise included, in nats per row.

    -mean_i log mean_k prod_o N(y[i, o]; draws[k, i, o], noise_scale²): the outputs of a row share their network draw.
    ``draws``: (num_samples, rows[, outputs]); ``y``: (rows[, outputs]); ``noise_scale`` above zero. Raises ``ValueError``
    for NaN, shapes that do not match, or noise that is not positive.

    >>> round(gaussian_nll(np.zeros((3, 2)), np.zeros(2), noise_scale=1.0), 4)
    0.9189
    """
    centre, noise = mixture(draws, noise_scale)
    check_noise(noise)
    return -float(np.mean(nats(centre, noise, matching(centre, y))))


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


def predictive_quantile(draws: ArrayLike, noise_scale: float | ArrayLike, probability: float) -> Matrix:
    """The quantile of the predictive mixture, (rows, outputs), exact but for rounding.

    ``draws`` and ``noise_scale`` as in `gaussian_nll`; with noise 0, the empirical quantile of the draws.

    >>> round(float(predictive_quantile(np.zeros((4, 1)), 1.0, 0.975)[0, 0]), 4)
    1.96
    """
    check_within(probability, "probability", "(0, 1)")
    return _quantiles(*mixture(draws, noise_scale), probability)[0]


def _quantiles(centre: Draws, noise: Draws, *probabilities: float) -> list[Matrix]:
    if not noise.all():
        if noise.any():
            raise ValueError("noise_scale must be positive everywhere or zero everywhere, got a mixture of both.")
        return [np.quantile(centre, probability, axis=0) for probability in probabilities]
    found = [np.empty(centre[0].size) for _ in probabilities]
    for law in laws(centre, noise):
        for quantile, probability in zip(found, probabilities, strict=True):
            quantile[law.targets] = law.quantile(probability)
    return [quantile.reshape(centre.shape[1:]) for quantile in found]


def predictive_interval(draws: ArrayLike, noise_scale: float | ArrayLike, level: float = 0.95) -> tuple[Matrix, Matrix]:
    """Lower and upper end of the central interval that holds ``level`` of the predictive mixture, each (rows, outputs).

    Exact quantiles of the Gaussian mixture, not of samples from it. With ``noise_scale`` 0, the empirical
    quantiles of the draws: a credible interval of the mean function, narrower than a predictive one.

    >>> low, high = predictive_interval(np.zeros((4, 1)), noise_scale=1.0)
    >>> [round(float(e[0, 0]), 4) for e in (low, high)]
    [-1.96, 1.96]
    """
    check_within(level, "level", "(0, 1)", "0.95 asks for a 95 % interval")
    low, high = _quantiles(*mixture(draws, noise_scale), (1.0 - level) / 2.0, (1.0 + level) / 2.0)
    return low, high


def coverage(draws: ArrayLike, y: ArrayLike, noise_scale: float | ArrayLike, level: float = 0.95) -> float:
    """Share of the targets inside their own `predictive_interval`; near ``level`` for an honest model.

    Every output of every row counts as one target. Shapes and errors as in `gaussian_nll`, but noise may be 0.

    >>> coverage(np.zeros((4, 2)), np.array([0.0, 3.0]), noise_scale=1.0)
    0.5
    """
    (low, high), target = predictive_interval(draws, noise_scale, level), matching(mixture(draws, noise_scale)[0], y)
    return float(np.mean((low <= target) & (target <= high)))


def interval_width(draws: ArrayLike, noise_scale: float | ArrayLike, level: float = 0.95) -> float:
    """Mean width of the `predictive_interval`, in the target's units: of two models with the same coverage, less is better.

    >>> round(interval_width(np.zeros((4, 2)), noise_scale=1.0), 4)
    3.9199
    """
    low, high = predictive_interval(draws, noise_scale, level)
    return float(np.mean(high - low))


@dataclass
class SumsOfNormals:
    """Figures of real targets, as `regression_summary` has them, of all rows that were added."""

    rows: int = 0
    targets: int = 0
    totals: dict[str, float] = field(default_factory=dict)

    def add(self, draws: ArrayLike, y: ArrayLike, noise_scale: float | ArrayLike) -> None:
        """More rows; arguments and errors are those of `gaussian_nll`."""
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


def regression_summary(draws: ArrayLike, y: ArrayLike, noise_scale: float | ArrayLike) -> dict[str, float]:
    """``rmse`` of the mean draw, ``nll`` in nats per row, ``coverage`` and ``interval_width`` at 95 %, ``crps``.

    ``draws``: (num_samples, rows[, outputs]); ``y``: (rows[, outputs]); ``noise_scale`` positive. All in the units of ``y``.

    >>> sorted(regression_summary(np.zeros((3, 2)), np.zeros(2), noise_scale=1.0))
    ['coverage', 'crps', 'interval_width', 'nll', 'rmse']
    """
    sums = SumsOfNormals()
    sums.add(draws, y, noise_scale)
    return sums.figures()
