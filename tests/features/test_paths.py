"""Connection weights, (6.3), against an enumeration of every path."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.features import importance
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab


def random_layers(seed, widths):
    rng = np.random.default_rng(seed)
    return [rng.uniform(size=shape) for shape in itertools.pairwise(widths)]


def psi_by_paths(layers):
    """(6.3) path by path: the mean over all paths from an input of the product of the probabilities on the way."""
    widths = [layers[0].shape[0], *(layer.shape[1] for layer in layers)]
    psi = []
    for start in range(widths[0]):
        products = []
        for rest in itertools.product(*(range(width) for width in widths[1:])):
            path = (start, *rest)
            products.append(
                math.prod(float(layer[a, b]) for layer, (a, b) in zip(layers, itertools.pairwise(path), strict=True))
            )
        psi.append(sum(products) / len(products))
    return np.array(psi)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("widths", [(3, 1), (4, 3), (5, 4, 1), (3, 4, 2, 3), (2, 3, 2, 2, 1)])
def test_psi_is_the_average_over_paths(widths):
    layers = random_layers(0, widths)
    psi = psi_by_paths(layers)
    found = importance([jnp.asarray(layer) for layer in layers])
    np.testing.assert_allclose(np.exp(found.log_raw), psi, rtol=1e-5)
    np.testing.assert_allclose(found.scaled, (psi - psi.min()) / (psi.max() - psi.min()), atol=2e-6)


@pytest.mark.slow
def test_psi_with_one_output_is_the_papers_matrix_product():
    first, second, third = random_layers(1, (6, 5, 4, 1))
    psi = (third.T @ second.T @ first.T).ravel() / (5 * 4)  # (outputs, inputs) matrices, (6.3)
    np.testing.assert_allclose(np.exp(importance([first, second, third]).log_raw), psi, rtol=1e-5)


@pytest.mark.slow
def test_a_last_layer_that_is_never_pruned_may_be_missing():
    layers = random_layers(2, (4, 5, 3))
    short, whole = importance(layers), importance([*layers, np.ones((3, 2))])
    np.testing.assert_allclose(short.log_raw, whole.log_raw, rtol=1e-6)


@pytest.mark.slow
def test_all_kinds_of_posterior_read_alike():
    mask = {"a": np.random.default_rng(0).random((4, 3)) < 0.5, "b": np.array([[True], [False], [True]])}
    logits = {site: jnp.where(alive, 40.0, -200.0) for site, alive in mask.items()}
    slab = {site: SpikeSlab(jnp.zeros(v.shape), jnp.ones(v.shape), v) for site, v in logits.items()}
    normal = {site: MeanField(jnp.zeros(v.shape), jnp.ones(v.shape)) for site, v in mask.items()}
    with_bias = {"a": normal["a"], "a.bias": MeanField(jnp.zeros(3), jnp.ones(3)), "b": normal["b"]}
    psi = psi_by_paths([mask["a"], mask["b"]])
    for found in (importance(slab), importance(normal, mask), importance(with_bias, mask), importance(mask)):
        np.testing.assert_allclose(np.exp(found.log_raw), psi, atol=1e-6)
    masked = importance({"a": np.full((4, 3), 0.5), "b": np.full((3, 1), 0.5)}, mask)
    np.testing.assert_allclose(np.exp(masked.log_raw), psi / 4, atol=1e-6)


def test_deep_products_do_not_underflow():
    # 60 layers of p near e^-20: psi is e^-1200, far below what float32, or float64, can hold.
    rng = np.random.default_rng(0)
    logits = [-20 + rng.normal(size=(5, 5)) for _ in range(60)]
    nodes = [SpikeSlab(jnp.zeros((5, 5)), jnp.ones((5, 5)), jnp.asarray(logit)) for logit in logits]
    found = importance(nodes)
    reach, log_scale = np.ones(5), 0.0
    for logit in reversed(logits):
        reach = (1 / (1 + np.exp(-logit))) @ reach / 5
        log_scale += math.log(reach.max())
        reach = reach / reach.max()
    np.testing.assert_allclose(found.log_raw, np.log(reach) + log_scale, rtol=1e-5)
    np.testing.assert_allclose(found.scaled, (reach - reach.min()) / (reach.max() - reach.min()), atol=2e-3)
    assert found.log_raw.max() < -1000


def test_a_small_path_is_not_lost_beside_a_large_one():
    # The second input reaches the output through a unit 10^-40 times as probable as the first's.
    log_small = -40 * math.log(10)
    first = SpikeSlab(jnp.zeros((2, 2)), jnp.ones((2, 2)), jnp.array([[0.0, -jnp.inf], [-jnp.inf, 0.0]]))
    last = SpikeSlab(jnp.zeros((2, 1)), jnp.ones((2, 1)), jnp.array([[0.0], [log_small]]))
    log_raw = importance([first, last]).log_raw
    # sigmoid(0) = 1/2 twice on the first path; on the second sigmoid(z) = e^z.
    np.testing.assert_allclose(log_raw, [-math.log(8), -math.log(4) + log_small], rtol=1e-6)


def test_equal_inputs_and_dead_inputs():
    assert importance([np.full((3, 2), 0.3)]).scaled.tolist() == [0, 0, 0]
    assert importance([np.zeros((3, 2))]).scaled.tolist() == [0, 0, 0]
    dead = importance([np.array([[0.0], [0.5], [1.0]])])
    assert dead.scaled.tolist() == [0.0, 0.5, 1.0] and dead.log_raw[0] == -math.inf


def test_it_jits():
    layers = [jnp.asarray(layer) for layer in random_layers(3, (4, 3, 1))]
    np.testing.assert_allclose(jax.jit(importance)(layers).scaled, importance(layers).scaled, rtol=1e-5, atol=1e-6)


def test_dict_order_is_the_networks_and_sorted_names_are_refused():
    layers = random_layers(4, (3, 3, 3))
    one = importance({"z": layers[0], "a": layers[1]})
    np.testing.assert_allclose(one.log_raw, importance(layers).log_raw)
    names = [f"Dense_{i}.kernel" for i in range(12)]
    deep = dict(zip(names, random_layers(5, [2] * 13), strict=True))
    importance(deep)
    with pytest.raises(ValueError, match=r"'Dense_10\.kernel' before 'Dense_2\.kernel'|'Dense_11\.kernel' before"):
        importance(jax.tree.map(jnp.asarray, deep))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: importance([np.ones((2, 3)), np.ones((4, 1))]), "layer 0 has 3 outputs and layer 1 has 4 inputs"),
        (lambda: importance([np.ones((2, 2, 2, 2))]), "only dense layers"),
        (lambda: importance([np.ones(3)]), "at least one kernel"),
        (lambda: importance([np.array([[1.5]])]), r"\[0, 1\]"),
        (lambda: importance([np.array([[np.nan]])]), r"\[0, 1\]"),
        (lambda: importance({"a": MeanField(jnp.ones((2, 1)), jnp.ones((2, 1)))}), "pass mask"),
        (lambda: importance({"a": np.ones((2, 1))}, {"b": np.ones((2, 1), bool)}), r"lacks \['a'\]"),
        (lambda: importance({"a": np.ones((2, 1))}, {"a": np.ones((1, 2), bool)}), "mask of a must have the shape"),
        (lambda: importance(3.0), "flat dict"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
