"""How far a net is cut: as hard as held-out rows allow by one standard error and .02 nats a row."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import bayesprune as bp
from bayesprune.methods.bmr import BMR
from bayesprune.methods.sbnn import SBNN
from bayesprune.methods.snr import SNR
from bayesprune.methods.svbnn import SVBNN
from bayesprune.sklearn import choosing, cutting, forms, network
from bayesprune.sklearn.budget import Budget
from tests.sklearn.problems import NET, linear_rows
from tests.sklearn.stand_in import StandIn, member_called


def test_a_softer_cut_must_be_ahead_by_a_standard_error_and_by_what_counts() -> None:
    """By SciPy's t of pairs, and by the mean, of leads either side of both."""
    rng, seen = np.random.default_rng(0), set()
    for shift in np.linspace(-0.02, 0.1, 61):
        for spread in (0.01, 0.3):
            hard = rng.standard_normal(50)
            soft = hard + shift + spread * rng.standard_normal(50)
            ahead, sure = float((soft - hard).mean()) >= 0.02, bool(stats.ttest_rel(soft, hard).statistic > 1.0)
            assert choosing.how_far([hard, soft]) == int(ahead and sure)
            seen.add((ahead, sure))
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


def test_the_hardest_of_those_that_are_not_behind_is_taken() -> None:
    nats = np.random.default_rng(0).standard_normal(50)
    assert choosing.how_far([nats - 0.5, nats - 0.2, nats - 0.01, nats]) == 2
    assert choosing.how_far([nats, nats - 0.5]) == choosing.how_far([nats, nats]) == choosing.how_far([nats]) == 0


class Estimator(StandIn):
    """A net that predicts held-out rows the better, and hotter, the softer it is cut; the scores are the rung."""

    nats = (-1.0, -0.5, -0.495)

    def __init__(self) -> None:
        self._budget, self.cuts, self.stacks = Budget(), [], True

    def learn(self, form, rows, num_steps, *watches):
        return SimpleNamespace(rungs=("hard", "soft", "softest"), rows=len(rows))

    def _cut(self, learned, x, y, rung):
        assert learned.rows == len(x) == len(y) == 80
        self.cuts.append(rung)
        return member_called(str(rung))

    def _predicting_by(self, member):
        found = copy.copy(self)
        found.rung = int(member.network)
        return found

    def _judged(self, x, y):
        nats = self.nats[self.rung] + 1e-3 * np.arange(len(x))
        return choosing.Judged(nats, np.full(len(x), float(self.rung)), 0.1 * self.rung)


@pytest.mark.parametrize("folds", [1, 2])
def test_what_is_chosen_is_a_form_a_cut_and_a_temperature_and_intervals_are_of_them(folds: int) -> None:
    estimator, x, y = Estimator(), np.zeros((100, 1)), np.zeros(100)
    (chosen,), held, wrong, *_ = estimator.choose(forms.FormChoice(("plain",), folds, 0.2), x, y, 500)
    assert chosen.form == "plain" and chosen.rung == 1 and chosen.members == (member_called("1"),) * folds
    np.testing.assert_allclose(chosen.temperature, np.exp(0.1))
    assert (wrong == 1.0).all() and len(wrong) == 20 * folds
    assert [len(rows) for rows in held] == [20] * folds and len(set(np.concatenate(held))) == 20 * folds
    assert estimator.cuts == [0] * folds + [2] * folds + [1] * folds


def test_cuts_between_are_not_tried_where_nothing_is_lost_by_the_hardest() -> None:
    estimator, x, y = Estimator(), np.zeros((100, 1)), np.zeros(100)
    estimator.nats = (-0.51, -0.5, -0.495)
    (chosen,), _, wrong, *_ = estimator.choose(forms.FormChoice(("plain",), 1, 0.2), x, y, 500)
    assert chosen.rung == 0 and chosen.temperature == 1.0 and estimator.cuts == [0, 2]
    assert (wrong == 0.0).all()


@pytest.mark.slow_cases(1)
@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, (SVBNN(0.5), SVBNN(0.1), SVBNN(0.03), None)),
        ({"prior": "gaussian_slab"}, (SBNN(), SBNN(probability=0.1), SBNN(probability=0.03), None)),
        ({"prior": "flat"}, (BMR(), None)),
        ({"prior": bp.priors.ScaleMixture()}, (None,)),
        ({"prior": bp.priors.LogUniform()}, (None,)),
        ({"prior": bp.priors.UnitNoise()}, (None,)),
        ({"density": 0.5}, (SVBNN(density=0.5),)),
        ({"density": 0.5, "prior": "flat"}, (SNR(density=0.5),)),
        ({"method": "none"}, (None,)),
        ({"method": SNR(0.3), "prior": "flat"}, (SNR(0.3),)),
    ],
)
@pytest.mark.slow
def test_only_what_is_left_to_the_fit_is_chosen(settings: dict, wanted: tuple) -> None:
    x, y = linear_rows()
    model = bp.BayesianSparseRegressor(**NET | {"num_steps": 20} | settings).fit(x, y)
    assert cutting.rungs(model.method, model.density, network.build(model._network), model.params_) == wanted


@pytest.mark.slow
def test_inputs_in_use_are_those_that_a_living_edge_leaves() -> None:
    """Whatever cut it is of: what reads them is not the median model when less is cut than that."""
    x, y = linear_rows()
    for method in ("auto", "none", SVBNN(0.03), SVBNN(0.9)):
        model = bp.BayesianSparseRegressor(**NET, method=method).fit(x, y)
        first = next(str(spec.path) for spec in model.bnn_.layout if spec.inputs)
        assert (model.used_features_ == np.asarray(model.mask_[first]).any(axis=1)).all()
    assert bp.BayesianSparseRegressor(**NET, method="none").fit(x, y).used_features_.all()
