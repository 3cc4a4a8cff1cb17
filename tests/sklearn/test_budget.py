"""What a limit on the time leaves out, by a clock that the tests keep: a second passes whenever it is looked at."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

import bayesprune as bp
from bayesprune.sklearn import budget, choosing, forms
from bayesprune.sklearn.budget import Budget, OutOfTimeError
from bayesprune.train.result import Moment
from tests.sklearn.problems import NET, linear_rows
from tests.sklearn.stand_in import StandIn


@pytest.fixture
def ticking(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(budget, "clock", lambda: float(next(ticks)))


def moments(last: int):
    return [Moment(step, 0.0, 1.0, {}, dict, dict) for step in range(budget.EVERY, last + 1, budget.EVERY)]


def train(num_steps: int, *watches) -> int:
    """As `fit_svi` does it: how many steps are done."""
    for moment in moments(num_steps):
        if any([watch(moment) for watch in watches]):
            break
    for watch in watches:
        watch.check()
    return num_steps


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_a_limit_that_is_not_positive_is_refused(limit) -> None:
    with pytest.raises(ValueError, match="time_limit must be positive"):
        bp.BayesianSparseRegressor(**NET, time_limit=limit).fit(*linear_rows())


@pytest.mark.parametrize("limit", ["60", True])
def test_a_limit_that_is_no_number_is_refused(limit) -> None:
    with pytest.raises(TypeError, match="time_limit must be a number of seconds"):
        bp.BayesianSparseRegressor(**NET, time_limit=limit).fit(*linear_rows())


def test_without_a_limit_nothing_is_watched() -> None:
    assert budget.read(None).watches(5000) == ()


@pytest.mark.parametrize(("limit", "missing"), [(1000.0, 0), (60.0, 2500), (25.0, 3750), (0.5, 4688)])
def test_steps_are_halved_until_there_is_time(ticking, limit, missing) -> None:
    """At two seconds for a hundred steps 5,000 take 100 seconds, and the look that tells it some more."""
    done, kept = [], Budget(limit)
    kept.last(lambda steps, *watches: done.append(train(steps, *watches)), 5000)
    assert done == [5000 - missing] and kept.left_out == ({"steps": missing} if missing else {})


class Judge(StandIn):
    """A form takes its time."""

    def learn(self, form, rows, num_steps, *watches):
        learned = super().learn(form, rows, num_steps)
        train(num_steps, *watches)
        return learned


@pytest.mark.parametrize(
    ("limit", "form", "left_out", "fits"),
    [
        (1e6, "steps", {}, ["plain"] * 3 + ["steps"] * 3),
        (250.0, "steps", {"folds": 2}, ["plain", "steps"]),
        (60.0, "plain", {"folds": 2, "forms": ("steps",)}, ["plain"]),
        (5.0, "plain", {"forms": ("steps",), "held_out": 0.2}, ["plain"]),
    ],
)
def test_forms_and_folds_are_left_out_first(ticking, limit, form, left_out, fits) -> None:
    choice, judge = forms.FormChoice(("plain", "steps"), 3, 0.2), Judge({"plain": -1.0, "steps": 0.0}, limit=limit)
    x, y = np.zeros((100, 1)), np.zeros(100)
    chosen, _, conformity, *_ = judge.choose(choice, x, y, 1000)
    assert chosen == (choosing.Chosen(form),) and (conformity is None) == ("held_out" in left_out)
    assert judge._budget.left_out == left_out and judge.fits == fits


def test_a_fit_that_is_kept_is_not_given_up_late(ticking) -> None:
    (watch,) = Budget(50.0).watches(5000)
    assert [watch(moment) for moment in moments(400)][:2] == [False, True]
    (patient,) = Budget(1e6).watches(5000)
    assert not any(patient(moment) for moment in moments(1000))
    patient.budget.limit = 1.0
    assert not any(patient(moment) for moment in moments(5000)[10:])


def test_a_further_form_is_given_up_whenever_it_is_late(ticking) -> None:
    (watch,) = Budget(1e6).watches(5000, after=5000)
    assert not any(watch(moment) for moment in moments(3000))
    watch.budget.limit = 1.0
    assert watch(moments(3100)[-1])
    with pytest.raises(OutOfTimeError):
        watch.check()


def test_a_further_fit_to_all_rows_is_made_if_there_is_time(ticking) -> None:
    assert Budget().if_time(lambda steps, *watches: (steps, watches), 1000) == (1000, ())
    slow, patient = Budget(50.0), Budget(1e6)
    slow.pace = 0.03
    assert slow.if_time(train, 1000) is None  # is not begun: it may take twice as long as the one before
    slow.pace = 0.0
    assert slow.if_time(train, 5000) is None  # is given up
    assert patient.if_time(lambda steps, *watches: train(steps, *watches) or "done", 5000)


@pytest.mark.slow
def test_a_fit_of_hardly_any_time_is_a_fit() -> None:
    """The least number of steps is done whatever the limit is, and what is missing is said."""
    x, y = linear_rows(rows=200)
    model = bp.BayesianSparseRegressor(**NET | {"num_steps": 2000, "hidden": (4,)}, held_out=0.2, time_limit=1e-3)
    fitted = clone(model).fit(x, y)
    assert fitted.left_out_ == {"held_out": 0.2, "steps": 1750} and fitted.n_iter_ == 250
    assert fitted.score(x, y) > 0.5
    assert clone(model).set_params(time_limit=None, num_steps=20).fit(x, y).left_out_ == {}
