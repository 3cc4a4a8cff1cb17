"""What held-out rows say of forms and cuts, and how wrong they were predicted: what intervals are calibrated by."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from bayesprune.sklearn import boosting, measures
from bayesprune.sklearn.budget import LARGER, Budget, OutOfTimeError
from bayesprune.sklearn.forms import LINEAR, TREES, FormChoice
from bayesprune.sklearn.measures import WORST, is_behind
from bayesprune.sklearn.mixture import Member
from bayesprune.sklearn.stacking import may_gain, mixed, stacked, weights_of
from bayesprune.sklearn.training_rows import TrainingRows

SEED = 101  # of the order in which rows are held out: apart from the fit's own
Learn = Callable[..., Any]  # of a form, rows, steps, and what follows them
MOST_HELD_OUT = 0.25  # share of the rows without which fits may predict: of 90 to 140 rows, two thirds taught too little
WORTH = 0.02  # nats a row that a larger net must be ahead by: 2 % of the probability of what came


class Judged(NamedTuple):
    """Log density of each row, nats; what is foreseen of it, E[y] and E[y²] of each output, (rows, outputs, 2), or the
    probabilities of classes, (rows, classes); log T, see `temperature`, and the probabilities at T = 1, of classes alone."""

    nats: Float64[np.ndarray, " rows"]
    foreseen: Float64[np.ndarray, "rows ..."]
    log_temperature: float = 0.0
    untempered: Float64[np.ndarray, "rows classes"] | None = None


class Chosen(NamedTuple):
    """A form that held-out rows speak for, which of the cuts after its fit, see `cutting.rungs`, a temperature, its weight in
    the law of y, and its fits to the rows of each fold, where those have a part in it."""

    form: str
    rung: int = 0
    temperature: float = 1.0
    weight: float = 1.0
    members: tuple[Member, ...] = ()


class Choice(NamedTuple):
    """The forms, the first one first; the rows that each fold held out, none twice; how wrong those rows were foreseen, and
    what was foreseen of them, see `Judged`, None where none were held out; and by how many nats a row constants of the other
    rows foresee them better, 0 where not for sure."""

    forms: tuple[Chosen, ...]
    held: tuple[Int64[np.ndarray, " _"], ...] = ()
    wrong: np.ndarray | None = None
    foreseen: np.ndarray | None = None
    behind: float = 0.0


@dataclass
class Trials:
    """The fits to the rows of each fold that it does not hold out; ``judged``, ``learned`` and ``members`` are those of a form
    by fold.

    ``learn(form, rows, num_steps, *watches)`` fits a form to some rows, and returns what it has learned.
    """

    estimator: Any
    rows: TrainingRows
    folds: list[tuple[np.ndarray, np.ndarray]]
    learn: Learn
    num_steps: int
    learned: dict[str, list[Any]] = field(default_factory=dict)
    judged: dict[str, list[Judged]] = field(default_factory=dict)
    members: dict[str, list[Member]] = field(default_factory=dict)

    def fit(self, form: str, fold: int) -> None:
        """One of them; `OutOfTimeError` where time runs out."""
        budget: Budget = self.estimator._budget
        if form == TREES:
            self.rows.grow()
        learned = self.learn(form, self.folds[fold][0], self.num_steps, *budget.watches(self.num_steps, after=self.num_steps))
        member, judged = self._cut(learned, fold, rung=0)
        self.learned.setdefault(form, []).append(learned)
        self.judged.setdefault(form, []).append(judged)
        self.members.setdefault(form, []).append(member)

    def ruled_out(self, form: str) -> bool:
        """Whether a form is not worth a fit: models that are quickly fitted, and see what it does, are behind by an error.

        Thresholds are what trees cut at; a linear network is what a ridge, or logistic, regression is. And trees may know
        nothing that the forms before them do not.
        """
        first = next(iter(self.judged), None)
        if first is None:
            return False
        if form == TREES:
            return self._trees_add_nothing()
        measured = self.fitted(first)._measured(form, self.rows.x, self.rows.y, *self.folds[0])
        return measured is not None and is_behind(np.maximum(measured, WORST) - self.judged[first][0].nats)

    def _trees_add_nothing(self) -> bool:
        """Whether neither a forest, which is grown here, nor boosted trees may know more of held-out rows than the forms so far
        foresee together.

        Of the five models of boosted trees one answers, see `boosting.foreseen`.
        """
        judged = {form: of[0] for form, of in self.judged.items()}
        weights = stacked({form: one.nats for form, one in judged.items()})
        foreseen = np.sum([weight * judged[form].foreseen for form, weight in weights.items()], axis=0)
        held, first = self.folds[0][1], self.fitted(next(iter(judged)))

        def adds(said: np.ndarray) -> bool:
            return may_gain(*first._beside_trees(self.rows.y[held], foreseen, said))

        x, y, forest = self.rows.x, self.rows.y, self.rows.forest
        if forest is not None and adds(forest.unseen[held]):
            return False
        if not boosting.are_enough(y):
            return True
        said = boosting.foreseen(self.rows.seed, x, y, *self.folds[0], self.rows.budget)
        return said is None or not adds(said)

    def cut(self, form: str, rung: int) -> "JudgedCut":
        """Another cut of a form's fits."""
        members, judged = zip(*(self._cut(learned, fold, rung) for fold, learned in enumerate(self.learned[form])), strict=True)
        return JudgedCut(rung, joined(list(judged)), list(members))

    def fitted(self, form: str) -> Any:
        """The estimator with what a form has learned of the first fold."""
        return self.estimator._predicting_by(self.members[form][0])

    def _cut(self, learned: Any, fold: int, rung: int) -> tuple[Member, Judged]:
        kept, held = self.folds[fold]
        x, y = self.rows.x, self.rows.y
        member = self.estimator._cut(learned, x[kept], y[kept], rung)
        judged: Judged = self.estimator._predicting_by(member)._judged(x[held], y[held])
        return member, judged._replace(nats=np.maximum(judged.nats, WORST))


def choose(estimator: Any, choice: FormChoice, rows: TrainingRows, learn: Learn, num_steps: int) -> Choice:
    """The forms that held-out rows speak for, each with its cut, see `how_far`; and how wrong those rows were predicted.

    Every form is fitted to the same rows; each fold holds out others. Of several forms the law of y is a mixture, with the
    weights of `weights_of`; or where the estimator is to be one network the form is that of `spoken_for`. The scores of their
    predictions of held-out rows calibrate intervals: a fit to all rows follows, so that they are those of networks that had
    seen fewer. Forms are tried unless they are ruled out, see `Trials.ruled_out`; forms and folds are left out for which the
    estimator's budget has no time.
    """
    if not choice.folds:
        return Choice((Chosen(choice.forms[0]),))
    folds = list(_folds(np.random.default_rng([SEED, estimator._seed]), len(rows.x), choice))
    trials = Trials(estimator, rows, folds, learn, num_steps)
    forms = _fitted(trials, choice.forms)
    if not forms:
        estimator._budget.left_out["held_out"] = choice.held_out
        return Choice((Chosen(choice.forms[0]),))
    several = estimator._stacks(choice)
    if not several:
        forms = [spoken_for({form: joined(trials.judged[form]).nats for form in forms})]
    cuts = {form: _how_far(trials, form) for form in forms}
    nats = {form: cuts[form].judged.nats for form in forms}
    weights = weights_of(nats)
    behind = measures.behind_constants(mixed(nats, weights), trials.fitted(forms[0]), rows.x, rows.y, trials.folds)
    held = np.concatenate([held for _, held in trials.folds])  # in the order of what is said of these rows
    log_temperatures, foreseen = _together(estimator, rows.y[held], {form: cuts[form].judged for form in weights}, weights)
    chosen = tuple(
        Chosen(
            form,
            cuts[form].rung,
            float(np.exp(log_temperatures[form])),
            weight,
            tuple(cuts[form].members) if several and choice.held_out <= MOST_HELD_OUT else (),
        )
        for form, weight in weights.items()
    )
    once = np.sort(np.unique(held, return_index=True)[1])  # a row that several folds hold out is one row all the same
    of_folds = np.repeat(np.arange(len(trials.folds)), [len(held) for _, held in trials.folds])[once]
    apart = tuple(held[once][of_folds == fold] for fold in range(len(trials.folds)))
    return Choice(chosen, apart, estimator._wrong(rows.y[held], foreseen)[once], foreseen[once], behind)


def _together(
    estimator: Any, y: np.ndarray, judged: dict[str, Judged], weights: dict[str, float]
) -> tuple[dict[str, float], np.ndarray]:
    """log T of each form, and what they foresee together.

    A mixture of probabilities that hold is less sure than it might be, so that of several forms one T is that of their mixture.
    """
    parts = {form: one.untempered for form, one in judged.items() if one.untempered is not None}
    if len(judged) == 1 or not parts:
        foreseen = np.sum([weights[form] * one.foreseen for form, one in judged.items()], axis=0)
        return {form: one.log_temperature for form, one in judged.items()}, foreseen
    log_temperature, foreseen = estimator._tempered(y, np.sum([weights[form] * part for form, part in parts.items()], axis=0))
    return dict.fromkeys(judged, log_temperature), foreseen


class JudgedCut(NamedTuple):
    """One of `cutting.rungs`, what held-out rows say of it, and the fits under it, by fold."""

    rung: int
    judged: Judged
    members: list[Member]


def _how_far(trials: Trials, form: str) -> JudgedCut:
    """The cut of `how_far`; those between the ends are tried where the softest is worth its weights.

    Where nothing is lost by the hardest cut, which is so nearly always, there is nothing that one between them could save.
    """
    hardest = JudgedCut(0, joined(trials.judged[form]), trials.members[form])
    softest = len(trials.learned[form][0].rungs) - 1
    if not softest:
        return hardest
    last = trials.cut(form, softest)
    if float((last.judged.nats - hardest.judged.nats).mean()) < WORTH:
        return hardest
    rungs = [hardest, *(trials.cut(form, rung) for rung in range(1, softest)), last]
    return rungs[how_far([one.judged.nats for one in rungs])]


def _fitted(trials: Trials, forms: tuple[str, ...]) -> list[str]:
    """The forms that were fitted to all folds: as many as there is time for, but those that are ruled out."""
    budget: Budget = trials.estimator._budget
    done: list[str] = []
    ruled_out: set[str] = set()
    took = 0.0  # seconds of the first fit
    for form in forms:
        if done and LARGER * len(trials.folds) * took + trials.num_steps * budget.pace > budget.left():
            continue
        if form == TREES and done and not trials.rows.has_time():
            continue
        if trials.ruled_out(form):
            ruled_out.add(form)
            continue
        begun = budget.left()
        try:
            trials.fit(form, 0)
            if not done and budget.limited:
                took = begun - budget.left()
                if LARGER * len(trials.folds) * len(forms) * took > budget.left():
                    budget.left_out |= {"folds": len(trials.folds) - 1} if len(trials.folds) > 1 else {}
                    trials.folds = trials.folds[:1]
            for fold in range(1, len(trials.folds)):
                trials.fit(form, fold)
            done.append(form)
        except OutOfTimeError:
            if not done:
                break
    if missing := tuple(form for form in forms[1:] if form not in ruled_out.union(done)):
        budget.left_out["forms"] = (*missing, *budget.left_out.get("forms", ()))
    return done


def joined(judged: list[Judged]) -> Judged:
    """Of the rows of all folds."""
    nats, foreseen, log_temperatures, untempered = zip(*judged, strict=True)
    whole = None if untempered[0] is None else np.concatenate(untempered)
    return Judged(np.concatenate(nats), np.concatenate(foreseen), float(np.mean(log_temperatures)), whole)


def how_far(nats: list[Float64[np.ndarray, " rows"]]) -> int:
    """The place of the hardest cut that no softer one is ahead of, by more than one standard error and .02 nats a row.

    ``nats``: log densities of the same rows, the hardest cut first. Where single weights carry little each, such as those of a
    thousand bits in 165 rows, all are more likely out than in, and what they share would be lost with them.

    >>> fine = np.array([0.0, 0.1, 0.2])
    >>> how_far([fine - 1.0, fine - 0.01, fine])
    1

    Source: the rule of one standard error, as `spoken_for`.
    """
    best = max(nats, key=lambda one: float(one.mean()))
    return next(k for k, one in enumerate(nats) if float((best - one).mean()) < WORTH or not is_behind(one - best))


def spoken_for(nats: dict[str, Float64[np.ndarray, " rows"]]) -> str:
    """The form of the highest mean log density, or the first, if its lead over that is within one standard error.

    A linear network is simpler than the first, a net of hidden units: it is the first where it is not behind by its mean.

    The rows are the same for all, so that the error is that of the mean of differences row by row. A hundred rows are few: of
    two forms that predict alike the larger one is ahead every other time, and loses elsewhere.

    >>> spoken_for({"plain": np.array([0.0, 0.1, 0.2]), "steps": np.array([0.3, -0.1, 0.2])})
    'plain'

    Source: the rule of one standard error, Breiman, Friedman, Olshen & Stone (1984), section 3.4.3.
    """
    first, best = next(iter(nats)), max(nats, key=lambda form: float(nats[form].mean()))
    if LINEAR in nats and nats[LINEAR].mean() >= nats[first].mean():
        first = LINEAR
    return best if is_behind(nats[first] - nats[best]) else first


def _folds(rng: np.random.Generator, num_rows: int, choice: FormChoice) -> Any:
    """Pairs (kept, held out) of rows."""
    order = rng.permutation(num_rows)
    size = max(1, round(choice.held_out * num_rows))
    for fold in range(choice.folds):
        held = np.sort(np.take(order, np.arange(fold * size, (fold + 1) * size), mode="wrap"))
        yield np.setdiff1d(order, held), held
