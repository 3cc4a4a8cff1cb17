import re
import types
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import bayesprune as bp
from bayesprune.sklearn import rules
from tests.sklearn.problems import LINEAR, linear_rows

RELEVANT = [True] * 3 + [False] * 3


def selector(**settings):
    return bp.BayesianFeatureSelector(bp.BayesianSparseRegressor(**LINEAR), random_state=0, **settings)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"rule": "median"},
        {"rule": "fdr", "level": 0.2},
        {"rule": "fraction", "fraction": 0.5},
        {"rule": "knockoff", "level": 0.4},
        {"rule": "cv", "fractions": (1 / 6, 0.5, 1.0), "cv": 3, "cv_rule": "one_standard_error"},
    ],
    ids=lambda settings: settings["rule"],
)
def test_every_rule_finds_the_inputs_of_a_linear_truth(settings):
    x, y = linear_rows()
    fitted = selector(**settings).fit(x, y)
    assert fitted.get_support().tolist() == RELEVANT
    np.testing.assert_array_equal(fitted.transform(x), x[:, :3])
    assert hasattr(fitted, "fraction_choice_") == (settings["rule"] == "cv")
    assert hasattr(fitted, "statistics_") == (settings["rule"] == "knockoff")


@pytest.mark.slow
def test_a_constant_column_is_never_selected_by_knockoffs():
    x, y = linear_rows()
    rounded = np.where(np.arange(len(x)) % 2, 0.3, 0.1 + 0.2)
    fitted = selector(rule="knockoff", level=0.4).fit(np.insert(x, 2, rounded, axis=1), y)
    assert fitted.get_support().tolist() == [True, True, False, True, False, False, False]
    assert fitted.statistics_[2] == 0 and fitted.statistics_.shape == (7,)


@pytest.mark.slow
def test_another_rule_forgets_the_details_of_the_last():
    x, y = linear_rows()
    fitted = selector(rule="knockoff", level=0.4).fit(x, y)
    fitted.set_params(rule="median").fit(x, y)
    assert not hasattr(fitted, "statistics_")


@pytest.mark.slow
def test_seeds_and_their_absence():
    x, y = linear_rows()
    one, same, bare = (selector().fit(x, y), selector().fit(x, y), selector().set_params(random_state=None).fit(x, y))
    assert one.estimator_.random_state == same.estimator_.random_state == bare.estimator_.random_state  # all from seed 0
    np.testing.assert_array_equal(one.estimator_.losses_, same.estimator_.losses_)


@pytest.mark.every
@pytest.mark.slow
def test_it_goes_into_pipelines_and_grids():
    x, y = linear_rows()
    pipeline = make_pipeline(selector(rule="fraction"), bp.BayesianSparseRegressor(**LINEAR))
    search = GridSearchCV(pipeline, {"bayesianfeatureselector__fraction": [1 / 6, 0.5]}, cv=2).fit(x, y)
    assert search.best_params_ == {"bayesianfeatureselector__fraction": 0.5}
    assert search.best_estimator_[-1].n_features_in_ == 3


@pytest.mark.slow
def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    x, y = linear_rows()
    frame = pandas.DataFrame(x, columns=list("abcdef"))
    fitted = selector().set_output(transform="pandas").fit(frame, y)
    assert fitted.feature_names_in_.tolist() == list("abcdef")
    assert fitted.transform(frame).columns.tolist() == fitted.get_feature_names_out().tolist() == ["a", "b", "c"]


@pytest.mark.slow
def test_labels_take_a_classifier_and_a_fold_need_not_show_them_all():
    x, y = linear_rows()
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[0] = "rare"
    chooser = bp.BayesianFeatureSelector(
        bp.BayesianSparseClassifier(**LINEAR), rule="cv", fractions=(0.5, 1.0), cv=2, random_state=0
    ).fit(x, labels)
    assert np.isfinite(chooser.fraction_choice_.losses).all()


@pytest.mark.parametrize(
    ("targets", "kind"),
    [
        (np.array(["up", "down", "rare"], object), bp.BayesianSparseClassifier),
        (np.repeat([0.0, 1.0, 2.0], 5), bp.BayesianSparseClassifier),  # as a CSV file may have labels
        (np.repeat([0, 1, 2], 5)[:, None], bp.BayesianSparseClassifier),
        (sklearn.datasets.load_diabetes().target, bp.BayesianSparseRegressor),
        (np.arange(100), bp.BayesianSparseRegressor),
        (np.arange(6) / 2, bp.BayesianSparseRegressor),
        (np.stack([np.repeat([0, 1], 5), np.arange(10)], axis=1), bp.BayesianSparseRegressor),
    ],
    ids=["texts", "few floats", "a column", "diabetes", "many integers", "fractions", "two columns"],
)
def test_many_whole_numbers_are_no_labels_of_whatever_dtype(targets, kind):
    assert {type(one) for one in bp.BayesianFeatureSelector()._candidates(targets)} == {kind}


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.slow
def test_numbers_among_a_mixed_frames_objects_are_numbers():
    x, y = linear_rows()
    one, other = (selector(rule="fraction", fraction=0.5).fit(x, given).support_ for given in (y, y.astype(object)))
    np.testing.assert_array_equal(one, other)
    assert bp.BayesianFeatureSelector()._candidates(y)[0].__class__ is bp.BayesianSparseRegressor


@pytest.mark.slow
def test_whole_numbers_held_as_floats_are_regressed_by_default():
    x, y = sklearn.datasets.load_diabetes(return_X_y=True)
    fitted = bp.BayesianFeatureSelector(random_state=0).fit(x, y)
    assert isinstance(fitted.estimator_, bp.BayesianSparseRegressor)
    assert fitted.get_support()[[2, 8]].all()  # the body mass index, and the logarithm of a serum's level


@pytest.mark.slow
def test_refusals():
    x, y = linear_rows()
    with pytest.raises(ValueError, match=r"unknown rule 'medain'.*'median'"):
        selector(rule="medain").fit(x, y)
    with pytest.raises(TypeError, match="estimator must be an object of BayesianSparseRegressor"):
        bp.BayesianFeatureSelector(bp.BayesianSparseRegressor).fit(x, y)
    with pytest.raises(ValueError, match=r"shrinkage.*singular"):
        selector(rule="knockoff", shrinkage=0.0).fit(np.column_stack([x, x[:, 0]]), y)
    with pytest.raises(ValueError, match=r"shrinkage must be a number in \[0, 1\) or 'auto', got 'much'"):
        selector(rule="knockoff", shrinkage="much").fit(x, y)
    for how, told in (
        ({"fdr": 1.5}, r"fdr must lie in \(0, 1\), got 1.5: 0.1 allows one false input in ten"),
        ({"rule": "knockoff", "level": "a"}, r"level must lie in \(0, 1\), got 'a'"),
        ({"rule": "fdr", "level": None}, r"level must lie in \(0, 1\), got None"),
    ):
        with pytest.raises(ValueError, match=told):
            selector(**how).fit(x, y)
    with pytest.raises(ValueError, match="every column of X is constant"):
        selector(rule="knockoff").fit(np.ones_like(x), y)
    flat = bp.BayesianSparseRegressor(**LINEAR).set_params(prior="flat", num_steps=5)
    with pytest.raises(ValueError, match="rule='fdr' needs inclusion probabilities"):
        bp.BayesianFeatureSelector(flat, rule="fdr", random_state=0).fit(x, y)


@pytest.mark.slow
def test_a_nonlinear_truth():
    # Five of twenty inputs matter, two of them only through the sine of their product. The first only bends the effect of the
    # second, by 1 / (1 + x1²): the gates find the other four, and may miss it.
    simulated = bp.data.simulate("simulation_svbnn", seed=0, num_train=1000, num_test=1, num_features=20)
    network = bp.BayesianSparseRegressor(hidden=(20,), num_steps=4000)
    fitted = bp.BayesianFeatureSelector(network, random_state=0).fit(*map(np.asarray, simulated.train))
    support = fitted.get_support()
    assert support[1:5].all() and not support[~simulated.relevant].any()


@pytest.mark.every
@pytest.mark.slow
def test_counts_are_cross_validated_as_they_are():
    x, _ = linear_rows(rows=60)
    counts = np.random.default_rng(0).poisson(np.exp(1.0 + 0.5 * x[:, 0]))
    model = bp.BayesianSparseRegressor(**LINEAR | {"num_steps": 100}, likelihood="poisson")
    chosen = bp.BayesianFeatureSelector(model, rule="cv", fractions=(1 / 6, 1.0), cv=2, random_state=0).fit(x, counts)
    assert np.isfinite(chosen.fraction_choice_.losses).all() and chosen.get_support()[0]


def test_polars_goes_in_and_comes_out():
    polars = pytest.importorskip("polars")
    x, y = linear_rows()
    frame = polars.DataFrame({name: x[:, column] for column, name in enumerate("abcdef")})
    fitted = selector().set_output(transform="polars").fit(frame, polars.Series(y))
    assert fitted.feature_names_in_.tolist() == list("abcdef")
    selected = fitted.transform(frame)
    assert isinstance(selected, polars.DataFrame) and selected.columns == ["a", "b", "c"]
    np.testing.assert_array_equal(selected.to_numpy(), x[:, :3])


def test_columns_with_numbers_for_names_are_selected_by_them():
    x, y = linear_rows()
    frame = pd.DataFrame(x)
    fitted = selector().fit(frame, y)
    np.testing.assert_array_equal(fitted.transform(frame[[5, 1, 0, 2, 3, 4]]), x[:, :3])
    named = fitted.set_output(transform="pandas").transform(frame[[5, 1, 0, 2, 3, 4]])
    np.testing.assert_array_equal(named, x[:, :3])
    with pytest.raises(ValueError, match="columns of X have other names"):
        fitted.transform(frame.rename(columns={0: 9}))
    with pytest.raises(ValueError, match="X is a masked array"):
        fitted.transform(np.ma.array(x, mask=True))


@pytest.mark.slow
def test_folds_of_labels_have_their_share_of_each_class():
    x, _ = linear_rows()
    kind = bp.BayesianSparseClassifier(hidden=(), num_steps=50, num_samples=5)
    rare, alone = (np.where(np.arange(120) < number, "rare", "common") for number in (3, 1))
    for seed in range(3):  # by plain folds, one of the three had them all held out
        bp.BayesianFeatureSelector(kind, rule="cv", cv=3, fractions=(0.5, 1.0), random_state=seed).fit(x, rare)
    with pytest.raises(ValueError, match="needs two rows of each of two classes, and 'rare' has one"):
        bp.BayesianFeatureSelector(kind, rule="cv", random_state=0).fit(x, alone)
    with pytest.raises(ValueError, match="cv must be an integer of at least 2, got 1"):
        bp.BayesianFeatureSelector(kind, rule="cv", cv=1).fit(x, rare)


@pytest.mark.parametrize(
    ("winners", "settings", "told"),
    [
        (12, {"copies": 2}, r"20 inputs must beat .* e_values_ are all zero. Take copies=1, which asks for 10"),
        (12, {"copies": 1}, None),
        (24, {"copies": 2}, None),
        (24, {"copies": 2, "fdr": 0.05}, r"40 inputs must beat .* X has 30 columns that vary. Take copies=1, which asks"),
        (24, {"copies": 2, "fdr": 0.02}, r"100 inputs must beat .* X has 30 columns that vary. Take a higher rate"),
        (24, {"copies": 1, "fdr": 0.02}, r"50 inputs must beat .* X has 30 columns that vary. Take a higher rate"),
    ],
)
def test_knockoffs_that_can_select_nothing_say_what_would(monkeypatch, winners, settings, told):
    """The threshold of a set of copies needs 1/level winners, of several sets at half the level: 2/level."""
    importances = np.concatenate([np.arange(30) < winners, np.zeros(30)]).astype(float)
    found = types.SimpleNamespace(importances=importances, fitted=None)
    monkeypatch.setattr(rules.worth, "of_columns", lambda *given: found)
    x, y = linear_rows(features=30)
    chooser = selector(**{"fdr": 0.1} | settings)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        chooser.fit(x, y)
    assert chooser.get_support().sum() == (0 if told else winners)
    assert len(seen) == bool(told) and all(re.search(told, str(one.message)) for one in seen)
