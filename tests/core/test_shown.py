"""A result's line: figures that NumPy counts too, and never an array."""

import jax
import jax.numpy as jnp
import numpy as np

import bayesprune as bp
from bayesprune.core import shown
from bayesprune.train.result import FitResult


def test_figures_without_a_value_are_left_out() -> None:
    assert shown.number("a", None) == shown.number("a", np.nan) == shown.number("a", np.ones(2)) == ""
    assert shown.number("a", jnp.float32(2)) == shown.number("a", np.full(1, 2)) == "a 2"
    assert shown.share_pruned({}) == shown.share_pruned({"w": jax.ShapeDtypeStruct((2,), bool)}) == ""
    assert shown.last({}, "eval") == "" and shown.line("Kind", "", "") == "Kind()"


def test_a_pruned_posterior_shows_its_share() -> None:
    params = {"w_auto_loc": jnp.array([0.1, 0.0, -0.1, 3.0]), "w_auto_scale": jnp.array([0.5, 0.5, 0.5, 0.1])}
    prune = lambda params: bp.bmr_prune(params, prior_scale=1.0)  # noqa: E731
    pruned = prune(params)
    gained = sum(np.log(1 / 0.5) - (loc / 0.5) ** 2 / 2 for loc in (0.1, 0.0, -0.1))
    assert repr(pruned) == f"Pruned(75.0 % of 4 weights pruned, evidence gained {gained:.4g})"
    assert repr(jax.eval_shape(prune, params)) == "Pruned()"


def test_a_fit_shows_how_far_it_came() -> None:
    history = {"eval/step": np.array([2, 4]), "eval/nll": np.array([0.5, 0.25]), "returned/step": np.array([4])}
    mask = {"w": jnp.array([[True, False], [False, False]])}
    fit = FitResult({}, None, np.array([9.0, 8.0, 7.0, 1234.567], np.float32), mask, history)  # type: ignore[arg-type]
    assert repr(fit) == "FitResult(4 steps, loss 1235, 75.0 % of 4 weights pruned, at step 4: nll 0.25)"
    assert "4 steps, returned as of step 2, loss" in repr(fit._replace(history={"returned/step": np.array([2])}))
    chains = fit._replace(losses=np.array([[2.0, 1.0], [3.0, 2.5]]), mask={}, history={})
    assert repr(chains) == "FitResult(2 chains of 2 steps, loss 1, loss 2.5)"
    assert repr(jax.eval_shape(lambda fit: fit, fit._replace(state=()))) == "FitResult(of arrays without values)"


def test_a_line_stays_short_however_large_the_arrays() -> None:
    big = {"w": np.ones((300, 300), bool)}
    fit = FitResult(big, None, np.ones(10_000, np.float32), big, {"prune/step": np.arange(5_000)})  # type: ignore[arg-type]
    info = bp.Info(jnp.ones(()), {"w": jnp.ones(())}, *[jnp.zeros(())] * 5)
    for result in (fit, bp.Pruned(big, big, info)):
        assert len(repr(result)) < 100 and "rray" not in repr(result)
