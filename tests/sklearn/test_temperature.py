"""Probabilities of a classifier are divided by one temperature, (21.31), that rows which it has not seen speak for."""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import bayesprune as bp
from bayesprune.sklearn import temperature
from tests.sklearn.problems import NET

RNG = np.random.default_rng(0)
SETTINGS = {name: value for name, value in NET.items() if name != "hidden"} | {"held_out": 0.3}


def doubted(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which three in ten are wrong: a net that is fitted to few of them is too sure."""
    x = np.random.default_rng(1).standard_normal((rows, 6))
    return x, (x[:, 0] > 0) ^ (np.random.default_rng(2).random(rows) < 0.3)


@pytest.mark.parametrize("rows", [40, 1500])
def test_it_is_the_highest_of_a_grid(rows: int) -> None:
    """(21.31) written with logits, on a grid of log T that is a hundredth wide."""
    logits = 3.0 * RNG.standard_normal((7, rows, 3))
    labels = RNG.integers(0, 3, rows)
    grid = np.arange(-2.0, 2.0, 0.01)

    def objective(log_t: float) -> float:
        log_p = logits / np.exp(log_t) - logsumexp(logits / np.exp(log_t), axis=2, keepdims=True)
        own = logsumexp(log_p[:, np.arange(rows), labels], axis=0) - np.log(7)
        return float(own.sum() - log_t**2 / (2 * 0.3**2))

    best = grid[np.argmax([objective(log_t) for log_t in grid])]
    assert abs(np.log(temperature.temperature_of(softmax(logits, axis=2), labels)) - best) < 0.011


@pytest.mark.parametrize("true", [0.5, 1.0, 2.5])
def test_a_known_temperature_is_found(true: float) -> None:
    """Labels drawn from softmax(f / T): of twenty draws of 2,000 rows the farthest was 6 % off, and a tenth is allowed."""
    logits = 2.0 * RNG.standard_normal((1, 2000, 4))
    labels = np.array([RNG.choice(4, p=p) for p in softmax(logits[0] / true, axis=1)])
    np.testing.assert_allclose(temperature.temperature_of(softmax(logits, axis=2), labels), true, rtol=0.1)


def test_no_probability_is_too_small() -> None:
    """What float32 rounds to zero, of a label that came, moves T, and leaves all finite."""
    draws = np.zeros((2, 30, 2), np.float32) + np.array([1.0, 0.0], np.float32)
    found = temperature.temperature_of(draws, np.r_[np.zeros(28, int), 1, 1])
    assert 1.0 < found < np.inf and np.isfinite(temperature.tempered(draws, found)).all()


@pytest.mark.slow
@pytest.mark.slow_cases(1)
@pytest.mark.parametrize(("form", "hidden"), [("plain", ()), ("steps", (4, 3)), ("plain", (4,)), ("wide", (4,))])
def test_the_network_itself_has_the_tempered_probabilities(form: str, hidden: tuple[int, ...]) -> None:
    """Its last layers are divided: drawn with the same key, the network before gives them by its probabilities' powers."""
    x, y = doubted()
    model = bp.BayesianSparseClassifier(**SETTINGS, form=form, hidden=hidden).fit(x, y)
    assert model.temperature_ != 1.0
    before = temperature.cool(model.bnn_, model.params_, 1 / model.temperature_)
    key, inputs = jax.random.key(5), model.inputs_of(x)
    draws = {
        name: np.asarray(bp.predict_draws(key, model.bnn_, p, inputs, mask=model.mask_, num_samples=20))
        for name, p in (("before", before), ("after", model.params_))
    }
    np.testing.assert_allclose(draws["after"].mean(0), temperature.tempered(draws["before"], model.temperature_), atol=2e-5)
    assert np.abs(draws["after"] - draws["before"]).max() > 1e-3


@pytest.mark.slow
def test_where_nothing_is_held_out_or_classes_are_weighed_there_is_none() -> None:
    x, y = doubted()
    plain = bp.BayesianSparseClassifier(**SETTINGS | {"held_out": 0.0}, hidden=(4,)).fit(x, y)
    weights = bp.likelihoods.Categorical(class_weights=(1.0, 5.0))
    weighed = bp.BayesianSparseClassifier(**SETTINGS, hidden=(4,), likelihood=weights).fit(x, y)
    assert plain.temperature_ == weighed.temperature_ == 1.0


@pytest.mark.every
@pytest.mark.slow
def test_a_net_that_is_too_sure_is_less_so() -> None:
    """Of labels that are coins, on 2,000 new rows, whose mean log density has a standard error of .02 nats: .13 nats better."""
    rng = np.random.default_rng(2)  # its own: the rows are the same whichever tests run before
    x, y = rng.standard_normal((160, 20)), rng.integers(0, 2, 160)
    new, coins = rng.standard_normal((2000, 20)), rng.integers(0, 2, 2000)
    sure = SETTINGS | {"num_steps": 800, "hidden": (20,)}
    with pytest.warns(UserWarning, match="held-out rows are predicted worse than without X"):
        plain, calibrated = (bp.BayesianSparseClassifier(**sure | {"held_out": share}).fit(x, y) for share in (0.0, 0.3))
    assert calibrated.temperature_ > 1.2
    assert calibrated.log_density(new, coins).mean() > plain.log_density(new, coins).mean() + 0.08
