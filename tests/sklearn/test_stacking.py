"""Weights of forms by held-out rows: against SciPy's optimiser, and what is made of them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import ttest_1samp

from bayesprune.sklearn import choosing, forms, stacking
from tests.sklearn.stand_in import StandIn


@pytest.mark.parametrize("rows", [10, 80, 400])
@pytest.mark.parametrize("number", [2, 4])
def test_weights_are_those_of_an_optimiser(rows: int, number: int) -> None:
    """(21.32), by SciPy over softmax coordinates."""
    rng = np.random.default_rng(rows + number)
    nats = {f"form {k}": rng.standard_normal(rows) + 0.2 * k for k in range(number)}
    logs = np.stack(list(nats.values()))

    def loss(free: np.ndarray) -> float:
        weights = np.exp(free - np.logaddexp.reduce(free))
        return float(-np.log(weights @ np.exp(logs)).sum() - stacking.PSEUDO * np.log(weights).sum())

    best = minimize(loss, np.zeros(number), method="BFGS", options={"gtol": 1e-8}).x
    wanted = np.exp(best - np.logaddexp.reduce(best))
    found = stacking.stacked(nats)
    kept = {name: weight for name, weight in zip(nats, wanted, strict=True) if weight >= stacking.LEAST}
    assert found.keys() == kept.keys() and list(found.values()) == sorted(found.values(), reverse=True)
    for name, weight in kept.items():
        np.testing.assert_allclose(found[name], weight / sum(kept.values()), atol=2e-3)


def test_a_form_that_foresees_nothing_is_left_out_and_hopeless_rows_are_no_matter() -> None:
    rows = np.zeros(200)
    assert stacking.stacked({"plain": rows, "steps": rows - 20.0}) == {"plain": 1.0}
    assert stacking.stacked({"plain": rows - 1e4, "steps": rows - 1e4}) == {"plain": 0.5, "steps": 0.5}


def test_what_rows_were_foreseen_is_that_of_the_mixture() -> None:
    """Intervals are calibrated by what is predicted with, and each form goes with its fits to the folds."""
    estimator = StandIn({"plain": -0.5, "linear": -0.6, "steps": -9.0}, stacks=True)
    x, y, choice = np.zeros((300, 1)), np.zeros(300), forms.FormChoice(("plain", "linear", "steps"), 2, 0.2)
    chosen, _, conformity, *_ = estimator.choose(choice, x, y)
    assert [one.form for one in chosen] == ["plain", "linear"]
    assert [member.network for member in chosen[1].members] == ["fit 3 of linear", "fit 4 of linear"]
    wanted = sum(one.weight * estimator.nats[one.form] for one in chosen)
    np.testing.assert_allclose(conformity, np.full(120, wanted))


def test_fits_to_two_thirds_of_the_rows_do_not_predict() -> None:
    estimator = StandIn({"plain": -0.5, "linear": -0.6}, stacks=True)
    x, y, choice = np.zeros((90, 1)), np.zeros(90), forms.FormChoice(("plain", "linear"), 3, 1 / 3)
    chosen, *_ = estimator.choose(choice, x, y)
    assert len(chosen) == 2 and all(one.members == () for one in chosen)


def test_one_network_is_of_one_form() -> None:
    estimator = StandIn({"plain": -0.5, "linear": -0.45}, stacks=False)
    x, y, choice = np.zeros((300, 1)), np.zeros(300), forms.FormChoice(("plain", "linear"), 1, 0.2)
    chosen, _, conformity, *_ = estimator.choose(choice, x, y)
    assert chosen == (choosing.Chosen("linear"),) and (conformity == -0.45).all()


def test_what_a_step_towards_trees_saves_is_what_least_squares_finds() -> None:
    """The share of squares by NumPy's least squares is .02 at least, but for one standard error of the products, by SciPy."""
    seen = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        missed = rng.standard_normal((300, 2))
        ahead = rng.uniform(-0.2, 0.3) * missed + rng.standard_normal((300, 2))
        (slope,), (left,), *_ = np.linalg.lstsq(ahead.reshape(-1, 1), missed.ravel(), rcond=None)
        saved = 1.0 - left / np.square(missed).sum()
        products = (missed * ahead).sum(axis=1) / np.linalg.norm(missed) / np.linalg.norm(ahead)
        short = ttest_1samp(products, np.sqrt(0.02) / 300).statistic < -1.0
        assert np.isclose(products.sum() ** 2, saved) and np.sign(slope) == np.sign(products.sum())
        assert stacking.may_gain(missed, ahead) == (slope > 0.0 and not short)
        seen.add((slope > 0.0, short, saved >= 0.02))
    assert {(True, False, True), (True, False, False), (True, True, False), (False, True, True)} <= seen
