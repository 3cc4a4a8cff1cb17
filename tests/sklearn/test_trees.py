"""Trees as a network's input: what a forest says, whom it has seen, and where trees are taken."""

import pickle
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.sklearn import boosting, choosing, forest, saving, stacking, trees, whole
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.columns import fit_columns, of_rows
from bayesprune.sklearn.training_rows import TrainingRows

SETTINGS = {"hidden": (4,), "num_steps": 100, "num_samples": 10, "random_state": 0}


def cells(rows: int = 240, seed: int = 0, side: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a grid, each with a number of its own that none beside it tells; a column of noise, and a constant one."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.integers(0, side, (rows, 2)), rng.standard_normal(rows), np.full(rows, 2.5)])
    own = np.random.default_rng(99).standard_normal((side, side))
    return x, own[x[:, 0].astype(int), x[:, 1].astype(int)] + 0.1 * rng.standard_normal(rows)


def sklearns(kind: type, x: np.ndarray, y: np.ndarray) -> object:
    """The same forest, as scikit-learn walks it."""
    how = {"max_depth": forest.DEPTH, "max_leaf_nodes": forest.LEAVES, "min_samples_leaf": forest.LEAST_ROWS}
    return kind(forest.NUMBER, max_features=forest.SHARE, random_state=np.random.RandomState(3), **how).fit(x, y)


@pytest.mark.parametrize("targets", ["one", "two", "labels"])
def test_it_says_what_scikit_learns_forest_says(targets: str) -> None:
    """At rows between the trained ones, and at thresholds themselves, in double and, folded for small runtimes, in single."""
    x, y = cells()
    y = {"one": y, "two": np.column_stack([y, -3.0 * y + x[:, 0]]), "labels": np.digitize(y, [-0.5, 0.5])}[targets]
    found, unseen = forest.grow(3, x, y)
    inner = found.below > 0
    new = np.concatenate([cells(seed=1)[0], np.tile(x[:1], (50, 1))])
    new[-50:, 2] = found.at[inner & (found.column == 2)][:50]
    if targets == "labels":
        wanted = np.log(sklearns(RandomForestClassifier, x, y).predict_proba(new) + 0.02)
        wanted = wanted[:, 1:] - wanted[:, :1]
    else:
        wanted = sklearns(RandomForestRegressor, x, y).predict(new).reshape((len(new), -1))
    np.testing.assert_allclose(found.says(new), wanted, atol=1e-9)
    folded = jax.jit(lambda rows: found.says(rows, jax.numpy))(np.asarray(new, np.float32))
    np.testing.assert_allclose(folded, wanted, atol=2e-5)
    assert unseen.shape == (len(x), wanted.shape[1]) and found.num_outputs == wanted.shape[1]
    assert found.says(new[:0]).shape == (0, wanted.shape[1])


def test_trees_that_had_not_seen_a_row_know_nothing_of_noise() -> None:
    """Of targets that nothing tells the whole forest follows its rows; those that a row is trained on must not."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((400, 3)), rng.standard_normal(400)
    found, unseen = forest.grow(0, x, y)
    assert np.corrcoef(found.says(x)[:, 0], y)[0, 1] > 0.8
    assert abs(np.corrcoef(unseen[:, 0], y)[0, 1]) < 4.0 / np.sqrt(len(y))  # four standard errors


def test_alike_rows_do_not_tell_their_targets() -> None:
    """Twenty groups, and y of noise: unseen trees say the mean of a group's others, which falls as the row's own y rises.

    A net that read the groups beside it said a noise of .68, and its intervals held .805 of new rows at .9.
    """
    rng = np.random.default_rng(0)
    group = rng.permutation(np.arange(200) % 20)
    x, y = np.eye(20)[group], rng.standard_normal(200)
    unseen = forest.grow(0, x, y).unseen[:, 0]
    apart = [values - np.array([values[group == one].mean() for one in range(20)])[group] for values in (unseen, y)]
    assert np.corrcoef(*apart)[0, 1] < -0.5
    model = bp.BayesianSparseRegressor(**SETTINGS | {"num_steps": 600}, form="trees", held_out=0.2).fit(x, y)
    _, std, ends = model.predict(x, return_std=True, interval=0.9)
    new = rng.standard_normal(200)
    assert std.mean() > 0.9 and np.mean((new >= ends[:, 0]) & (new <= ends[:, 1])) > 0.85  # .9, and .021 its standard error


def test_rows_with_missing_targets_are_foreseen_and_not_grown_on() -> None:
    x, y = cells()
    y = np.column_stack([y, 2.0 * y])
    y[::3, 1] = np.nan
    whole_rows = ~np.isnan(y[:, 1])
    grow = partial(forest.grow, 0)
    _, unseen = trees.of_whole_rows(grow, x, y)
    alone, seen = forest.grow(0, x[whole_rows], y[whole_rows])
    np.testing.assert_array_equal(unseen[whole_rows], seen)
    np.testing.assert_array_equal(unseen[~whole_rows], alone.says(x[~whole_rows]))
    assert trees.of_whole_rows(grow, x[:30], np.where(np.arange(30)[:, None] < 25, np.nan, 1.0)) is None
    for many in (np.tile(y[:, :1], 21), np.arange(len(x)) % 21):
        assert trees.of_whole_rows(grow, x, many) is None


def test_a_network_reads_it_and_nothing_else() -> None:
    """Rows to fit bring what unseen trees say; others ask the forest. Of the forms that do not read it nothing is changed."""
    x, y = cells()
    grown = forest.grow(0, x, y)
    columns = fit_columns(x)
    extended = np.concatenate([x, grown.unseen], axis=1)
    read = columns.only(steps=False, components=False, clipped=False, trees=(grown.trees,))
    scaling = grown.trees.scaling
    assert read.num_inputs == 1 and read.num_columns == 4 and read.silent.tolist() == [False]
    for rows, said in ((x, grown.trees.says(x)), (extended, grown.unseen)):
        np.testing.assert_allclose(read.apply(rows), (said - scaling.loc) / scaling.scale, atol=1e-5)
    plain = columns.only(steps=False, components=False, clipped=False)
    assert plain.trees == ()
    np.testing.assert_array_equal(plain.apply(extended), fit_columns(x).apply(x))
    assert of_rows(read, extended, np.arange(100), None) is read
    # Used is what it cuts; importances, joined as logarithms, are shared out by what cuts gain.
    values = np.ones(1)
    assert read.of_column(values.astype(bool), np.logical_or).tolist() == [True, True, True, False]
    with np.errstate(divide="ignore"):
        logs = read.of_column(np.log(values.astype(float)), np.logaddexp)
    np.testing.assert_allclose(np.exp(logs), grown.trees.shares)
    assert grown.trees.shares[:2].min() > grown.trees.shares[2] > grown.trees.shares[3] == 0.0
    # A forest that says the same of all rows is silent.
    flat = forest.grow(0, x, np.zeros(len(x)))
    assert not flat.trees.shares.any() and np.isinf(flat.trees.scaling.scale).all()
    flat_columns = fit_columns(x).only(steps=False, components=False, clipped=False, trees=(flat.trees,))
    assert flat_columns.silent.all() and not flat_columns.apply(x).any()


def test_it_is_taken_where_the_others_are_behind_without_it() -> None:
    """By a standard error and .005 nats a row; nor where it is all there is to choose."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal(200)
    for lead, taken in ((0.001, False), (0.1, True)):
        assert ("trees" in stacking.weights_of({"plain": base, "trees": base + lead})) == taken
    noisy = base + 0.1 + 5.0 * rng.standard_normal(200)
    assert "trees" not in stacking.weights_of({"plain": np.maximum(base, noisy) + 0.5, "trees": noisy})
    assert stacking.weights_of({"trees": base}) == {"trees": 1.0}


@pytest.mark.parametrize("labels", [False, True])
def test_it_is_not_tried_where_it_says_nothing_more(monkeypatch, labels: bool) -> None:
    """The slope of squared errors towards what it says: of what was missed, of its opposite, and of the same for all rows."""
    x = cells()[0]
    known = np.sign(x[:, 0] - 2.5)
    for said, tried in ((known, True), (-known, False), (0.0 * known, False)):
        target = (known > 0).astype(int) if labels else known
        held = np.arange(len(x))[::2]
        model = bp.BayesianSparseClassifier() if labels else bp.BayesianSparseRegressor()
        model._columns = fit_columns(x)
        foreseen = np.full((len(held), 2), 0.5) if labels else np.zeros((len(held), 1, 2))
        judged = choosing.Judged(np.zeros(len(held)), foreseen)
        model._predicting_by = lambda member, model=model: model
        nothing = np.zeros((len(x), 1))
        for place in range(2):  # of a forest and boosted trees one is enough
            rows = TrainingRows(x, target, 0, Budget())
            by_forest, boosted = (said[:, None] if place == one else nothing for one in range(2))
            rows.forest = trees.Grown(None, by_forest)
            monkeypatch.setattr(boosting, "foreseen", lambda seed, x, y, kept, held, budget, of=boosted: of[held])
            fitted = choosing.Trials(model, rows, [(np.arange(len(x))[1::2], held)], print, 0)
            assert not fitted.ruled_out("trees")  # nothing is there to compare them with
            fitted.judged["plain"], fitted.members["plain"] = [judged], [None]
            assert fitted.ruled_out("trees") == (not tried)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", [bp.BayesianSparseRegressor, bp.BayesianSparseClassifier])
def test_an_estimator_that_reads_one(kind: type, tmp_path) -> None:
    """It predicts new rows of cells, is pickled, explained, and is one compact network, whose file NumPy alone reads."""
    x, y = cells()
    new, wanted = cells(seed=1)
    if kind is bp.BayesianSparseClassifier:
        y, wanted = y > 0, wanted > 0
    model = kind(**SETTINGS | {"num_steps": 400}, form="trees").fit(x, y)
    assert model.score(new, wanted) > 0.8 and model.weights_ == {"trees": 1.0}
    predict = model.predict if kind is bp.BayesianSparseRegressor else model.predict_proba
    np.testing.assert_array_equal(getattr(pickle.loads(pickle.dumps(model)), predict.__name__)(new), predict(new))
    assert not model.used_features_[3] and model.feature_importances_[3] == 0.0
    reasons = model.explain(new[:2])
    total = np.asarray(predict(new[:2])) - reasons.base
    np.testing.assert_allclose(reasons.values.sum(axis=1), total, rtol=1e-4, atol=1e-5)
    read = whole.Ends(model._columns, bp.data.Scaling(0.0, 1.0)).inputs(jax.numpy.asarray(new, "float32"))
    np.testing.assert_allclose(read, model.inputs_of(new), atol=1e-4)


def test_noise_is_that_of_rows_that_trees_had_not_seen() -> None:
    """Nothing is held out, and y is noise of size one: on the rows of the fit all trees together would know most of it."""
    x, _ = cells()
    y = np.random.default_rng(2).standard_normal(len(x))
    with pytest.warns(UserWarning, match="no better than without X"):
        model = bp.BayesianSparseRegressor(**SETTINGS | {"num_steps": 400}, form="trees").fit(x, y)
    assert model.predict(x, return_std=True)[1].mean() > 0.85 * y.std()
    table = TrainingRows(x, y, 0, Budget())
    table.grow()
    assert np.std(y - table.trees[0].says(x)[:, 0]) < 0.7 * y.std()


def test_where_there_is_none_it_is_refused_or_left_out() -> None:
    """Of too many classes, or too few whole rows; and under a time limit that it would take too much of, which is said."""
    x, y = cells(100)
    with pytest.raises(ValueError, match="at most 20 classes or columns of y: leave form= out"):
        bp.BayesianSparseClassifier(**SETTINGS, form="trees").fit(x, np.arange(100) % 25)
    limited = Budget(1e-3)
    rows = TrainingRows(x, y, 0, limited)
    assert not rows.has_time() and TrainingRows(x, y, 0, Budget()).has_time()
    rows.grow()  # what is asked for
    assert len(rows.trees) == 1 and limited.left_out == {"boosting": 0}


def check_files(small: bp.Compact, x: np.ndarray, folder: Path) -> None:
    """NumPy's reader and ONNX Runtime predict from files what the network predicts."""
    wanted = small.predict(x)
    small.save(folder / "net.bayesprune")
    np.testing.assert_allclose(bp.load(folder / "net.bayesprune").predict(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(reader.predict(*reader.load(folder / "net.bayesprune"), x), wanted, rtol=1e-4, atol=1e-5)
    small.save(folder / "net.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(str(folder / "net.onnx"))
    (found, *_) = session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_it_is_in_every_file(tmp_path) -> None:
    x, y = cells()
    model = bp.BayesianSparseRegressor(**SETTINGS | {"num_steps": 400}, form="trees").fit(x, y)
    small = model.compact(keep="mean")
    assert small.certify().holds
    wanted = small.predict(x)
    assert np.corrcoef(np.ravel(wanted), model.predict(x))[0, 1] > 0.999
    check_files(small, x, tmp_path)
    saving.save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(saving.load(tmp_path / "model.skops").predict(x), model.predict(x))


@pytest.mark.every
@pytest.mark.slow
def test_auto_takes_it_of_cells_and_not_of_lines() -> None:
    x, y = cells(700, side=12)
    settings = {"hidden": (8,), "num_samples": 20, "random_state": 0}
    model = bp.BayesianSparseRegressor(**settings).fit(x, y)
    assert model.weights_["trees"] > 0.2 and model.score(*cells(700, seed=1, side=12)) > 0.5
    assert "trees" not in bp.BayesianSparseRegressor(**settings).fit(x, x[:, 0] + 0.1 * y).weights_
    one = bp.BayesianSparseRegressor(**settings, stacking=False).fit(x, y)
    assert "trees" not in one.weights_  # one network is asked for
