"""Scores and updates by a layer's inputs, against least squares."""

import numpy as np

from bayesprune.formulas.layer_inputs import best_without, damped, sparse_gpt, wanda


def problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5))
    return x, rng.normal(size=(5, 3))


def loss(x, delta, change) -> np.ndarray:
    """Of each output."""
    return ((x @ change) ** 2).sum(0) + delta * (change**2).sum(0)


def test_26_1_squared_is_what_zeroing_alone_changes() -> None:
    """(26.1)"""
    x, w = problem()
    for i in range(5):
        change = np.zeros_like(w)
        change[i] = -w[i]
        np.testing.assert_allclose(wanda(x.T @ x, w)[i] ** 2, loss(x, 0.0, change), rtol=1e-10)


def test_26_2_and_26_3_are_least_squares_without_the_dead() -> None:
    """(26.2) and (26.3), by what is left: rows of X and of the damping, solved by NumPy."""
    x, w = problem()
    delta = 0.3
    p = x.T @ x + delta * np.eye(5)
    stacked = np.concatenate([x, np.sqrt(delta) * np.eye(5)])
    scores = sparse_gpt(p, w)
    for i in range(5):
        alive = np.ones((5, 3), bool)
        alive[i] = False
        found = best_without(p, w, alive)
        rest = np.arange(5) != i
        expected = np.linalg.lstsq(stacked[:, rest], stacked @ w, rcond=None)[0]
        np.testing.assert_allclose(found[rest], expected, rtol=1e-8)
        np.testing.assert_allclose(scores[i], loss(x, delta, found - w), rtol=1e-8)
    alive = np.random.default_rng(1).random((5, 3)) < 0.5
    found = best_without(p, w, alive)
    for j in range(3):
        expected = np.linalg.lstsq(stacked[:, alive[:, j]], stacked @ w[:, j], rcond=None)[0]
        np.testing.assert_allclose(found[alive[:, j], j], expected, rtol=1e-8)
        assert not found[~alive[:, j], j].any()


def test_inputs_that_are_always_zero_have_a_precision() -> None:
    assert (np.diag(damped(np.zeros((2, 2)), 0.1)) == 1.0).all()
    np.testing.assert_allclose(damped(np.diag([1.0, 3.0]), 0.5), np.diag([2.0, 4.0]))
