"""A result's line: figures that NumPy counts too, and never an array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core import shown
from bayesprune.core.numbers import real_numbers
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
    history = {"prune/step": np.array([1, 2]), "prune/num_connected": np.array([3, 1]), "returned/step": np.array([2])}
    shown_of = repr(fit._replace(history=history, mask={"w": np.array([True, True, True, False])}))
    assert "25.0 % of 4 weights pruned, 75.0 % connected" in shown_of  # the act after step 2 was undone
    chains = fit._replace(losses=np.array([[2.0, 1.0], [3.0, 2.5]]), mask={}, history={})
    assert repr(chains) == "FitResult(2 chains of 2 steps, loss 1, loss 2.5)"
    assert repr(jax.eval_shape(lambda fit: fit, fit._replace(state=()))) == "FitResult(of arrays without values)"


def test_a_line_stays_short_however_large_the_arrays() -> None:
    big = {"w": np.ones((300, 300), bool)}
    fit = FitResult(big, None, np.ones(10_000, np.float32), big, {"prune/step": np.arange(5_000)})  # type: ignore[arg-type]
    info = bp.Info(jnp.ones(()), {"w": jnp.ones(())}, *[jnp.zeros(())] * 5)
    for result in (fit, bp.Pruned(big, big, info)):
        assert len(repr(result)) < 100 and "rray" not in repr(result)


def test_data_and_networks_are_one_line_without_arrays() -> None:
    train, _ = bp.data.load("digits")
    assert repr(train) == "Dataset(x (1438, 8, 8, 1) float32, y (1438,) int32)"
    assert repr(bp.Dataset({"ids": np.zeros((2, 3), int)}, None)) == "Dataset(x {ids: (2, 3) int64}, y NoneType)"
    net = bp.nets.MLP((16,), 10)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))
    assert repr(bnn).startswith("BNN(Gaussian(") and repr(bnn).endswith("outputs (10,), 1,210 parameters, 1,040 prunable)")
    assert len(repr(bnn)) < 160 and "\n" not in repr(bnn)


def test_a_share_reads_as_nothing_or_all_only_where_it_is() -> None:
    mask = {"w": np.arange(100_000) < 3}
    assert repr(FitResult({}, None, np.array([1.0, np.nan]), mask, {})) == (
        "FitResult(2 steps, loss nan, 99.997 % of 100,000 weights pruned)"
    )


def test_labels_of_text_have_their_own_remedy() -> None:
    with pytest.raises(TypeError, match=r"data.y must hold numbers, got dtype <U1: of labels .* np.unique"):
        real_numbers(np.array(["a", "b"]), "data.y")
