"""Boosted trees as a network's input: what they say, whom they have seen, and how many there are."""

import itertools
from functools import partial

import jax
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.sklearn import boosting, forest, trees
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.columns import fit_columns
from bayesprune.sklearn.training_rows import TrainingRows
from tests.sklearn.test_trees import SETTINGS, check_files

TARGETS = {"numbers": [], "two classes": [0.0], "three classes": [-0.5, 0.5]}


def smooth(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A sum of curves of two columns among five: a forest cuts them up together, boosting adds them up."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 5))
    return x, np.sin(2.0 * x[:, 0]) + x[:, 1] + 0.1 * rng.standard_normal(rows)


def sklearns(x: np.ndarray, y: np.ndarray, stages: int, whole: bool = False) -> list[tuple[object, np.ndarray]]:
    """The same models, each fitted in one go, and the rows that they have not seen; or one of all rows."""
    labels = y.dtype.kind == "i"
    kind, split = (GradientBoostingClassifier, StratifiedKFold) if labels else (GradientBoostingRegressor, KFold)
    how = {"learning_rate": 0.1, "max_depth": 5, "min_samples_leaf": 5, "max_features": 0.3, "subsample": 0.5}
    folds = split(5, shuffle=True, random_state=3).split(x, y)
    return [
        (kind(n_estimators=stages, random_state=np.random.RandomState(3 + fold), **how).fit(x[kept], y[kept]), held)
        for fold, (kept, held) in enumerate([(np.arange(len(x)), [])] if whole else folds)
    ]


@pytest.mark.parametrize("targets", TARGETS)
def test_they_say_what_scikit_learns_models_say(targets: str) -> None:
    """The mean of five, in double and, folded for small runtimes, in single; of each row unseen that of the one without it."""
    x, y = smooth()
    y = np.digitize(y, TARGETS[targets]) if TARGETS[targets] else y
    found, unseen = boosting.boost(3, x, y)
    trees_of_a_stage = 5 * (3 if targets == "three classes" else 1)
    models = sklearns(np.asarray(x, np.float32), y, len(found.roots) // trees_of_a_stage)
    new = smooth(seed=1)[0]
    if targets == "numbers":
        wanted = np.mean([model.predict(new) for model, _ in models], axis=0)[:, None]
        held_out = [model.predict(x[held])[:, None] for model, held in models]
    else:
        raw = np.mean([model.decision_function(new).reshape((len(new), -1)) for model, _ in models], axis=0)
        raw = np.pad(raw, ((0, 0), (1, 0))) if raw.shape[1] == 1 else raw
        logs = [np.log(p + 0.02) for p in (softmax(raw, axis=1), *(model.predict_proba(x[held]) for model, held in models))]
        wanted, *held_out = [one[:, 1:] - one[:, :1] for one in logs]
    np.testing.assert_allclose(found.says(new), wanted, atol=1e-9)
    for (_, held), said in zip(models, held_out, strict=True):
        np.testing.assert_allclose(unseen[held], said, atol=1e-9)
    folded = jax.jit(lambda rows: found.says(rows, jax.numpy))(np.asarray(new, np.float32))
    np.testing.assert_allclose(folded, wanted, atol=2e-5)
    assert found.num_outputs == wanted.shape[1] and found.says(new[:0]).shape == (0, wanted.shape[1])
    assert found.shares.sum() == pytest.approx(1.0) and found.shares[:2].min() > found.shares[2:].max()


def test_as_many_stages_as_unseen_rows_are_foreseen_best_with() -> None:
    """By scikit-learn's losses of every count of stages that was looked at; of noise it is the least that there is."""
    x, y = smooth(200)
    for labels in (False, True):
        target = (y > 0).astype(int) if labels else y
        grown = boosting.boost(3, x, target)
        own = len(grown.trees.roots) // 5
        most = min(own + 50, 400)
        said = np.empty((most, len(x), 2))  # after each stage
        for model, held in sklearns(np.asarray(x, np.float32), target, most):
            after = model.staged_predict_proba(x[held]) if labels else model.staged_predict(x[held])
            said[:, held] = np.stack(list(after)).reshape((most, len(held), -1))

        def loss(stages: int, labels: bool = labels, target: np.ndarray = target, said: np.ndarray = said) -> float:
            foreseen = said[stages - 1]
            if labels:
                return log_loss(target, (foreseen + 0.02) / 1.04)
            return np.log(mean_squared_error(target, foreseen[:, 0])) / 2

        assert boosting.missed(grown.unseen, target) == pytest.approx(loss(own), abs=1e-6)
        for stages in range(25, most + 1, 25):
            assert loss(stages) > boosting.missed(grown.unseen, target) - 0.0005 - 1e-9
    noise = np.random.default_rng(0).standard_normal(200)
    found, unseen = boosting.boost(0, x, noise)
    assert len(found.roots) == 5 * 25
    assert np.corrcoef(found.says(x)[:, 0], noise)[0, 1] > 0.5  # of the whole the rows are known
    assert abs(np.corrcoef(unseen[:, 0], noise)[0, 1]) < 4.0 / np.sqrt(200)  # four standard errors


@pytest.mark.parametrize(("limit", "stages"), [(500.0, 0), (1_900.0, 75), (np.inf, None)])
def test_they_end_where_there_is_no_time_for_more(monkeypatch, limit: float, stages: int | None) -> None:
    """By a clock: a second for the first tree, of 125; a hundred until each look. They may take a fifth of what is left."""
    x, y = smooth()
    ticks = itertools.chain([0.0, 1.0], itertools.count(100.0, 100.0))
    monkeypatch.setattr(boosting, "clock", lambda: next(ticks))
    budget = Budget(limit)
    grown = boosting.boost(0, x, y, budget)
    assert budget.left_out == ({} if stages is None else {"boosting": stages})
    assert (grown is None) == (stages == 0)
    if stages:
        assert len(grown.trees.roots) == 5 * stages


@pytest.mark.parametrize("what", ["few rows", "two outputs", "six classes", "a rare class", "one class"])
def test_where_they_cannot_be_grown(what: str) -> None:
    x, y = smooth()
    y = {
        "few rows": y[:39],
        "two outputs": np.column_stack([y, y]),
        "six classes": np.arange(300) % 6,
        "a rare class": (np.arange(300) < 4).astype(int),
        "one class": np.zeros(300, int),
    }[what]
    assert boosting.boost(0, x[: len(y)], y) is None


def test_a_network_reads_them_beside_a_forest() -> None:
    """Each is an input of its own; boosted trees are left out where they cannot be grown."""
    x, y = smooth()
    read = TrainingRows(x, y, 0, Budget())
    read.grow()
    wanted = forest.grow(0, x, y), boosting.boost(0, x, y)
    read.grow()  # once
    np.testing.assert_array_equal(read.x, np.concatenate([x, *(one.unseen for one in wanted)], axis=1))
    columns = fit_columns(x).only(False, False, False, trees=read.trees)
    assert columns.num_inputs == 2 and columns.silent.tolist() == [False, False]
    for rows, said in (
        (x, [one.trees.says(x) for one in wanted]),
        (np.concatenate([x, *(one.unseen for one in wanted)], axis=1), [one.unseen for one in wanted]),
    ):
        scaled = [(of - one.trees.scaling.loc) / one.trees.scaling.scale for of, one in zip(said, wanted, strict=True)]
        np.testing.assert_allclose(columns.apply(rows), np.concatenate(scaled, axis=1), atol=1e-5)
    with np.errstate(divide="ignore"):
        logs = columns.of_column(np.log([2.0, 3.0]), np.logaddexp)
    np.testing.assert_allclose(np.exp(logs), 2.0 * wanted[0].trees.shares + 3.0 * wanted[1].trees.shares)
    two = TrainingRows(x, np.column_stack([y, y]), 0, Budget())
    two.grow()
    assert len(two.trees) == 1


@pytest.mark.parametrize("targets", TARGETS)
def test_a_model_of_some_rows_foresees_others(targets: str) -> None:
    """By scikit-learn's, with the number of stages that does it best until two looks find nothing better."""
    x, y = smooth()
    y = np.digitize(y, TARGETS[targets]) if TARGETS[targets] else y
    kept, held = np.arange(240), np.arange(240, 300)
    said = boosting.foreseen(3, x, y, kept, held)
    wanted: list[tuple[float, float]] = []  # of each look: what is missed, and how far from that is what is said
    for stages in range(25, boosting.most_stages(y) // 2 + 1, 25):
        (model, _), *_ = sklearns(x[kept], y[kept], stages, whole=True)
        found = trees.logs(model.predict_proba(x[held])) if TARGETS[targets] else model.predict(x[held])[:, None]
        wanted.append((boosting.missed(found, y[held]), np.abs(said - found).max()))
    taken = next(look for look, (_, error) in enumerate(wanted) if error < 1e-12)
    losses = [loss for loss, _ in wanted[: taken + 1 + boosting.PATIENCE]]
    assert losses[taken] < min(losses) + boosting.PATIENCE * boosting.WORTH


def test_a_class_that_a_model_was_not_shown_is_not_foreseen() -> None:
    x, _ = smooth(60)
    assert boosting.foreseen(0, x, np.repeat([0, 1, 2], 20), np.arange(40), np.arange(40, 60)) is None


def test_rows_with_gaps_are_foreseen_and_not_boosted_on() -> None:
    x, y = smooth()
    alone = boosting.boost(0, x[100:], y[100:])
    grown = trees.of_whole_rows(partial(boosting.boost, 0), x, np.where(np.arange(300) < 100, np.nan, y))
    np.testing.assert_array_equal(grown.unseen, np.concatenate([alone.trees.says(x[:100]), alone.unseen]))


def test_what_is_missed_is_nats_of_labels_and_half_the_logarithm_of_squares() -> None:
    rng = np.random.default_rng(0)
    y, said, labels = rng.standard_normal(50), rng.standard_normal((50, 2)), rng.integers(0, 3, 50)
    assert boosting.missed(said[:, :1], y) == pytest.approx(np.log(mean_squared_error(y, said[:, 0])) / 2)
    assert boosting.missed(said, labels) == pytest.approx(log_loss(labels, softmax(np.pad(said, ((0, 0), (1, 0))), axis=1)))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", [bp.BayesianSparseRegressor, bp.BayesianSparseClassifier])
def test_an_estimator_that_reads_them_is_one_compact_network(kind: type, tmp_path) -> None:
    x, y = smooth(400)
    new, wanted = smooth(400, seed=1)
    if kind is bp.BayesianSparseClassifier:
        y, wanted = y > 0, wanted > 0
    model = kind(**SETTINGS | {"num_steps": 400}, form="trees").fit(x, y)
    assert model.score(new, wanted) > 0.8 and model.weights_ == {"trees": 1.0}
    small = model.compact(keep="mean")
    assert small.certify().holds
    check_files(small, new, tmp_path)


@pytest.mark.parametrize("targets", TARGETS)
def test_it_is_the_same_however_many_rows_and_trees_go_together(monkeypatch, targets: str) -> None:
    x, y = smooth(60)
    found = boosting.boost(0, x, np.digitize(y, TARGETS[targets]) if TARGETS[targets] else y).trees
    together = found.says(x)
    monkeypatch.setattr(reader, "WALKED", 7)
    monkeypatch.setattr(reader, "TOGETHER", 64)
    np.testing.assert_allclose(found.says(x), together, rtol=1e-12, atol=1e-12)
    assert found.says(x[:0]).shape == (0, together.shape[1])
