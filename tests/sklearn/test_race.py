"""A form that is behind on the way is given up, and one that is not is trained to its end."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from bayesprune.sklearn import choosing, forms, race
from bayesprune.sklearn.budget import Budget
from bayesprune.train.result import Moment


def test_behind_is_who_is_so_by_a_standard_error() -> None:
    """By SciPy's t of one sample, of shifts either side of what decides."""
    rng, seen = np.random.default_rng(0), set()
    for shift in np.linspace(-0.6, 0.4, 41):
        lead = rng.standard_normal(30) + shift
        wanted = bool(stats.ttest_1samp(lead, 0.0).statistic < -1.0)
        assert race.is_behind(lead) == wanted
        seen.add((wanted, bool(lead.mean() < 0)))
    assert seen == {(True, True), (False, True), (False, False)}


class Estimator:
    """``on_the_way``, ``at_the_end``: what each form foresees held-out rows with, after two fifths of the steps and all."""

    _seed = 0

    def __init__(self, on_the_way: dict[str, float], at_the_end: dict[str, float]) -> None:
        self._budget, self.on_the_way, self.at_the_end, self.steps = Budget(), on_the_way, at_the_end, []
        self.trees: float | None = None

    def _measured(self, form, x, y, kept, held):
        assert len(kept) == 80 and len(held) == 20
        return None if self.trees is None or form != "steps" else np.full(len(held), self.trees)

    def learn(self, form, rows, num_steps, *watches):
        self.form = form
        for step in range(200, num_steps + 1, 200):
            if any([watch(Moment(step, 0.0, 1.0, {}, dict, dict)) for watch in watches]):
                break
        self.steps.append((form, step))
        for watch in watches:
            watch.check()
        return SimpleNamespace(rungs=(None,))

    def _judged_at(self, moment, x, y):
        return self.on_the_way[self.form] + 1e-3 * np.random.default_rng(len(self.form)).standard_normal(len(x))

    def _judged(self, x, y):
        nats = self.at_the_end[self.form] + 1e-3 * np.random.default_rng(len(self.form)).standard_normal(len(x))
        return choosing.Judged(nats, np.full(len(x), self.at_the_end[self.form]))


@pytest.mark.parametrize(
    ("on_the_way", "form", "steps"),
    [
        ({"plain": -0.3, "steps": -0.6}, "plain", [("plain", 2000), ("steps", 800)]),
        ({"plain": -0.6, "steps": -0.3}, "steps", [("plain", 2000), ("steps", 2000)]),
    ],
)
def test_a_form_that_is_behind_is_not_trained_to_the_end(on_the_way, form, steps) -> None:
    estimator = Estimator(on_the_way, {"plain": -0.5, "steps": -0.1})
    x, y, choice = np.zeros((100, 1)), np.zeros(100), forms.FormChoice(("plain", "steps"), 1, 0.2)
    assert choosing.choose(estimator, choice, x, y, estimator.learn, 2000) == choosing.Chosen(form)
    assert estimator.steps == steps and estimator._budget.left_out == {}
    assert (estimator._conformity == estimator.at_the_end[form]).all() and len(estimator._conformity) == 20


@pytest.mark.parametrize(("trees", "tried"), [(None, True), (-0.4, True), (-0.6, False)])
@pytest.mark.parametrize("form", ["steps", "components"])
def test_thresholds_are_tried_unless_trees_are_behind(form: str, trees: float | None, tried: bool) -> None:
    estimator = Estimator({"plain": -0.6, form: -0.3}, {"plain": -0.5, form: -0.1})
    estimator.trees = trees
    x, y, choice = np.zeros((100, 1)), np.zeros(100), forms.FormChoice(("plain", form), 1, 0.2)
    chosen = choosing.choose(estimator, choice, x, y, estimator.learn, 2000)
    assert chosen.form == (form if tried or form == "components" else "plain") and estimator._budget.left_out == {}
    assert len(estimator.steps) == (1 if chosen.form == "plain" else 2)


def test_a_short_course_is_not_looked_at() -> None:
    assert race.halfway(lambda moment: np.zeros(3), 999, None) == ()
