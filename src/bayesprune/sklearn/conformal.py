"""Split conformal prediction on top of a posterior: how wide an interval, or how large a set of classes, has to be."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

Outputs = Float64[np.ndarray, "rows outputs"]
Probabilities = Float64[np.ndarray, "rows classes"]


def known(scores: np.ndarray | None, left_out: Mapping[str, object]) -> np.ndarray:
    """How wrong predictions of held-out rows were; `ValueError` where a fit held none out. ``left_out``: for want of time."""
    if scores is not None:
        return scores
    remedy = (
        "time_limit left no time for a further fit: raise it, or leave it out."
        if "held_out" in left_out
        else "fit with held_out=0.2, which costs a further fit, or leave num_steps, held_out and presets as they come."
    )
    raise ValueError(f"this fit held out no rows to calibrate by: {remedy}")


def threshold(scores: Float64[np.ndarray, "rows *outputs"], level: float) -> Float64[np.ndarray, "*outputs"]:
    """The score, of each output, that exchangeable new rows stay at or below with probability ``level`` at least.

    NaN counts for nothing.

      q = the k-th smallest of n scores,  k = ceil((n + 1) level);   infinite where k > n      (21.30)

    >>> float(threshold(np.arange(1.0, 10.0), 0.8)), float(threshold(np.arange(1.0, 10.0), 0.95))
    (8.0, inf)

    Source: Vovk, Gammerman & Shafer (2005), chapter 4; Lei et al. (2018), Algorithm 2.
    """
    if scores.ndim > 1:
        return np.stack([threshold(column, level) for column in scores.T])
    known = np.sort(scores[~np.isnan(scores)])
    place = max(1, math.ceil((len(known) + 1) * level - 1e-9))
    return np.asarray(known[place - 1] if place <= len(known) else np.inf, np.float64)


def agreed(
    scores: Sequence[Float64[np.ndarray, " _"]], own: Sequence[Float64[np.ndarray, "rows classes"]], level: float
) -> Bool[np.ndarray, "rows classes"]:
    """What the networks of all folds find as likely as held-out rows were, (rows, classes).

      (1 + sum_k #{i in fold k: s_i >= s_k}) / (n + 1) > 1 - level,     n rows held out in all                 (21.38)

    for ``scores``, s_i of the rows that fold k held out, by the networks that had not seen them, and ``own``, s_k of new rows
    by the same networks. Of one fold that is s <= q of (21.30), and holds with probability ``level`` at least; of several with
    2 level - 1 - sqrt(2 / n) at least, and nearly with ``level`` where fits to other rows agree.

    >>> agreed([np.arange(1.0, 10.0)], [np.array([[8.0, 8.5]])], 0.8).tolist()
    [[True, False]]

    Source: Vovk (2015), cross-conformal predictors; Barber, Candès, Ramdas & Tibshirani (2021), theorem 4, for the bound.
    """
    worse = 1 + sum(len(fold) - np.searchsorted(np.sort(fold), of) for fold, of in zip(scores, own, strict=True))
    return np.asarray(worse > (1 + sum(map(len, scores))) * (1.0 - level) + 1e-9)


def scores_of_numbers(y: Outputs, mean: Outputs, std: Outputs) -> Outputs:
    """|y - mean| / std of the predictive distribution: a row that is less sure is allowed more. Of NaN in y, NaN."""
    return np.abs(y - mean) / std


def scores_of_labels(probabilities: Probabilities, labels: Int64[np.ndarray, " rows"]) -> Shaped[np.ndarray, " rows"]:
    """1 - p of a row's own class."""
    return 1.0 - probabilities[np.arange(len(labels)), labels]


def classes_within(probabilities: Probabilities, limit: Float64[np.ndarray, ""]) -> Bool[np.ndarray, "rows classes"]:
    """The classes whose score, were they a row's own, is at or below the limit: on average the smallest sets of their coverage.

    A set may be empty: the row is then like none of the classes. Source: Sadinle, Lei & Wasserman (2019), section 2.
    """
    return 1.0 - probabilities <= limit
