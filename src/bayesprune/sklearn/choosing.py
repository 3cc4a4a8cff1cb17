"""The choice of a form by held-out rows, and how wrong its predictions of them were: what intervals are calibrated by."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64

from bayesprune.sklearn.budget import LARGER, Budget, OutOfTimeError
from bayesprune.sklearn.forms import FormChoice
from bayesprune.sklearn.race import BehindError, Halfway, halfway, is_behind

SEED = 101  # of the order in which rows are held out: apart from the fit's own
WORST = -20.0  # nats that a row counts at least: one that no form foresees must not decide alone
Learn = Callable[..., None]  # of a form, rows, steps, and what follows them
Judged = tuple[np.ndarray, np.ndarray]


def choose(estimator: Any, choice: FormChoice, x: np.ndarray, y: np.ndarray, learn: Learn, num_steps: int) -> str:
    """The name of the form that held-out rows speak for, see `spoken_for`; sets the estimator's ``_conformity``.

    ``learn(form, rows, num_steps, *watches)`` fits the estimator to some rows. Every form is fitted to the same rows; each fold
    holds out others. The scores of the winner's predictions of them calibrate intervals: it is fitted anew to all rows
    afterwards, so that they are those of a network that had seen fewer. A form that is behind the first one on the way is given
    up; forms and folds are left out for which the estimator's budget has no time.
    """
    if not choice.folds:
        return choice.forms[0]
    folds = list(_folds(np.random.default_rng([SEED, estimator._seed]), len(x), choice))
    budget: Budget = estimator._budget
    judged: dict[str, Judged] = {}
    given_up: set[str] = set()
    rivals: dict[int, Halfway] = {}  # what the first form's fits were on the way, by fold
    took = 0.0  # seconds of the first fit

    def held_out(form: str, fold: int) -> Judged:
        kept, held = folds[fold]
        race = halfway(lambda moment: estimator._judged_at(moment, x[held], y[held]), num_steps, rivals.get(fold))
        learn(form, kept, num_steps, *budget.watches(num_steps, after=num_steps), *race)
        if race and form == choice.forms[0]:
            rivals[fold] = race[0]
        density, wrong = estimator._judged(x[held], y[held])
        return np.maximum(density, WORST), wrong

    for form in choice.forms:
        if judged and LARGER * len(folds) * took + num_steps * budget.pace > budget.left():
            continue
        begun = budget.left()
        try:
            found = [held_out(form, 0)]
            if not judged and budget.limited:
                took = begun - budget.left()
                if LARGER * len(folds) * len(choice.forms) * took > budget.left():
                    budget.left_out |= {"folds": len(folds) - 1} if len(folds) > 1 else {}
                    folds = folds[:1]
            found += [held_out(form, fold) for fold in range(1, len(folds))]
        except OutOfTimeError:
            if not judged:
                break
        except BehindError:
            given_up.add(form)
        else:
            densities, parts = zip(*found, strict=True)
            judged[form] = np.concatenate(densities), np.concatenate(parts)
    if missing := tuple(form for form in choice.forms[1:] if form not in judged.keys() | given_up):
        budget.left_out["forms"] = missing
    if not judged:
        budget.left_out["held_out"] = choice.held_out
        return choice.forms[0]
    best = spoken_for({form: nats for form, (nats, _) in judged.items()})
    estimator._conformity = judged[best][1]
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
    return best if is_behind(nats[first] - nats[best]) else first


def _folds(rng: np.random.Generator, num_rows: int, choice: FormChoice) -> Any:
    """Pairs (kept, held out) of rows."""
    order = rng.permutation(num_rows)
    size = max(1, round(choice.held_out * num_rows))
    for fold in range(choice.folds):
        held = np.sort(np.take(order, np.arange(fold * size, (fold + 1) * size), mode="wrap"))
        yield np.setdiff1d(order, held), held
