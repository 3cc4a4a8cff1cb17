"""The choice of a form by held-out rows, and how wrong its predictions of them were: what intervals are calibrated by."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64

from bayesprune.sklearn.forms import FormChoice

SEED = 101  # of the order in which rows are held out: apart from the fit's own
WORST = -20.0  # nats that a row counts at least: one that no form foresees must not decide alone
Learn = Callable[[str, Any], None]


def choose(estimator: Any, choice: FormChoice, x: np.ndarray, y: np.ndarray, learn: Learn) -> str:
    """The name of the form that held-out rows speak for, see `spoken_for`; sets the estimator's ``_conformity``.

    ``learn(form, rows)`` fits the estimator to some rows. Every form is fitted to the same rows; each fold holds out others.
    The scores of the winner's predictions of them calibrate intervals: it is fitted anew to all rows afterwards, so that they
    are those of a network that had seen fewer.
    """
    if not choice.folds:
        return choice.forms[0]
    folds = list(_folds(np.random.default_rng([SEED, estimator._seed]), len(x), choice))
    nats: dict[str, np.ndarray] = {}
    scores: dict[str, np.ndarray] = {}
    for form in choice.forms:
        found = []
        for kept, held in folds:
            learn(form, kept)
            density, wrong = estimator._judged(x[held], y[held])
            found.append((np.maximum(density, WORST), wrong))
        densities, parts = zip(*found, strict=True)
        nats[form] = np.concatenate(densities)
        scores[form] = np.concatenate(parts)
    best = spoken_for(nats)
    estimator._conformity = scores[best]
    return best


def spoken_for(nats: dict[str, Float64[np.ndarray, " rows"]]) -> str:
    """The form of the highest mean log density, or the first, the simplest, if its lead over that is within one standard error.

    The rows are the same for all, so that the error is that of the mean of differences row by row. A hundred rows are few: of
    two forms that predict alike the larger one is ahead every other time, and loses elsewhere.

    >>> spoken_for({"plain": np.array([0.0, 0.1, 0.2]), "steps": np.array([0.3, -0.1, 0.2])})
    'plain'

    Source: the rule of one standard error, Breiman, Friedman, Olshen & Stone (1984), section 3.4.3.
    """
    first, best = next(iter(nats)), max(nats, key=lambda form: float(nats[form].mean()))
    lead = nats[best] - nats[first]
    error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else np.inf
    return best if lead.mean() > error else first


def _folds(rng: np.random.Generator, num_rows: int, choice: FormChoice) -> Any:
    """Pairs (kept, held out) of rows."""
    order = rng.permutation(num_rows)
    size = max(1, round(choice.held_out * num_rows))
    for fold in range(choice.folds):
        held = np.sort(np.take(order, np.arange(fold * size, (fold + 1) * size), mode="wrap"))
        yield np.setdiff1d(order, held), held
