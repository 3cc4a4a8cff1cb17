"""What boosted trees foresee: near the truth where it is made of steps, and comparable with what nets do."""

import numpy as np
import pytest
from scipy import stats

import bayesprune as bp
from bayesprune.sklearn import trees

KEPT = 1200


def stepped(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two columns, and a signal that jumps in the first."""
    x = rng.uniform(size=(KEPT + 600, 2))
    return x, 2.0 * (x[:, 0] > 0.3) - 1.0 * (x[:, 0] > 0.8)


@pytest.mark.parametrize("noise", [stats.norm(scale=0.3), stats.t(3, scale=0.3)], ids=["normal", "t"])
def test_of_numbers_it_is_nearly_the_density_they_were_drawn_from(noise) -> None:
    """By SciPy, a tenth of a nat below at most: trees fit their rows' noise a little."""
    rng = np.random.default_rng(0)
    x, signal = stepped(rng)
    missed = noise.rvs(len(x), random_state=rng)
    found = trees.foreseen(0, x[:KEPT], (signal + missed)[:KEPT], x[KEPT:], (signal + missed)[KEPT:])
    truth = noise.logpdf(missed[KEPT:]).mean()
    assert found.shape == (600,) and truth - 0.1 < found.mean() < truth + 0.02


def test_of_labels_it_is_nearly_their_probability() -> None:
    rng = np.random.default_rng(1)
    x, signal = stepped(rng)
    p = np.where(signal > 1.0, 0.9, 0.2)
    labels = (rng.uniform(size=len(x)) < p).astype(np.int32)
    found = trees.foreseen(0, x[:KEPT], labels[:KEPT], x[KEPT:], labels[KEPT:])
    truth = stats.bernoulli.logpmf(labels[KEPT:], p[KEPT:]).mean()
    assert truth - 0.05 < found.mean() < truth + 0.02


def test_a_class_that_was_not_shown_has_next_to_no_probability() -> None:
    x = np.arange(80.0)[:, None]
    found = trees.foreseen(0, x, np.repeat([0, 2], 40), np.array([[10.0], [70.0], [70.0]]), np.array([0, 1, 3]))
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
