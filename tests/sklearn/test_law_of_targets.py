"""A law that loses the mean of y gives way to Gaussian noise, where that does not."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score

import bayesprune as bp
from bayesprune.sklearn import choosing, law_of_targets, network
from bayesprune.sklearn.base import Tried
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.training_rows import TrainingRows

HEAVY = np.random.default_rng(0).standard_t(2.0, (400, 1))
GAUSSIAN = np.random.default_rng(0).standard_normal((400, 1))


def tried(y: np.ndarray, foreseen: np.ndarray | None, rows: np.ndarray) -> Tried:
    """Two folds that held these rows out; ``foreseen``: their means."""
    moments = None if foreseen is None else np.stack([foreseen, np.square(foreseen) + 1.0], axis=-1)
    made = choosing.Choice((), tuple(np.array_split(rows, 2)), foreseen=moments)
    return Tried(made, TrainingRows(np.zeros((len(y), 1)), y, 0, Budget()), lambda *_: None, 0, [])


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_the_mean_is_lost_where_r2_is_five_points_behind_the_forests(outputs: int, unit: float) -> None:
    """By scikit-learn's R², of the held-out rows alone, the variance being that of all; in any unit of what was trained on."""
    rng, seen = np.random.default_rng(3), set()
    y, residuals = rng.standard_normal((2, 400, outputs))
    rows = rng.permutation(400)[:90]
    for wrong in np.linspace(0.5, 1.5, 21):
        foreseen = y[rows] + wrong * rng.standard_normal((90, outputs))
        share = y[rows].var(axis=0) / y.var(axis=0)
        ours, forest = (
            share * (1.0 - r2_score(y[rows], mean, multioutput="raw_values")) for mean in (foreseen, y[rows] - residuals[rows])
        )
        lost = law_of_targets.loses_the_mean(tried(y / unit, foreseen / unit, rows), y, residuals)
        assert lost == bool(np.mean(ours - forest) > 0.05)
        seen.add(lost)
    assert seen == {True, False}


def test_nothing_is_compared_with_gaps_or_nothing_held_out() -> None:
    y, rows = GAUSSIAN.copy(), np.arange(100)
    assert law_of_targets.loses_the_mean(tried(y, y[rows] + 9.0, rows), y, 0.1 * y)
    assert not law_of_targets.loses_the_mean(tried(y, None, rows), y, 0.1 * y)
    y[0] = np.nan
    assert not law_of_targets.loses_the_mean(tried(y, y[rows] + 9.0, rows), y[1:], 0.1 * y[1:])


@pytest.mark.parametrize(
    ("y", "first", "second", "left", "laws", "kept"),
    [
        (HEAVY, 2.0, 0.5, 1.0, ["HEAVY_NOISE", "LEARNED_NOISE"], 1),
        (HEAVY, 2.0, 1.999, 1.0, ["HEAVY_NOISE", "LEARNED_NOISE"], 0),  # no better
        (HEAVY, 2.0, 0.5, 0.4, ["HEAVY_NOISE"], 0),  # no time
        (HEAVY, 0.5, 0.5, 1.0, ["HEAVY_NOISE"], 0),  # nothing is lost
        (GAUSSIAN, 2.0, 0.5, 1.0, ["LEARNED_NOISE"], 0),
    ],
)
def test_what_is_tried(y, first: float, second: float, left: float, laws: list[str], kept: int, monkeypatch) -> None:
    rows, under, budget = np.arange(200), list[Any](), Budget(100.0)
    monkeypatch.setattr(Budget, "left", lambda _: 100.0 * left)

    def of(law: Any) -> Any:
        budget.left_out["forms"] = law
        under.append((law, tried(y, y[rows] * (1.0 - (second if under else first)), rows)))
        return under[-1][1]

    best = law_of_targets.best_tried(of, y, y, budget)
    assert [law for law, _ in under] == [getattr(network, name) for name in laws]
    assert best is under[kept][1] and budget.left_out == {"forms": under[kept][0]}


def test_the_t_of_the_name_is_the_one_that_is_found() -> None:
    law = network.read_likelihood("student_t")
    assert law is network.HEAVY_NOISE is law_of_targets.law_of(HEAVY, HEAVY)
    low, middle, high = np.quantile(HEAVY, (0.25, 0.5, 0.75))
    scaling = law_of_targets.scaling_of(HEAVY, law)
    np.testing.assert_allclose([scaling.loc.item(), scaling.scale.item()], [middle, (high - low) / 1.349], rtol=1e-3)


@pytest.mark.slow
def test_a_code_among_counts_does_not_cost_the_fit() -> None:
    """Years since a quarrel, 999 where there was none: likelier as counts, of which a mean may be anything."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 6))
    y = np.where(x[:, 0] + 0.3 * rng.standard_normal(400) > 1.0, 999.0, rng.poisson(rng.exponential(3.0, 400)))
    one_form = {"hidden": (20,), "form": "steps", "held_out": 0.3, "num_steps": 1000, "num_samples": 20}
    model = bp.BayesianSparseRegressor(**one_form, random_state=0).fit(x[:300], y[:300])
    forest = RandomForestRegressor(random_state=0).fit(x[:300], y[:300]).score(x[300:], y[300:])
    assert isinstance(model.bnn_.likelihood, bp.likelihoods.Normal)
    assert model.score(x[300:], y[300:]) > forest - 0.1  # as counts it is .5 behind on the rows held out, of 300
