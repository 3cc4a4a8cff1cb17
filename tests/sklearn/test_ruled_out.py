"""A form is not fitted where quick models that see what it does are behind."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.sklearn import choosing, forms, measures
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
    (chosen,), wrong = choosing.choose(estimator, choice, TrainingRows(x, y, 0, estimator._budget), estimator.learn, 2000)
    assert chosen.form == (form if tried or form == "components" else "plain") and estimator._budget.left_out == {}
    assert len(estimator.fits) == (1 if chosen.form == "plain" else 2)
    assert (wrong == estimator.nats[chosen.form]).all() and len(wrong) == 20
