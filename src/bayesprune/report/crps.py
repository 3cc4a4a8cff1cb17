"""Proper scores of whole predictive distributions, by how far their distribution functions are from the truth's step."""

import numpy as np
from jaxtyping import Float64

from bayesprune.report.inputs import ArrayLike, probabilities_and_labels
from bayesprune.report.laws import laws, matching, mixture

Values = Float64[np.ndarray, "..."]


def crps(samples: ArrayLike, y: ArrayLike) -> float:
    """Continuous ranked probability score of the predictive distribution of y, in the target's units: less is better.

    From samples of it: the mean over all targets of  E|Y - y| - E|Y - Y'| / 2 (21.8), the second mean over pairs of different
    samples (the fair estimate, whose mean does not depend on how many there are). Of one sure prediction it is the absolute
    error.

    ``samples``: (num_samples, rows[, outputs]), at least two, noise included; ``y``: (rows[, outputs]). Raises ``ValueError``
    for NaN or shapes that do not match.

    >>> crps(np.array([[1.0], [3.0]]), np.array([2.0]))
    0.0

    Source: Gneiting & Raftery 2007, eq. 20; Ferro 2014 for the fair estimate.
    """
    return float(np.mean(crps_of_rows(samples, y)))


def crps_of_rows(samples: ArrayLike, y: ArrayLike) -> Values:
    """The score of each target, (rows, outputs), see `crps`."""
    drawn, _ = mixture(samples, 0.0)
    target, number = matching(drawn, y), len(drawn)
    if number < 2:
        raise ValueError("samples must be at least two of each target, got one: draw more, or give the absolute error.")
    ranks = 2.0 * np.arange(number) - number + 1.0
    # The sum of |a - b| over ordered pairs is twice the sum of (2 i - n + 1) times the i-th of the sorted samples.
    spread = np.tensordot(ranks, np.sort(drawn, axis=0), 1) / (number * (number - 1.0))
    return np.abs(drawn - target).mean(axis=0) - spread


def gaussian_crps(draws: ArrayLike, y: ArrayLike, noise_scale: float | ArrayLike) -> float:
    """The `crps` of the predictive Gaussian mixture, exact.

      mean_k A(y - m_k, s_k²) - mean_kl A(m_k - m_l, s_k² + s_l²) / 2,    A(m, v) = E|N(m, v)|         (21.9)

    over the draws k, l and then all targets; m = ``draws`` and s = ``noise_scale``, shapes and errors as of `gaussian_nll`,
    but noise may be 0.

    >>> round(gaussian_crps(np.zeros((3, 1)), np.zeros(1), noise_scale=1.0), 4)
    0.2337

    Source: Grimit, Gneiting, Berrocal & Johnson 2006, eq. 4.
    """
    centre, noise = mixture(draws, noise_scale)
    target, score = matching(centre, y).reshape(-1), np.empty(centre[0].size)
    for law in laws(centre, noise):
        score[law.targets] = law.score(target[law.targets])
    return float(np.mean(score))


def ranked_probability_score(probs: ArrayLike, y: ArrayLike) -> float:
    """`crps` of ordered classes, mean_i sum_k (P(y <= k) - [y_i <= k])²: a label that is nearly right costs little.

    ``probs``: (rows, classes), in the classes' order; ``y``: (rows,) labels counted from 0. Errors as of `accuracy`.

    >>> ranked_probability_score(np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]), np.array([0, 0]))
    0.375

    Source: Epstein 1969.
    """
    probs, y = probabilities_and_labels(probs, y)
    steps = np.arange(probs.shape[1]) >= y[:, None]
    return float(((probs.cumsum(axis=1) - steps) ** 2)[:, :-1].sum(axis=1).mean())


def sampled_figures(samples: ArrayLike, y: ArrayLike, level: float = 0.95) -> dict[str, Values]:
    """``crps``, ``coverage`` and ``interval_width`` of each target, (rows, outputs), from samples as `crps` takes them."""
    drawn, _ = mixture(samples, 0.0)
    target = matching(drawn, y)
    # Of one more sample, unseen, of the same law, ``level`` lie within it on average.
    low, high = np.quantile(drawn, ((1.0 - level) / 2.0, (1.0 + level) / 2.0), axis=0, method="weibull")
    inside = ((low <= target) & (target <= high)).astype(np.float64)
    return {"crps": crps_of_rows(drawn, target), "coverage": inside, "interval_width": high - low}
