"""Checks of plain arrays: each finds its illness, is silent without it, and says nothing by chance."""

import numpy as np
import pytest

from bayesprune.report.health import Finding, Health, checked, of_draws, of_fit, of_labels, of_numbers

RNG = np.random.default_rng(0)
N = 400


def names(health: Health) -> list[str]:
    return [one.name for one in health.findings]


def numbers(slope=1.0, noise=0.5, said=0.5, spread=0.0, rng=RNG):
    """Targets around ``slope`` times a prediction, with a noise that is ``said`` to be another."""
    mean = rng.normal(size=N)
    y = slope * mean + noise * rng.normal(size=N)
    return of_numbers(mean, np.full(N, said), np.full(N, spread), y, True)


@pytest.mark.parametrize(
    ("health", "found"),
    [
        (numbers(), []),
        (numbers(said=0.02), ["noise"]),
        (numbers(said=2.0), ["noise"]),
        (numbers(slope=2.0, said=1.1), ["signal"]),
        (numbers(said=0.25), ["calibration"]),
        (numbers(said=0.4, spread=0.3), []),  # spread makes up for the noise
        (of_draws(np.ones((5, 3, 2))), ["one point"]),
        (of_draws(RNG.normal(size=(5, 3, 2))), []),
        (of_fit(np.ones(5), {"a_auto_loc": np.array([0.0, np.nan])}, {}), ["not finite"]),
        (of_fit(np.ones(5), {"a$prior_scale": np.array(np.inf), "a_logit": np.array([np.inf])}, {}), []),  # improper; certain
        (of_fit(np.ones(5), {}, {"w": np.zeros((2, 2), bool), "b": np.zeros(2, bool)}), ["dead layer"]),
        (of_fit(np.ones(5), {}, {"w": np.eye(2, dtype=bool), "b": np.zeros(2, bool)}), []),
        (of_fit(np.linspace(900, 400, 1000), {}, {}, 1000.0, 100), ["end of training"]),
        (of_fit(np.full(1000, 900.0), {}, {}, 500.0, 100), ["end of training"]),
        (of_fit(np.ones(5), {}, {"attention.key.bias": np.zeros((2, 2), bool)}), []),
        (of_fit(np.ones((2, 0)), {}, {}), []),
    ],
)
def test_each_illness_is_found_and_nothing_else(health, found):
    assert names(health) == found


def test_labels_that_are_as_sure_as_they_are_right_are_sound():
    """Drawn from their own probabilities: off by four standard errors once in 16,000 fits. Sharpened ones are found."""
    probs = RNG.dirichlet([0.6] * 3, size=N)
    y = np.array([RNG.choice(3, p=p) for p in probs])
    assert "calibration" not in names(of_labels(probs, y, True))
    sharp = probs**4 / (probs**4).sum(axis=1, keepdims=True)
    flat = probs**0.25 / (probs**0.25).sum(axis=1, keepdims=True)
    assert "more sure" in of_labels(sharp, y, True).findings[0].says
    assert "less sure" in of_labels(flat, y, True).findings[0].says


def test_wrong_labels_are_found_by_row():
    probs, y = np.tile([0.97, 0.01, 0.01, 0.01], (N, 1)), np.zeros(N, int)
    y[[7, 30, *range(50, 80)]] = 2
    found = {one.name: one.says for one in of_labels(probs, y, False).findings}
    assert "rows 7, 30, 50 ..." in found["labels"] and "8% of the training labels" in found["labels"]


@pytest.mark.slow
def test_sound_numbers_are_silent():
    """2,000 sets, three checks: each errs by chance at most once in 16,000, so that three errors come once in 200 runs."""
    rng = np.random.default_rng(1)
    assert sum(len(numbers(rng=rng).findings) for _ in range(2000)) <= 2


def test_findings_add_up_and_print_as_lines():
    both = checked("a", "is ill; rest.") + checked("b", "")
    assert both == Health((Finding("a", "is ill; rest."),), ("a", "b")) and not both.is_sound
    assert str(both) == "1 finding of 2 checks\na: is ill; rest." and repr(both) == "Health(1 finding of 2 checks: a)"
    assert str(checked("b", "")) == "no findings of 1 checks"
