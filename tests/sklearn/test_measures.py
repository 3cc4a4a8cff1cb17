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
from bayesprune.sklearn import base, choosing, forms, gaps, measures, tails
from tests.sklearn.stand_in import StandIn

NONE = np.zeros((30, 1))
NO_BETTER = "the rows that were fitted are foreseen no better than without X"


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
    """``constants``: what they foresee each row with; None where they are of another thing."""

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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choosing.choose(estimator, choice, x, y, estimator.learn, 2000)
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
    assert said(0.3, coins) == ["held-out rows are foreseen worse than without X"]


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
        measures.warn_of_held_out(np.full(40, -9.0), None, NONE, np.full(40, 7.0), [])
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
