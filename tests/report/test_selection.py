"""Selection rates against scikit-learn's confusion matrix; sparsity by counting."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from bayesprune.report import metrics


def test_rates_equal_those_of_the_confusion_matrix():
    rng = np.random.default_rng(0)
    selected, relevant = rng.random(50) < 0.4, rng.random(50) < 0.3
    tn, fp, fn, tp = confusion_matrix(relevant, selected).ravel()
    want = {"fpr": fp / (fp + tn), "fnr": fn / (fn + tp), "power": tp / (tp + fn), "fdr": fp / (fp + tp)}
    assert metrics.selection_summary(jnp.asarray(selected), relevant.astype(int)) == pytest.approx(want)


def test_undefined_rates_are_nan_and_an_empty_selection_discovers_nothing_false():
    everything = np.ones(4, bool)
    assert math.isnan(metrics.fpr(everything, everything))
    assert math.isnan(metrics.fnr(everything, ~everything))
    assert math.isnan(metrics.power(everything, ~everything))
    assert metrics.fdr(~everything, everything) == 0.0


def test_selection_door():
    with pytest.raises(ValueError, match="threshold"):
        metrics.fpr(np.array([0.2, 0.9]), np.array([True, False]))
    with pytest.raises(ValueError, match="same, not empty, shape"):
        metrics.fpr(np.array([True]), np.array([True, False]))


def test_sparsity_states_both_denominators_and_the_tensors():
    a, b = np.zeros((4, 5), bool), np.ones((3,), bool)
    a[0] = True
    got = metrics.sparsity_report({"b": jnp.asarray(b), "a": a}, {"head": 10, "bias": 2})
    assert got["prunable"] == {"num_alive": 8, "num_weights": 23, "density": 8 / 23, "sparsity": 1 - 8 / 23}
    assert got["all"] == {"num_alive": 20, "num_weights": 35, "density": 20 / 35, "sparsity": 1 - 20 / 35}
    assert got["per_site"]["a"] == {"num_alive": 5, "num_weights": 20, "density": 0.25, "sparsity": 0.75}
    assert (got["prunable_sites"], got["dense_sites"]) == (["a", "b"], ["bias", "head"])


def test_sparsity_of_nothing_is_undefined():
    assert math.isnan(metrics.sparsity_report({})["prunable"]["density"])


def test_connected_weights_are_counted_apart():
    mask = {"a": np.array([[True, True], [False, True]]), "b": np.array([True, False])}
    used = {"a": np.array([[True, False], [False, False]]), "b": np.array([True, False])}
    got = metrics.sparsity_report(mask, {"head": 4}, used)
    assert {name: got[name] for name in got if name != "connected"} == metrics.sparsity_report(mask, {"head": 4})
    assert got["connected"]["prunable"] == {"num_alive": 2, "num_weights": 6, "density": 2 / 6, "sparsity": 1 - 2 / 6}
    assert got["connected"]["per_site"]["a"]["num_alive"] == 1
    for bad in ({"a": ~mask["a"], "b": used["b"]}, {"b": used["b"]}, used | {"c": mask["b"]}, used | {"b": mask["a"]}):
        with pytest.raises(ValueError, match=r"connected\['[abc]'\] is no part of mask"):
            metrics.sparsity_report(mask, {}, bad)


def test_sparsity_door():
    with pytest.raises(ValueError, match=r"\['a'\] are in mask and in dense_sizes"):
        metrics.sparsity_report({"a": np.ones(2, bool)}, {"a": 2})
    with pytest.raises(ValueError, match=r"dense_sizes\['b'\]"):
        metrics.sparsity_report({}, {"b": -1})
    with pytest.raises(ValueError, match=r"mask\['a'\] must be boolean"):
        metrics.sparsity_report({"a": np.array([0.5])})
