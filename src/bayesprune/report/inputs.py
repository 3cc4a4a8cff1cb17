"""The door of every metric and figure: what is given becomes checked float64, integer or boolean NumPy arrays here, once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jax import Array
from jaxtyping import Bool, Float64, Int64, Shaped

from bayesprune.core.numbers import without_mask

ArrayLike = Shaped[Array | np.ndarray, "..."]

ROW_SUM_TOLERANCE = 1e-3  # float32 averages of softmaxes stay within 1e-5; logits and raw scores do not come near


def finite(values: ArrayLike | Any, name: str) -> Float64[np.ndarray, "..."]:
    """Real numbers as float64; refuses NaN, infinities and what is not a number."""
    array = np.asarray(without_mask(values, name))
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
    array = array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name} must be finite, got {array[where]} at index {where} ({len(bad)} such values): "
            "look for a diverged fit or missing data and drop or repair those rows."
        )
    return array


def class_probabilities(probs: ArrayLike, name: str = "probs") -> Float64[np.ndarray, "rows classes"]:
    """Class probabilities as (rows, classes); a vector is read as the probability of class 1 of two."""
    array = finite(probs, name)
    if array.ndim == 1:
        array = np.stack([1.0 - array, array], axis=1)
    if array.ndim != 2 or array.shape[1] < 2 or array.shape[0] == 0:
        raise ValueError(
            f"{name} must have shape (rows, classes) with at least one row and two classes, or (rows,) for two classes, "
            f"got {np.shape(probs)}: average draws over their first axis before."
        )
    if array.min() < -ROW_SUM_TOLERANCE or array.max() > 1.0 + ROW_SUM_TOLERANCE:
        raise ValueError(
            f"{name} must lie in [0, 1], got values from {array.min():.4g} to {array.max():.4g}: "
            "pass probabilities, such as bayesprune.predict gives of classes, or take the softmax of your logits; numbers have "
            "bayesprune.evaluate."
        )
    total = array.sum(axis=1)
    worst = int(np.argmax(np.abs(total - 1.0)))
    if abs(total[worst] - 1.0) > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"every row of {name} must sum to 1, row {worst} sums to {total[worst]:.6g}: divide each row by its sum, "
            "or take the softmax over the last axis (in float32)."
        )
    return array.clip(0.0, 1.0)


def class_labels(y: ArrayLike, rows: int, classes: int, name: str = "y") -> Int64[np.ndarray, " rows"]:
    """Whole-number labels in 0 .. classes - 1, one for each of ``rows`` rows."""
    array = finite(y, name)
    if array.shape != (rows,):
        remedy = "take argmax(axis=1) of one-hot labels" if array.ndim == 2 else "give one label for each row of probs"
        remedy = f"give {name}[:, 0]" if array.shape == (rows, 1) else remedy
        raise ValueError(f"{name} must have shape ({rows},), got {array.shape}: {remedy}.")
    labels = array.astype(np.int64)
    if (labels != array).any():
        raise ValueError(f"{name} must hold whole numbers (class labels), got {array[labels != array][0]}.")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"{name} must lie in 0 .. {classes - 1} for {classes} classes, got labels from {labels.min()} to {labels.max()}: "
            "count classes from 0."
        )
    return labels


def probabilities_and_labels(
    probs: ArrayLike, y: ArrayLike
) -> tuple[Float64[np.ndarray, "rows classes"], Int64[np.ndarray, " rows"]]:
    """Both sides of a classification metric, checked against each other; each token of (rows, tokens, classes) is a row."""
    if np.ndim(probs) > 2:
        *tokens, classes = np.shape(probs)
        if np.shape(y) != tuple(tokens):
            raise ValueError(
                f"y must have shape {tuple(tokens)}, one label for each of probs {np.shape(probs)}, got {np.shape(y)}: average "
                "draws over their first axis before."
            )
        probs, y = np.reshape(probs, (-1, classes)), np.reshape(y, -1)
    array = class_probabilities(probs)
    return array, class_labels(y, *array.shape)


def recorded(history: Mapping[str, Any], key: str) -> np.ndarray:
    """What a fit's history holds under ``key``; the error says what it has instead."""
    if key in history and np.size(history[key]) == 0:
        raise ValueError(f"history[{key!r}] is empty: nothing of it has happened yet; train on, or let it happen more often.")
    if key not in history:
        had = ", ".join(sorted(history)) or "nothing"
        raise ValueError(f"history has no {key!r} (it has {had}): fit with a sparsifier to record it.")
    return np.asarray(without_mask(history[key], f"history[{key!r}]"), np.float64)


def truth_values(values: ArrayLike | Any, name: str) -> Bool[np.ndarray, "..."]:
    """An array of booleans; zeros and ones are taken for False and True."""
    array = np.asarray(without_mask(values, name))
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        remedy = (
            "of places make np.isin(np.arange(size), places)"
            if array.dtype.kind in "iu"
            else "compare with a threshold first, such as p > 0.5"
        )
        raise ValueError(f"{name} must be boolean, got dtype {array.dtype}: {remedy}.")
    return array.astype(bool)
