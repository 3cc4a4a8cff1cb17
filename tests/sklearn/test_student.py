"""A student says what its teacher says, is as unsure, and refuses what it cannot learn."""

import types

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import r2_score
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesprune as bp
from bayesprune.sklearn.student import _drawn_labels, _of_labels, _of_numbers

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
SMALL = bp.BayesianSparseClassifier(hidden=(), num_steps=1500, form="plain", held_out=0.0)


class Sure:
    """A teacher of three classes whose probabilities are known."""

    classes_ = np.array(["a", "b", "c"])

    def predict(self, x):
        return self.classes_[self.predict_proba(x).argmax(1)]

    def predict_proba(self, x):
        return np.tile([0.5, 0.3, 0.2], (len(x), 1))


def test_labels_are_drawn_from_the_teachers_probabilities() -> None:
    """20,000 draws: a share is off by .02, above five of its standard errors, once in a million."""
    drawn = _drawn_labels(RNG, Sure(), np.zeros((20_000, 1)))
    shares = [np.mean(drawn == one) for one in Sure.classes_]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.02)


@pytest.mark.slow
def test_a_student_is_as_unsure_as_its_teacher() -> None:
    """A logistic regression of weak signal: labels drawn from it are as unsure as it is, its most likely ones would not be."""
    y = np.where(RNG.random(300) < 1 / (1 + np.exp(-0.8 * X[:, 0])), "up", "down")
    teacher = LogisticRegression().fit(X, y)
    found = bp.distil(teacher, X, student=SMALL, rows=4_000)
    assert found.agreement > 0.9 and found.divergence < 0.01 and found.rows >= 4_000
    np.testing.assert_allclose(found.student.predict_proba(X), teacher.predict_proba(X), atol=0.1)


@pytest.mark.slow
def test_a_student_of_numbers_ships_as_a_compact_network() -> None:
    teacher = LinearRegression().fit(X, X @ [2.0, -1.0, 0.0])
    student = bp.BayesianSparseRegressor(hidden=(), num_steps=1500, form="plain", held_out=0.0)
    found = bp.distil(teacher, X, student=student, rows=600)
    assert found.agreement > 0.99 and found.divergence < 0.1
    small = bp.compact(found.student.bnn_, found.student.params_, found.student.mask_, keep="mean")
    assert small.certify().holds and np.isfinite(small.predict(jnp.asarray(found.student.inputs_of(X[:5])))).all()


def test_what_is_no_teacher_or_student_is_refused() -> None:
    forest = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0)
    with pytest.raises(TypeError, match="with predict, got a dict"):
        bp.distil({}, X)
    with pytest.raises(TypeError, match="is a BayesianSparseClassifier, got a BayesianSparseRegressor"):
        bp.distil(forest, X, student=bp.BayesianSparseRegressor())
    with pytest.raises(ValueError, match="minimum of 20"):
        bp.distil(forest, X[:10])
    with pytest.raises(ValueError, match="X is a masked array"):
        bp.distil(forest, np.ma.array(X, mask=True))


BOTH = np.column_stack([X[:, 0] > 0, X[:, 1] > 0])
LOGISTIC = LogisticRegression()


@pytest.mark.parametrize(
    "teacher",
    [
        RandomForestClassifier(3, random_state=0).fit(X, BOTH),
        MultiOutputClassifier(LOGISTIC).fit(X, np.where(BOTH, "yes", "no")),
        MultiOutputClassifier(RidgeClassifier()).fit(X, BOTH),
        OneVsRestClassifier(LOGISTIC).fit(X, BOTH),  # whose classes_ are one array
    ],
    ids=["forest", "several", "without probabilities", "one by one"],
)
def test_several_labels_of_a_row_are_refused(teacher) -> None:
    with pytest.raises(TypeError, match=r"says several labels of a row.* fit a teacher to each column of labels"):
        bp.distil(teacher, X)


@pytest.mark.parametrize(
    "teacher",
    [
        KMeans(3, n_init=1, random_state=0),
        make_pipeline(StandardScaler(), KMeans(3, n_init=1, random_state=0)),
        IsolationForest(n_estimators=5, random_state=0),
        GaussianMixture(2, random_state=0),
    ],
    ids=["clusterer", "pipeline", "outliers", "mixture"],
)
def test_numbers_that_are_names_are_refused(teacher) -> None:
    with pytest.raises(TypeError, match="predicts names, not amounts: fit a classifier with predict_proba"):
        bp.distil(teacher.fit(X), X)


def test_names_are_known_without_scikit_learns_tags() -> None:
    teacher = types.SimpleNamespace(predict=len, _estimator_type="clusterer")
    with pytest.raises(TypeError, match="a clusterer, predicts names"):
        bp.distil(teacher, X)


def test_agreement_is_each_outputs_own() -> None:
    """As scikit-learn's R2 of several outputs: levels that are far apart are no variance."""
    x = np.random.default_rng(0).standard_normal((40, 2))
    taught = np.column_stack([x[:, 0], 1000.0 + x[:, 1]])
    teacher, student = (types.SimpleNamespace(predict=lambda _, y=y: y) for y in (taught, taught + np.array([0.3, -0.9])))
    agreement, away = _of_numbers(teacher, student, x)
    assert agreement == pytest.approx(r2_score(taught, student.predict(x)))
    assert away == pytest.approx(np.sqrt(np.mean([0.09, 0.81] / taught.var(axis=0))))


def test_a_teachers_classes_stand_in_its_own_order() -> None:
    """Sorted ones are the student's: the same probabilities agree in every row, and are 0 nats away."""

    class Unsorted(Sure):
        classes_ = np.array(["b", "c", "a"])

    class Student:
        classes_ = np.array(["a", "b", "c"])

        def predict_proba(self, x):
            return np.tile([0.2, 0.5, 0.3], (len(x), 1))

    agreement, nats = _of_labels(Unsorted(), Student(), np.zeros((4, 1)))
    assert (agreement, nats) == (1.0, pytest.approx(0.0, abs=1e-7))


def test_an_output_that_does_not_vary_counts_for_nothing() -> None:
    """Of a constant there is no share of the variance."""
    level, rows = 0.1 + 0.2, RNG.standard_normal((200, 2))
    one, other = (
        types.SimpleNamespace(predict=lambda x, off=off: np.c_[x[:, 0] + off, np.full(len(x), level + off)])
        for off in (0.0, 1e-4)
    )
    alone = tuple(types.SimpleNamespace(predict=lambda x, of=of: of.predict(x)[:, 0]) for of in (one, other))
    assert _of_numbers(one, other, rows) == pytest.approx(_of_numbers(*alone, rows), rel=1e-12)
    constant = types.SimpleNamespace(predict=lambda x: np.full(len(x), level))
    assert np.isnan(_of_numbers(constant, alone[1], rows)).all()
