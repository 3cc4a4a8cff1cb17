"""A form is not fitted where quick models that see what it does are behind."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.sklearn import boosting, choosing, forest, forms, measures
from bayesprune.sklearn.training_rows import TrainingRows
from tests.sklearn.stand_in import StandIn


def test_behind_is_who_is_so_by_a_standard_error() -> None:
    """By SciPy's t of one sample, of shifts either side of what decides."""
    rng, seen = np.random.default_rng(0), set()
    for shift in np.linspace(-0.6, 0.4, 41):
        lead = rng.standard_normal(30) + shift
        wanted = bool(stats.ttest_1samp(lead, 0.0).statistic < -1.0)
        assert measures.is_behind(lead) == wanted
        seen.add((wanted, bool(lead.mean() < 0)))
    assert seen == {(True, True), (False, True), (False, False)}


class BesideTrees(StandIn):
    """Of rows that are all one too low, ``ahead``: how much higher trees are."""

    def __init__(self, ahead: float, limit: float = np.inf) -> None:
        super().__init__({"plain": -0.5, "trees": -0.1}, limit=limit)
        self.ahead = ahead

    def _beside_trees(self, y, foreseen, said):
        assert len(y) == len(foreseen) == len(said) == 20
        return np.ones((20, 1)), np.full((20, 1), self.ahead)


@pytest.mark.parametrize(
    ("names", "ahead", "late", "fits"),
    [
        (("plain", "trees"), 0.5, False, ["plain", "trees"]),
        (("plain", "trees"), -0.5, False, ["plain"]),
        (("plain", "trees"), 0.5, True, ["plain"]),
        (("trees",), -0.5, True, ["trees"]),  # what is asked for
    ],
)
def test_trees_are_grown_where_they_may_gain_and_there_is_time(monkeypatch, names, ahead: float, late: bool, fits) -> None:
    estimator, x, y = BesideTrees(ahead, limit=1e6), np.zeros((100, 1)), np.arange(100.0)
    rows, grown = TrainingRows(x, y, 0, estimator._budget), list[str]()
    rows.forest = None
    monkeypatch.setattr(boosting, "foreseen", lambda *_: np.zeros((20, 1)))
    monkeypatch.setattr(TrainingRows, "grow", lambda _: grown.append("now"))
    monkeypatch.setattr(forest, "seconds_to_grow", lambda *_: 1e6 if late else 1.0)
    choosing.choose(estimator, forms.FormChoice(names, 1, 0.2), rows, estimator.learn, 2000)
    assert estimator.fits == fits and len(grown) == ("trees" in fits)
    assert estimator._budget.left_out == ({"forms": ("trees",)} if late and len(names) > 1 else {})


class WithTrees(StandIn):
    """``trees``: what they predict each row with."""

    def __init__(self, nats: dict[str, float], trees: float | None) -> None:
        super().__init__(nats)
        self.trees = trees

    def _measured(self, form, x, y, kept, held):
        assert len(kept) == 80 and len(held) == 20
        return None if self.trees is None or form != "steps" else np.full(len(held), self.trees)


@pytest.mark.parametrize(("trees", "tried"), [(None, True), (-0.4, True), (-0.6, False)])
@pytest.mark.parametrize("form", ["steps", "components"])
def test_thresholds_are_tried_unless_trees_are_behind(form: str, trees: float | None, tried: bool) -> None:
    estimator = WithTrees({"plain": -0.5, form: -0.1}, trees)
    x, y, choice = np.zeros((100, 1)), np.zeros(100), forms.FormChoice(("plain", form), 1, 0.2)
    (chosen,), _, wrong, *_ = estimator.choose(choice, x, y)
    assert chosen.form == (form if tried or form == "components" else "plain") and estimator._budget.left_out == {}
    assert len(estimator.fits) == (1 if chosen.form == "plain" else 2)
    assert (wrong == estimator.nats[chosen.form]).all() and len(wrong) == 20
