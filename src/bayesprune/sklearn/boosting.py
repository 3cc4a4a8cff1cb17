"""Boosted trees as the input of a network: what those foresee of a row that had not seen it."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from scipy.special import log_softmax
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold

from bayesprune.data.scaling import silencing
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.thresholds import Table, Targets, single
from bayesprune.sklearn.trees import Grown, Trees, logs, nodes_of

FOLDS, LEAST_ROWS, MOST_CLASSES = 5, 40, 5  # of more than two classes each has a tree at every stage
STEP, MOST, PATIENCE, WORTH = 25, 400, 2, 0.0005  # stages between looks, and looks that gain less than so many nats a row
RATE, DEPTH, LEAST_IN_LEAF = 0.1, 5, 5  # of a stage
SHARE, MOST_COLUMNS = 0.3, 100  # of columns, among which each cut is found
MOST_OF_TIME = 0.2  # that is left, for a forest, and for boosted trees
SUBSAMPLE, MOST_ROWS = 0.5, 10_000  # of rows, that a tree is grown on
clock = time.perf_counter
LEAST = 1e-12  # that is added to mean squares: of a constant target they are zero

Target = Shaped[np.ndarray, " rows"]
Kept = Int64[np.ndarray, " kept"]
Held = Int64[np.ndarray, " held"]
OfHeld = Float64[np.ndarray, "held outputs"]


def boost(seed: int, x: Table, y: Targets, budget: Budget | None = None) -> Grown | None:
    """Five models of boosted trees of these rows, each without a fifth of them; of new rows their mean is said.

    ``y``: numbers, or labels, which are integers. Of so many stages, 25 to 400, as foresee the rows best that were
    left out; where the budget has no time for more, which is noted there, of those that it has time for. None of less than 40
    rows, of more than one output, of more than five classes, or with a class of less than five rows.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> y = np.sign(x[:, 0] * x[:, 1])
    >>> trees, unseen = boost(0, x, y)
    >>> trees.says(x[:4]).shape, unseen.shape, bool(np.corrcoef(unseen[:, 0], y)[0, 1] > 0.9)
    ((4, 1), (300, 1), True)

    Source: Friedman (2001), algorithm 6 and section 4.6; Friedman (2002), section 2; Wolpert (1992) for folds.
    """
    labels = np.issubdtype(y.dtype, np.integer)
    if not are_enough(y):
        return None
    y, rows = np.ravel(y), single(x)
    folds = list((StratifiedKFold if labels else KFold)(FOLDS, shuffle=True, random_state=seed).split(rows, y))
    models = [_model(labels, seed + fold, rows[kept]) for fold, (kept, _) in enumerate(folds)]
    found = _staged(models, rows, y, folds, most_stages(y), budget or Budget())
    if found is None:
        return None
    said, stages = found
    unseen = np.empty_like(said)
    unseen[np.concatenate([held for _, held in folds])] = said
    for model in models:
        model.estimators_ = model.estimators_[:stages]
    return Grown(_trees(models, rows[:1], unseen, labels), unseen)


def foreseen(seed: int, x: Table, y: Target, kept: Kept, held: Held, budget: Budget | None = None) -> OfHeld | None:
    """What one such model of some of the rows says of others, which is that of half as many stages at most.

    The others choose the number, which flatters it: where even so they are not foreseen any better, five need not be grown.
    None where a class is among the others alone, or where the budget has no time.
    """
    labels, rows = np.issubdtype(y.dtype, np.integer), single(x)
    if labels and not np.isin(y[held], y[kept]).all():
        return None
    found = _staged([_model(labels, seed, rows[kept])], rows, y, [(kept, held)], most_stages(y) // 2, budget or Budget())
    return None if found is None else found[0]


def _staged(
    models: Sequence[Any], rows: Table, y: Target, folds: Sequence[tuple[np.ndarray, np.ndarray]], most: int, budget: Budget
) -> tuple[OfHeld, int] | None:
    """What the models say of the rows that each holds out, fold after fold, and with how many stages; grows them so far.

    None where the budget has no time for the first ones.
    """
    labels, held_out = np.issubdtype(y.dtype, np.integer), np.concatenate([held for _, held in folds])
    begun, left = clock(), budget.left()
    models[0].set_params(n_estimators=1).fit(rows[folds[0][0]], y[folds[0][0]])
    if len(folds) * STEP * (clock() - begun) > MOST_OF_TIME * left:
        budget.left_out["boosting"] = 0
        return None
    best, found, waited = np.inf, None, 0
    for number in range(STEP, most + 1, STEP):
        parts = []
        for model, (kept, held) in zip(models, folds, strict=True):
            model.set_params(n_estimators=number).fit(rows[kept], y[kept])  # goes on from the stages that it has
            parts.append(_says(model, rows[held], labels))
        said = np.concatenate(parts)
        loss = missed(said, y[held_out])
        waited = 0 if loss < best - WORTH else waited + 1
        if not waited:
            best, found = loss, (said, number)
        if waited == PATIENCE:
            break
        if (number + STEP) / number * (clock() - begun) > MOST_OF_TIME * left:
            budget.left_out["boosting"] = number
            break
    return found


def most_stages(y: Target) -> int:
    """400, of more than two classes so many as have 800 trees, in steps of 25.

    >>> most_stages(np.array([0.5, 1.5])), most_stages(np.array([0, 1])), most_stages(np.array([0, 1, 2]))
    (400, 400, 250)
    """
    classes = len(np.unique(y)) if np.issubdtype(y.dtype, np.integer) else 1
    return MOST if classes < 3 else 2 * MOST // classes // STEP * STEP


def missed(unseen: Float64[np.ndarray, "rows outputs"], y: Target) -> float:
    """Nats a row: of labels -log p, of numbers log(mean (y - m)²) / 2, which is that of a Gaussian but for a constant."""
    if np.issubdtype(y.dtype, np.integer):
        nats = log_softmax(np.pad(unseen, ((0, 0), (1, 0))), axis=1)
        return -float(nats[np.arange(len(y)), y].mean())
    return float(np.log(np.mean(np.square(unseen[:, 0] - y)) + LEAST) / 2.0)


def are_enough(y: Targets) -> bool:
    """Whether they can be grown for such targets.

    >>> are_enough(np.arange(40.0)), are_enough(np.arange(39.0)), are_enough(np.arange(40) % 2), are_enough(np.arange(40) % 6)
    (True, False, True, False)
    """
    if len(y) < LEAST_ROWS or y[:1].size > 1:
        return False
    counts = np.bincount(y) if np.issubdtype(y.dtype, np.integer) else None
    return counts is None or (2 <= len(counts) <= MOST_CLASSES and bool(counts.min() >= FOLDS))


def _model(labels: bool, seed: int, rows: np.ndarray) -> Any:
    return (GradientBoostingClassifier if labels else GradientBoostingRegressor)(
        learning_rate=RATE,
        max_depth=DEPTH,
        min_samples_leaf=LEAST_IN_LEAF,
        max_features=max(1, min(int(SHARE * rows.shape[1]), MOST_COLUMNS)),
        subsample=min(SUBSAMPLE, MOST_ROWS / len(rows)),
        random_state=np.random.RandomState(seed),
        warm_start=True,
    )


def _raw(model: Any, rows: np.ndarray, labels: bool) -> Float64[np.ndarray, "rows numbers"]:
    """The sum of its stages: the target, or logarithms of the classes' shares, that of the first of two classes zero."""
    found = model.decision_function(rows) if labels else model.predict(rows)
    return _after_zero(found, labels) if found.ndim == 1 else found


def _after_zero(values: Float64[np.ndarray, " some"], labels: bool) -> Float64[np.ndarray, "some numbers"]:
    """Values of one number: the target itself, or of two classes the second one's, beside the first one's."""
    return np.column_stack([np.zeros(len(values)), values] if labels else [values])


def _says(model: Any, rows: np.ndarray, labels: bool) -> Float64[np.ndarray, "rows outputs"]:
    return logs(model.predict_proba(rows)) if labels else _raw(model, rows, labels)  # type: ignore[no-any-return]


def _trees(models: Sequence[Any], row: np.ndarray, unseen: np.ndarray, labels: bool) -> Trees:
    """The mean of these models; ``row``: any, by which it is found what their stages are added to."""
    stages = np.concatenate([model.estimators_ for model in models])  # of more than two classes a tree for each
    trees, turns = [tree.tree_ for tree in np.ravel(stages)], stages.shape[1]
    values = [_after_zero(RATE * tree.value[:, 0, 0] / FOLDS, labels and turns == 1) for tree in trees]
    said = np.mean([_raw(model, row, labels)[0] for model in models], axis=0)
    added = np.stack([own[tree.apply(row)[0]] for tree, own in zip(trees, values, strict=True)])
    offset = said - added.reshape((-1, len(said))).sum(axis=0)
    shares = np.mean([model.feature_importances_ for model in models], axis=0)
    found = nodes_of(trees, values)
    return Trees(**found, turns=turns, offset=offset, labels=labels, logits=labels, scaling=silencing(unseen), shares=shares)
