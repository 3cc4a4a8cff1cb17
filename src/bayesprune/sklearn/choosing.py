"""The choice of a form by held-out rows, and how wrong its predictions of them were: what intervals are calibrated by."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayesprune.sklearn.forms import FormChoice

SEED = 101  # of the order in which rows are held out: apart from the fit's own
WORST = -20.0  # nats that a row counts at least: one that no form foresees must not decide alone
Learn = Callable[[str, Any], None]


def choose(estimator: Any, choice: FormChoice, x: np.ndarray, y: np.ndarray, learn: Learn) -> str:
    """The name of the form with the best mean log density of held-out rows; sets the estimator's ``_conformity``.

    ``learn(form, rows)`` fits the estimator to some rows. Every form is fitted to the same rows; each fold holds out others.
    The scores of the winner's predictions of them calibrate intervals: it is fitted anew to all rows afterwards, so that they
    are those of a network that had seen fewer.
    """
    if not choice.folds:
        return choice.forms[0]
    folds = list(_folds(np.random.default_rng([SEED, estimator._seed]), len(x), choice))
    nats: dict[str, float] = {}
    scores: dict[str, np.ndarray] = {}
    for form in choice.forms:
        found = []
        for kept, held in folds:
            learn(form, kept)
            density = np.maximum(estimator._log_density(x[held], y[held]), WORST)
            found.append((density, estimator._scores(x[held], y[held])))
        densities, parts = zip(*found, strict=True)
        nats[form] = float(np.mean(np.concatenate(densities)))
        scores[form] = np.concatenate(parts)
    best = max(choice.forms, key=lambda form: nats[form])
    estimator._conformity = scores[best]
    return best


def _folds(rng: np.random.Generator, num_rows: int, choice: FormChoice) -> Any:
    """Pairs (kept, held out) of rows."""
    order = rng.permutation(num_rows)
    size = max(1, round(choice.held_out * num_rows))
    for fold in range(choice.folds):
        held = np.sort(np.take(order, np.arange(fold * size, (fold + 1) * size), mode="wrap"))
        yield np.setdiff1d(order, held), held
