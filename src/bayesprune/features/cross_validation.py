"""How many inputs to keep: the share that predicts held-out rows best, by cross-validation."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float64, Int, Real, Shaped

from bayesprune.core import checks
from bayesprune.core.numbers import without_mask
from bayesprune.prune import choose


def top_fraction(importance: Real[ArrayLike, " features"], fraction: float) -> Bool[np.ndarray, " features"]:
    """The most important inputs, exactly round(fraction * features) of them and at least one; ties go to the lower index.

    A cut at a quantile, as in the paper, keeps every input that ties with the last one; this keeps the count.

    Args:
        importance: (features,), any order-preserving scale; -inf is the least.
        fraction: share kept, in (0, 1]; the paper's fixed choice is 0.2.

    Returns:
        (features,) booleans.

    Raises:
        ValueError: a NaN importance, another shape, no features, or a fraction outside (0, 1].

    Example:
        >>> print(top_fraction(np.array([0.1, 0.9, 0.5, 0.9]), 0.5))
        [False  True False  True]

    Source: Saha, Liu & Liang (2024), Algorithm 2.
    """
    checks.check_share(fraction, "fraction", "it is the share of the inputs that is kept, so 0.2 keeps a fifth")
    values = np.asarray(without_mask(importance, "importance"), np.float64)
    if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
        raise ValueError(f"importance must be of shape (features,), without NaN, got {values.shape}: is the fit finite?")
    keep = np.zeros(values.size, bool)
    keep[np.argsort(-values, kind="stable")[: int(choose.kept(float(fraction), values.size))]] = True
    return keep


RULES = ("min", "one_standard_error")
Rows = Shaped[Array | np.ndarray, "rows ..."]


class FractionChoice(NamedTuple):
    """``fraction``: the share chosen. ``fractions``: (shares,), ascending. ``losses``: (folds, shares), held-out losses."""

    fraction: float
    fractions: Float64[np.ndarray, " shares"]
    losses: Float64[np.ndarray, "folds shares"]


def choose_fraction(
    rng_key: Shaped[Array, "..."],
    fit_and_score: Callable[[Any, Any, Any, Any, Any], Any],
    x: Rows,
    y: Rows,
    importance_of: Callable[[Any, Any, Any], Any],
    fractions: Sequence[float],
    num_folds: int = 10,
    rule: str = "min",
    stratified: bool = False,
) -> FractionChoice:
    """The share of inputs to keep, by cross-validation: rank within each fold, refit on the best, judge on the fold's rows.

    Dropped inputs are multiplied by 0, not cut out (X diag(keep) in the paper), and all folds have the same numbers of rows:
    rows // num_folds are held out, and the few left over are trained on in every fold. So one compilation serves every fit,
    if ``fit_and_score`` reuses its own. Centre the columns of ``x`` before: 0 should be an input's mean. Within a fold all
    shares get the same key, so their losses differ by the inputs and not by the draw. It fits num_folds * (1 + shares) times.

    Args:
        rng_key: a JAX random key, for the folds and the fits.
        fit_and_score: (key, x_train, y_train, x_val, y_val) -> loss, a number; lower is better.
        x, y: all training rows, (rows, features) and (rows, ...).
        importance_of: (key, x_train, y_train) -> (features,), higher stays, such as `importance` of a fit, ``.scaled``.
        fractions: shares to try, each in (0, 1].
        num_folds: from 2 to the number of rows; 10 in the paper.
        rule: "min", the share with the lowest mean loss; "one_standard_error", the smallest share whose mean loss is within
            one standard error (of the lowest, over folds) of the lowest. Ties go to the smaller share.
        stratified: of labels y (rows,), every fold has its share of each class.

    Returns:
        `FractionChoice`. Then rank once more with all rows: ``top_fraction(importance, choice.fraction)``.

    Raises:
        TypeError: rng_key is no key.
        ValueError: shapes or numbers that do not fit, or an unknown rule.
        FloatingPointError: a loss that is not finite; it names fold and share.

    Example:
        >>> import jax
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((60, 4))
        >>> y = x[:, 0] + 0.1 * rng.standard_normal(60)
        >>> def fit_and_score(key, x, y, x_val, y_val):
        ...     return np.mean((x_val @ np.linalg.lstsq(x, y)[0] - y_val) ** 2)
        >>> choose_fraction(
        ...     jax.random.key(0), fit_and_score, x, y, lambda key, x, y: np.abs(x.T @ y), (0.25, 0.5, 1.0), num_folds=5,
        ...     rule="one_standard_error",
        ... ).fraction
        0.25

    Source: Saha, Liu & Liang (2024), Algorithm 2 and section 4.1; Breiman et al. (1984) for one standard error.
    """
    key = checks.check_key(rng_key)
    checks.check_name("rule", rule, RULES)
    x, y = without_mask(x, "x"), without_mask(y, "y")
    if x.ndim != 2 or len(x) != len(y):
        raise ValueError(f"x must be (rows, features) and y must have as many rows, got {x.shape} and {y.shape}.")
    checks.check_integer(num_folds, "num_folds", minimum=2)
    if num_folds > len(x):
        raise ValueError(f"num_folds must be at most the number of rows, {len(x)}, got {num_folds}.")
    for fraction in fractions:
        checks.check_share(fraction, "fractions", "each is a share of the inputs, so 0.2 keeps a fifth")
    if stratified and np.ndim(y) != 1:
        raise ValueError(f"stratified=True asks for labels y of shape (rows,), got {np.shape(y)}: give one label for each row.")
    shares = np.unique(np.asarray(fractions, np.float64))
    if not shares.size:
        raise ValueError("fractions must name at least one share to try, got none.")
    key, shuffle = jax.random.split(key)
    order = np.asarray(jax.random.permutation(shuffle, len(x)))
    folds = _folds(order, y if stratified else None, num_folds)
    losses = np.empty((num_folds, shares.size))
    for fold in range(num_folds):
        rank_key, fit_key = jax.random.split(jax.random.fold_in(key, fold))
        val, train = folds[fold], order[~np.isin(order, folds[fold])]
        ranks = importance_of(rank_key, x[train], y[train])
        if np.shape(ranks) != x.shape[1:]:
            raise ValueError(f"importance_of must give one number per feature, {x.shape[1:]}, got shape {np.shape(ranks)}.")
        for column, fraction in enumerate(shares):
            keep = top_fraction(ranks, float(fraction)).astype(x.dtype)
            loss = float(fit_and_score(fit_key, x[train] * keep, y[train], x[val] * keep, y[val]))
            if not np.isfinite(loss):
                raise FloatingPointError(f"fit_and_score gave {loss} in fold {fold} with the share {fraction}: did it diverge?")
            losses[fold, column] = loss
    return FractionChoice(float(shares[_chosen(losses, rule)]), shares, losses)


def _folds(order: Int[np.ndarray, " rows"], labels: Rows | None, num_folds: int) -> Int[np.ndarray, "folds held"]:
    """The rows of each fold, in turn or, of labels, every so many-th within its class; the few left over are in none."""
    held = len(order) // num_folds
    if labels is None:
        return order[: held * num_folds].reshape(num_folds, held)
    by_class = order[np.argsort(np.asarray(labels)[order], kind="stable")]
    few = len(order) - held * num_folds  # evenly spaced: the last ones may be all of a class
    without = ((np.arange(few) + 0.5) * len(order) / max(few, 1)).astype(int)
    return np.delete(by_class, without).reshape(held, num_folds).T


def _chosen(losses: Float64[np.ndarray, "folds shares"], rule: str) -> int:
    """Index of the first (smallest) share that passes."""
    mean = losses.mean(axis=0)
    best = int(np.argmin(mean))
    slack = losses[:, best].std(ddof=1) / np.sqrt(len(losses)) if rule == "one_standard_error" else 0.0
    return int(np.flatnonzero(mean <= mean[best] + slack)[0])
