"""What a fit says where columns do not help, and what it keeps to itself where they do."""

import contextlib
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier

import bayesprune as bp
from bayesprune.infer.end_of_fit import held_back
from bayesprune.infer.scale_of_data import warn_of_scale
from bayesprune.sklearn import base, forms, gaps, measures, tails
from tests.sklearn.stand_in import StandIn

NONE = np.zeros((30, 1))
NO_BETTER = "the rows that were fitted are predicted no better than without X"


def test_constants_of_labels_are_their_shares() -> None:
    rng = np.random.default_rng(0)
    y, held = rng.integers(0, 3, 30), rng.integers(0, 3, 20)
    wanted = DummyClassifier(strategy="prior").fit(NONE, y).predict_log_proba(NONE[:20])[np.arange(20), held]
    np.testing.assert_allclose(measures.by_constants(0, NONE, y, NONE[:20], held), wanted)


def test_the_constant_of_numbers_is_their_mean() -> None:
    rng = np.random.default_rng(1)
    y, held = rng.standard_normal(30), rng.standard_normal(20)
    spread = np.sqrt(np.mean((held - y.mean()) ** 2))
    found = measures.by_constants(0, NONE, y, NONE[:20], held)
    assert found.mean() >= stats.norm.logpdf(held, y.mean(), spread).mean() - 1e-12


class BesideConstants(StandIn):
    """``constants``: what they predict each row with; None where they are of another thing."""

    def __init__(self, nats: dict[str, float], constants: float | None) -> None:
        super().__init__(nats)
        self.constants = constants

    def _measured(self, form, x, y, kept, held):
        found = form == measures.CONSTANTS and self.constants is not None
        return np.full(len(held), self.constants) if found else None


@pytest.mark.parametrize(("constants", "warns"), [(None, False), (-0.6, False), (-0.5, False), (-0.4, True)])
def test_a_fit_says_where_constants_are_ahead(constants: float | None, warns: bool) -> None:
    estimator = BesideConstants({"plain": -0.5}, constants)
    x, y, choice = np.zeros((100, 1)), np.arange(100.0), forms.FormChoice(("plain",), 1, 0.2)
    behind = estimator.choose(choice, x, y).behind
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        measures.warn_of_held_out(behind, len(y))
    said = [str(one.message) for one in caught]
    assert len(said) == warns and all("worse than without X, by 0.1 nats a row" in one and "100 rows" in one for one in said)


@pytest.mark.slow
def test_a_bound_above_the_constants_is_no_fault_where_rows_are_foreseen(monkeypatch) -> None:
    """Three of twenty columns tell two classes apart in 200 rows, with one in ten labels wrong; and coins."""
    rng = np.random.default_rng(2)
    x, wrong, coins = rng.standard_normal((200, 20)), rng.random(200) < 0.1, rng.integers(0, 2, 200)
    y = ((x[:, :3].sum(axis=1) > 0) ^ wrong).astype(int)
    settings = {"hidden": (20,), "num_steps": 800, "num_samples": 30, "random_state": 0}
    heard: list[list[str]] = []
    monkeypatch.setattr(base, "held_back", lambda: _listened(heard))

    def said(held_out: float, labels: np.ndarray) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bp.BayesianSparseClassifier(**settings, held_out=held_out).fit(x, labels)
        return [str(one.message).partition(",")[0] for one in caught if one.category is UserWarning]

    assert said(0.0, y) == said(0.3, y) == []
    assert all(one.startswith("The loss ends at") for told in heard for one in told) and all(heard)
    assert said(0.3, coins) == ["held-out rows are predicted worse than without X"]


@contextlib.contextmanager
def _listened(heard: list[list[str]]) -> Iterator[list[str]]:
    with held_back() as said:
        heard.append(said)
        yield said


@pytest.mark.parametrize(
    ("constants", "likelihood", "own", "warning"),
    [
        (-0.7, None, -0.5, None),
        (-0.7, None, -0.7, NO_BETTER),
        (None, None, -0.7, "The loss ends"),
        (None, bp.likelihoods.Poisson(), -1.0, None),  # of 25 zeros and 25 twos the best constant has 1.5 nats a row
        (None, bp.likelihoods.Poisson(), -1.6, NO_BETTER),
    ],
)
def test_where_nothing_is_held_out_the_rows_themselves_judge(constants, likelihood, own: float, warning: str | None) -> None:
    estimator = SimpleNamespace(
        _measured=lambda *_: None if constants is None else np.full(50, constants),
        _judged=lambda *_: SimpleNamespace(nats=np.full(50, own)),
        bnn_=SimpleNamespace(likelihood=likelihood),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        measures.warn_of_fitted(estimator, np.zeros((50, 1)), np.repeat([0, 2], 25), "The loss ends")
    assert [str(one.message).partition(":")[0] for one in caught] == ([] if warning is None else [warning])


def test_of_targets_that_are_all_the_same_one_thing_is_said() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gaps.check_targets(np.full(40, 7.0))
        assert tails.scale(np.zeros(5), 3.0) == 0.0
        behind = measures.behind_constants(np.full(40, -9.0), None, NONE, np.full(40, 7.0), [])
        measures.warn_of_held_out(behind, 40)
    assert [str(one.message) for one in caught] == ["y is 7.0 in every row: there is nothing to learn."]


def test_of_the_scale_of_data_nothing_is_said_to_who_scales_them() -> None:
    bnn = bp.BNN(bp.nets.MLP((2,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(1,))
    x = np.random.default_rng(0).standard_normal((30, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with held_back():
            warn_of_scale(bnn, bp.Dataset(x, 1e6 * x[:, 0]))
        assert not caught
        warn_of_scale(bnn, bp.Dataset(x, 1e6 * x[:, 0]))
    assert [str(one.message)[:6] for one in caught] == ["data.y"]


KEPT = 1200


@pytest.mark.parametrize("noise", [stats.norm(scale=0.3), stats.t(3, scale=0.3)], ids=["normal", "t"])
def test_of_numbers_a_line_is_nearly_the_density_they_were_drawn_from(noise) -> None:
    rng = np.random.default_rng(0)
    x = 50.0 + rng.standard_normal((KEPT + 600, 3)) * [1.0, 1e3, 1e-3]
    missed = noise.rvs(len(x), random_state=rng)
    y = x[:, 0] + 1e-3 * x[:, 1] + missed
    found = measures.by_lines(0, x[:KEPT], y[:KEPT], x[KEPT:], y[KEPT:])
    truth = noise.logpdf(missed[KEPT:]).mean()
    assert found.shape == (600,) and truth - 0.02 < found.mean() < truth + 0.02


@pytest.mark.parametrize("classes", [2, 4])
def test_of_labels_a_line_is_nearly_their_probability(classes: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((KEPT + 600, 4))
    p = np.exp(x @ rng.standard_normal((4, classes)))
    p /= p.sum(axis=1, keepdims=True)
    labels = (rng.uniform(size=(len(x), 1)) > p.cumsum(axis=1)).sum(axis=1)
    found = measures.by_lines(0, x[:KEPT], labels[:KEPT], x[KEPT:], labels[KEPT:])
    truth = np.log(p[np.arange(KEPT, len(x)), labels[KEPT:]]).mean()
    assert truth - 0.03 < found.mean() < truth + 0.03


def test_a_line_says_of_steps_less_than_trees_do() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(KEPT + 600, 2))
    y = np.sign(np.sin(20 * x[:, 0])) + 0.1 * rng.standard_normal(len(x))
    given = x[:KEPT], y[:KEPT], x[KEPT:], y[KEPT:]
    assert measures.by_lines(0, *given).mean() < measures.by_trees(0, *given).mean() - 0.5


def test_a_fold_without_the_rare_class_is_foreseen_as_the_other() -> None:
    x = np.random.default_rng(0).standard_normal((20, 2))
    nats = measures.by_lines(0, x[:15], np.zeros(15, int), x[15:], np.array([0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(nats, np.log([1, 1, 1, 1, measures.LEAST]))


def stepped(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two columns, and a signal that jumps in the first."""
    x = rng.uniform(size=(KEPT + 600, 2))
    return x, 2.0 * (x[:, 0] > 0.3) - 1.0 * (x[:, 0] > 0.8)


@pytest.mark.parametrize("noise", [stats.norm(scale=0.3), stats.t(3, scale=0.3)], ids=["normal", "t"])
def test_of_numbers_trees_are_nearly_the_density_they_were_drawn_from(noise) -> None:
    """By SciPy, a tenth of a nat below at most: trees fit their rows' noise a little."""
    rng = np.random.default_rng(0)
    x, signal = stepped(rng)
    missed = noise.rvs(len(x), random_state=rng)
    found = measures.by_trees(0, x[:KEPT], (signal + missed)[:KEPT], x[KEPT:], (signal + missed)[KEPT:])
    truth = noise.logpdf(missed[KEPT:]).mean()
    assert found.shape == (600,) and truth - 0.1 < found.mean() < truth + 0.02


def test_of_labels_trees_are_nearly_their_probability() -> None:
    rng = np.random.default_rng(1)
    x, signal = stepped(rng)
    p = np.where(signal > 1.0, 0.9, 0.2)
    labels = (rng.uniform(size=len(x)) < p).astype(np.int32)
    found = measures.by_trees(0, x[:KEPT], labels[:KEPT], x[KEPT:], labels[KEPT:])
    truth = stats.bernoulli.logpmf(labels[KEPT:], p[KEPT:]).mean()
    assert truth - 0.05 < found.mean() < truth + 0.02


def test_a_class_that_was_not_shown_has_next_to_no_probability() -> None:
    x = np.arange(80.0)[:, None]
    found = measures.by_trees(0, x, np.repeat([0, 2], 40), np.array([[10.0], [70.0], [70.0]]), np.array([0, 1, 3]))
    assert found[0] > -0.1
    np.testing.assert_allclose(found[1:], np.log(1e-9))


@pytest.mark.parametrize("likelihood", ["student_t", "poisson"])
def test_only_densities_of_the_same_targets_are_compared(likelihood: str) -> None:
    """Counts have probabilities, which trees' densities cannot be held against."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2)), rng.poisson(3.0, 60).astype(float)
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=5, likelihood=likelihood, num_samples=2, random_state=0).fit(x, y)
    for form in ("steps", "linear"):
        found = model._measured(form, x, y, np.arange(40), np.arange(40, 60))
        assert (found is None) == (likelihood == "poisson")
    assert model._measured("components", x, y, np.arange(40), np.arange(40, 60)) is None
