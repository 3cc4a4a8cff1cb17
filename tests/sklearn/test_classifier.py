import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import entropy
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

import bayesprune as bp
from bayesprune.sklearn.classifier import check_labels, check_order, check_written
from tests.sklearn.problems import LINEAR, linear_rows

NAMES = np.array(["low", "middle", "high"])


def labelled():
    x, y = linear_rows(noise=0.0)
    return x, NAMES[np.digitize(y, (-1.0, 1.0))]


@pytest.fixture(scope="module")
def fitted():
    x, y = labelled()
    return bp.BayesianSparseClassifier(**LINEAR).fit(x, y), x, y


@pytest.mark.slow
def test_labels_come_back_as_they_were(fitted):
    model, x, y = fitted
    assert model.classes_.tolist() == ["high", "low", "middle"]
    probabilities = model.predict_proba(x)
    assert probabilities.shape == (120, 3) and (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(x), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(x, y) > 0.75


@pytest.mark.slow
def test_draws_and_the_parts_of_the_entropy(fitted):
    model, x, _ = fitted
    draws, parts = model.predict_draws(x), model.uncertainty(x)
    assert draws.shape == (50, 120, 3)
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(x), atol=1e-6)
    np.testing.assert_allclose(parts.total, entropy(draws.mean(axis=0), axis=-1), rtol=1e-5)
    np.testing.assert_allclose(parts.aleatoric, entropy(draws, axis=-1).mean(axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_inputs_that_matter_lead(fitted):
    model, _, _ = fitted
    assert model.inclusion_probabilities_[:3].min() > model.inclusion_probabilities_[3:].max()


@pytest.mark.slow
def test_a_pickle_predicts_the_same(fitted):
    model, x, _ = fitted
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(x), model.predict_proba(x))


@pytest.mark.slow
def test_cross_validation_in_a_pipeline():
    x, y = labelled()
    scores = cross_val_score(make_pipeline(StandardScaler(), bp.BayesianSparseClassifier(**LINEAR)), x, y == "high", cv=2)
    assert scores.min() > 0.75


def test_refusals():
    x, y = labelled()
    with pytest.raises(ValueError, match="at least two classes, got one class only"):
        bp.BayesianSparseClassifier().fit(x, np.full(120, "low"))
    with pytest.raises(ValueError, match="Unknown label type"):
        bp.BayesianSparseClassifier().fit(x, x[:, 0])
    with pytest.raises(TypeError, match="Sparse data was passed"):
        bp.BayesianSparseClassifier().fit(csr_matrix(x), y)


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("hold", ["array", "list", "Series", "column"])
def test_rows_without_a_label_are_named_with_the_remedy(gap, hold):
    """NumPy says of None among texts that '<' is not supported."""
    x, y = labelled()
    gaps = y.astype(object)
    gaps[[3, 7]] = gap
    held = {"array": gaps, "list": list(gaps), "Series": pd.Series(gaps), "column": gaps[:, None]}[hold]
    with pytest.raises(ValueError, match=r"y has no label in 2 of its 120 rows \(3, 7, counted from 0\): drop .*pd.notna"):
        bp.BayesianSparseClassifier().fit(x, held)


@pytest.mark.parametrize("kind", ["float64", "Int64", "Float64", "boolean", "int64[pyarrow]", "M8[s]", "category", "string"])
def test_rows_without_a_label_are_named_whatever_type_the_labels_have(kind):
    pytest.importorskip("pyarrow")
    x, y = labelled()
    gaps = pd.Series(np.where(y == y[0], 1.0, 0.0)).mask(np.isin(np.arange(120), [3, 7]))
    for held in (gaps.astype(kind), gaps.astype(kind).to_frame()):
        with pytest.raises(ValueError, match=r"y has no label in 2 of its 120 rows \(3, 7, counted from 0\): drop .*pd.notna"):
            bp.BayesianSparseClassifier().fit(x, held)


def test_labels_that_cannot_be_sorted_are_refused_with_the_remedy():
    x, y = labelled()
    mixed = y.astype(object)
    mixed[:60] = 1
    with pytest.raises(ValueError, match=r"labels of types that cannot be sorted \(int, str\): make texts of all"):
        bp.BayesianSparseClassifier().fit(x, mixed)
    with pytest.raises(ValueError, match=r"types that cannot be sorted \(int, str\)"):
        bp.BayesianSparseClassifier().fit(x[:60], [1, "1"] * 30)  # of a list NumPy makes texts
    check_labels(np.array([1, 2.0, True], object))  # these can
    check_labels([1, 2.0, True, np.int8(3)])
    check_labels([["a"], ["b"]])


WORDS = "unexpected keyword argument 'sample_weight': rows count alike. Repeat those that count more"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (bp.BayesianSparseClassifier, WORDS + r".*likelihoods.Categorical\(class_weights="),
        (bp.BayesianSparseRegressor, WORDS),
        (bp.BayesianFeatureSelector, WORDS),
    ],
)
def test_weights_of_rows_are_refused_with_what_to_do(kind, words):
    x, y = labelled()
    with pytest.raises(TypeError, match=words):
        kind().fit(x, y, sample_weight=np.ones(120))
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs': it takes X and y"):
        kind().fit(x, y, epochs=3)
    assert not has_fit_parameter(kind(), "sample_weight"), "scikit-learn's ensembles would take it for one that follows them"


def test_logarithms_of_probabilities_are_those_of_scikit_learn_and_warn_of_nothing(fitted, monkeypatch):
    model, x, _ = fitted
    np.testing.assert_array_equal(model.predict_log_proba(x), np.log(model.predict_proba(x)))
    monkeypatch.setattr(type(model), "predict_proba", lambda self, X: np.array([[1.0, 0.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict_log_proba(x).tolist() == [[0.0, -np.inf]]


def test_the_log_density_of_labels_is_that_of_their_probabilities(fitted):
    model, x, y = fitted
    probabilities = model.predict_proba(x)
    expected = [np.log(row[model.classes_.tolist().index(label)]) for row, label in zip(probabilities, y, strict=True)]
    for given in (y, y[:, None], pd.DataFrame({"y": y}), y.tolist()):
        np.testing.assert_allclose(model.log_density(x, given), expected)
    with pytest.raises(ValueError, match="one label for each of the 120 rows, all of them among classes_"):
        model.log_density(x, np.where(y == "low", "lowest", y))
    for other in (y[:-1], np.column_stack([y, y]), y[None]):
        with pytest.raises(ValueError, match="one label for each of the 120 rows"):
            model.log_density(x, other)


@pytest.mark.slow
def test_grades_take_the_ordinal_likelihood():
    x, y = linear_rows(noise=0.0)
    grades = np.digitize(y, (-1.0, 1.0))
    model = bp.BayesianSparseClassifier(**LINEAR, likelihood="ordinal").fit(x, grades)
    assert model.score(x, grades) > 0.85 and model.predict_proba(x).shape == (120, 3)
    np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1)
    weighted = bp.BayesianSparseClassifier(**LINEAR, likelihood=bp.likelihoods.Categorical(class_weights=(1.0, 5.0, 1.0)))
    assert np.mean(weighted.fit(x, grades).predict(x) == 1) > np.mean(grades == 1)


@pytest.mark.parametrize(
    ("likelihood", "error", "words"),
    [
        ("normal", ValueError, "unknown likelihood 'normal'.*categorical"),
        (bp.likelihoods.Normal(), ValueError, "is not of classes: use BayesianSparseRegressor"),
        (bp.likelihoods.Categorical, TypeError, "likelihood"),
    ],
)
def test_likelihoods_that_are_none_for_labels_are_refused(likelihood, error, words):
    x, y = labelled()
    with pytest.raises(error, match=words):
        bp.BayesianSparseClassifier(**LINEAR, likelihood=likelihood).fit(x, y)


def test_an_order_of_pandas_that_is_not_the_sorted_one_is_refused_where_it_matters() -> None:
    x, grades = np.zeros((60, 1)), pd.Series(pd.Categorical(["lo", "mid", "hi"] * 20, ["lo", "mid", "hi"], ordered=True))
    with pytest.raises(ValueError, match=r"order of its own, lo < mid < hi.*y\.cat\.codes"):
        bp.BayesianSparseClassifier(likelihood="ordinal").fit(x, grades)
    with pytest.raises(ValueError, match="order of its own"):
        check_order(grades, bp.likelihoods.Ordinal(3))
    with pytest.raises(ValueError, match="order of its own"):
        check_order(grades.to_frame(), "ordinal")
    check_order(grades.cat.as_unordered(), "ordinal")
    check_order(grades, "auto")
    check_order(grades.cat.codes, "ordinal")
    check_order(pd.Series(pd.Categorical(["a", "b"] * 3, ["a", "b"], ordered=True)), "ordinal")
    with pytest.raises(ValueError, match="'ordinal' needs three classes in an order, and y holds two"):
        bp.BayesianSparseClassifier(likelihood="ordinal").fit(x, np.arange(60) % 2)
    with pytest.raises(ValueError, match=r"written as texts.*10 < 8 < 9.*np\.asarray\(y, float\)"):
        bp.BayesianSparseClassifier(likelihood="ordinal").fit(x, ["8", "9", "10"] * 20)
    check_written(np.array(["1", "2", "3"]), "ordinal")
    check_written(np.array(["10", "9"]), "categorical")
    check_written(NAMES, "ordinal")


def test_hidden_labels_are_refused(fitted):
    model, x, y = fitted
    with pytest.raises(ValueError, match=r"y is a masked array with 120 masked value\(s\)"):
        model.log_density(x, np.ma.array(y, mask=True))
