"""Every figure of ours has a direction, and no other name has one by itself."""

import inspect
import math

import numpy as np
import numpyro.distributions as dist
import pytest
from tests.infer.test_predict import start

import bayesprune as bp
from bayesprune.report import crps
from bayesprune.report.directions import DIRECTIONS, direction_of, merit

ROWS = 20
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
REAL, BITS = X[:, 0] - X[:, 1], (X[:, 0] > 0).astype(np.int32)
CLASSES = np.digitize(REAL, [-1.0, 1.0]).astype(np.int32)
COUNTS = np.random.default_rng(1).poisson(2.0, ROWS).astype(np.int32)
SHARES = (1.0 / (1.0 + np.exp(-REAL))).astype(np.float32)
# The likelihood, the network's outputs, and targets.
JUDGED = {
    "Ordinal": (bp.likelihoods.Ordinal(3), 1, CLASSES),
    "Normal": (bp.likelihoods.Normal(), 1, REAL),
    "Bernoulli": (bp.likelihoods.Bernoulli(), 1, BITS),
    "Categorical": (bp.likelihoods.Categorical(), 3, CLASSES),
    "Beta": (bp.likelihoods.Beta(), 1, SHARES),
    "Custom": (bp.likelihoods.Custom(lambda out: dist.Laplace(out[..., 0], 1.0)), 1, REAL),
    "NegativeBinomial": (bp.likelihoods.NegativeBinomial(), 1, COUNTS),
    "Poisson": (bp.likelihoods.Poisson(), 1, COUNTS),
    "StudentT": (bp.likelihoods.StudentT(), 1, REAL),
    "Normal, predicted": (bp.likelihoods.Normal("predicted"), 2, REAL),
}


@pytest.mark.slow_cases(3)
@pytest.mark.slow
@pytest.mark.parametrize("case", JUDGED)
def test_whatever_an_evaluation_reports_has_a_direction(case, rng_key) -> None:
    likelihood, outputs, y = JUDGED[case]
    bnn = bp.BNN(bp.nets.MLP((2,), outputs), prior=bp.priors.Gaussian(0.5), likelihood=likelihood, input_shape=(3,))
    figures = bp.evaluate(rng_key, bnn, start(bnn), bp.Dataset(X, y), num_samples=3)
    assert figures and set(figures) <= set(DIRECTIONS)


def test_no_likelihood_is_left_out() -> None:
    made = {name for name in bp.likelihoods.__all__ if inspect.isclass(getattr(bp.likelihoods, name))} - {
        "Likelihood",
        "Masked",
    }
    assert {case.split(",")[0] for case in JUDGED} == {name for name in made if hasattr(getattr(bp.likelihoods, name), "mean")}


def test_every_metric_that_is_one_number_has_a_direction() -> None:
    functions = {name: getattr(bp.metrics, name) for name in bp.metrics.__all__}
    figures = {name for name, function in functions.items() if inspect.signature(function).return_annotation is float}
    summaries = [bp.metrics.classification_summary(np.eye(2), np.arange(2)), bp.metrics.regression_summary(X, X[0], 1.0)]
    reported = {name for summary in summaries for name in summary}
    assert "rmse" in figures and "ece" in reported
    assert set(DIRECTIONS) == figures | reported | {"rps"}


def test_coverage_is_near_the_level_that_is_reported() -> None:
    for function in (bp.metrics.coverage, bp.metrics.predictive_interval, crps.sampled_figures):
        assert inspect.signature(function).parameters["level"].default == DIRECTIONS["coverage"]


def test_the_best_figures_of_ours_have_the_most_merit() -> None:
    """What is perfect against what is as wrong as can be; the targets' own law is nearest to its level."""
    right, wrong = np.eye(2), np.eye(2)[::-1]
    for name in ("accuracy", "nll", "ece", "brier", "ece_quantile", "calibration_marginal", "ranked_probability_score"):
        values = [getattr(bp.metrics, name)(probs, np.arange(2)) for probs in (right, wrong)]
        assert np.argmax(merit(values, direction_of(name))) == 0, name
    y = np.random.default_rng(2).normal(size=1000)
    covered = [bp.metrics.coverage(np.zeros((2, 1000)), y, scale) for scale in (0.3, 1.0, 9.0)]
    assert np.argmax(merit(covered, direction_of("coverage"))) == 1  # fails by chance less than once in a billion
    for name in ("fdr", "fnr", "fpr", "power"):
        values = [getattr(bp.metrics, name)(np.array(kept), np.array([True, False])) for kept in ([True, False], [False, True])]
        assert np.argmax(merit(values, direction_of(name))) == 0, name


@pytest.mark.parametrize("metric", ["f1", "loss", "auroc", ""])
def test_an_unknown_metric_is_refused_with_the_remedy(metric) -> None:
    with pytest.raises(ValueError, match=rf"unknown metric '{metric}'.*Known: accuracy.*direction=\"max\", direction=\"min\""):
        direction_of(metric)
    assert direction_of(metric, "max") == "max" and direction_of(metric, 0.5) == 0.5


@pytest.mark.parametrize("direction", ["higher", True, math.nan, math.inf, np.ones(1), [1.0]])
def test_what_is_no_direction_is_refused(direction) -> None:
    with pytest.raises(ValueError, match="direction must be 'max', 'min' or a finite number"):
        direction_of("f1", direction)


@pytest.mark.parametrize(("metric", "direction"), [("nll", "max"), ("accuracy", 1.0), ("coverage", "max"), ("coverage", 0.9)])
def test_a_contradiction_is_refused(metric, direction) -> None:
    with pytest.raises(ValueError, match=rf"direction={direction!r} contradicts '{metric}'.*by another name"):
        direction_of(metric, direction)


def test_a_direction_that_agrees_is_taken() -> None:
    assert direction_of("nll", "min") == "min" and direction_of("coverage", 0.95) == 0.95


def test_a_metric_is_a_name() -> None:
    with pytest.raises(TypeError, match=r"metric must be the name of one figure, got \['nll'\]"):
        direction_of(["nll"])
