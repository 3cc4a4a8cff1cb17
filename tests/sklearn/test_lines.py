"""What ridge and logistic regression foresee: near the density that a linear world was drawn from."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.sklearn import lines, trees

KEPT = 1200


@pytest.mark.parametrize("noise", [stats.norm(scale=0.3), stats.t(3, scale=0.3)], ids=["normal", "t"])
def test_of_numbers_it_is_nearly_the_density_they_were_drawn_from(noise) -> None:
    rng = np.random.default_rng(0)
    x = 50.0 + rng.standard_normal((KEPT + 600, 3)) * [1.0, 1e3, 1e-3]
    missed = noise.rvs(len(x), random_state=rng)
    y = x[:, 0] + 1e-3 * x[:, 1] + missed
    found = lines.foreseen(0, x[:KEPT], y[:KEPT], x[KEPT:], y[KEPT:])
    truth = noise.logpdf(missed[KEPT:]).mean()
    assert found.shape == (600,) and truth - 0.02 < found.mean() < truth + 0.02


@pytest.mark.parametrize("classes", [2, 4])
def test_of_labels_it_is_nearly_their_probability(classes: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((KEPT + 600, 4))
    p = np.exp(x @ rng.standard_normal((4, classes)))
    p /= p.sum(axis=1, keepdims=True)
    labels = (rng.uniform(size=(len(x), 1)) > p.cumsum(axis=1)).sum(axis=1)
    found = lines.foreseen(0, x[:KEPT], labels[:KEPT], x[KEPT:], labels[KEPT:])
    truth = np.log(p[np.arange(KEPT, len(x)), labels[KEPT:]]).mean()
    assert truth - 0.03 < found.mean() < truth + 0.03


def test_it_says_of_steps_less_than_trees_do() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(KEPT + 600, 2))
    y = np.sign(np.sin(20 * x[:, 0])) + 0.1 * rng.standard_normal(len(x))
    given = x[:KEPT], y[:KEPT], x[KEPT:], y[KEPT:]
    assert lines.foreseen(0, *given).mean() < trees.foreseen(0, *given).mean() - 0.5


def test_a_fold_without_the_rare_class_is_foreseen_as_the_other() -> None:
    x = np.random.default_rng(0).standard_normal((20, 2))
    nats = lines.foreseen(0, x[:15], np.zeros(15, int), x[15:], np.array([0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(nats, np.log([1, 1, 1, 1, trees.LEAST]))
