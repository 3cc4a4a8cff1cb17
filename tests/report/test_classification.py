"""Accuracy, NLL and Brier score against scikit-learn, and the door."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from bayesprune.report import metrics


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(5, 0.7), 400), rng.integers(0, 5, 400)


def test_scores_equal_scikit_learn(sample):
    probs, y = sample
    assert metrics.accuracy(probs, y) == pytest.approx(accuracy_score(y, probs.argmax(1)))
    assert metrics.nll(probs, y) == pytest.approx(log_loss(y, probs, labels=range(5)), rel=1e-12)
    assert metrics.brier(probs, y) == pytest.approx(brier_score_loss(y, probs, labels=range(5), scale_by_half=False), rel=1e-12)


def test_summary_has_the_four_scores_as_plain_floats(sample):
    probs, y = sample
    got = metrics.summary(probs, y)
    assert list(got) == ["accuracy", "nll", "ece", "brier"]
    assert all(type(v) is float for v in got.values())
    assert got == {name: getattr(metrics, name)(probs, y) for name in got}


def test_jax_arrays_bfloat16_and_booleans_are_taken(sample):
    probs, y = sample
    p32 = probs.astype(np.float32)
    assert metrics.summary(jnp.asarray(p32), jnp.asarray(y)) == metrics.summary(p32, y)
    exact = jnp.asarray([[0.25, 0.75], [0.5, 0.5]], jnp.bfloat16)
    assert metrics.brier(exact, np.array([True, False])) == pytest.approx((2 * 0.25**2 + 2 * 0.5**2) / 2)


def test_a_vector_is_the_probability_of_class_one():
    p, y = np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0])
    assert metrics.nll(p, y) == pytest.approx(log_loss(y, p), rel=1e-12)
    assert metrics.brier(p, y) == pytest.approx(2 * brier_score_loss(y, p), rel=1e-12)


def test_an_impossible_row_costs_the_documented_amount_and_stays_finite():
    assert metrics.nll(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(126 * np.log(2))


@pytest.mark.parametrize(
    ("probs", "y", "message"),
    [
        ([[0.5, 0.6]], [0], "row 0 sums to 1.1.*divide"),
        ([[3.0, -2.0]], [0], r"lie in \[0, 1\].*softmax"),
        ([[np.nan, 1.0]], [0], r"probs must be finite, got nan at index \(0, 0\)"),
        ([[0.5, 0.5]], [2], "0 .. 1 for 2 classes.*count classes from 0"),
        ([[0.5, 0.5]], [-1], "from -1 to -1"),
        ([[0.5, 0.5]], [0.5], "whole numbers"),
        ([[0.5, 0.5]], [np.nan], "y must be finite"),
        ([[0.5, 0.5]], [0, 1], r"shape \(1,\)"),
        ([[0.5, 0.5]], [[0, 1]], "argmax"),
        ([[1.0]], [0], "two classes"),
        ([[[0.5, 0.5]]], [0], "average draws"),
        (np.zeros((0, 2)), np.zeros(0), "at least one row"),
    ],
)
@pytest.mark.parametrize("score", ["summary", "accuracy", "nll", "brier", "ece", "ece_quantile", "calibration_marginal"])
def test_every_score_refuses_bad_input_with_a_remedy(score, probs, y, message):
    with pytest.raises(ValueError, match=message):
        getattr(metrics, score)(np.asarray(probs), np.asarray(y))


def test_text_is_refused():
    with pytest.raises(TypeError, match="real numbers"):
        metrics.accuracy(np.array([["a", "b"]]), np.array([0]))


def test_float32_softmax_rows_pass_the_door():
    logits = jax.random.normal(jax.random.key(0), (50, 1000)) * 10
    draws = jax.nn.softmax(jnp.stack([logits, -logits, 2 * logits]), axis=-1)
    assert 0 <= metrics.accuracy(draws.mean(0), np.zeros(50, int)) <= 1


def test_tokens_count_as_rows() -> None:
    probs, y = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 2)), np.arange(10).reshape(5, 2) % 3
    assert metrics.summary(probs, y) == metrics.summary(probs.reshape(10, 3), y.ravel())
    with pytest.raises(ValueError, match=r"y must have shape \(5, 2\), one label for each of probs \(5, 2, 3\), got \(5,\)"):
        metrics.accuracy(probs, y[:, 0])
