"""Networks that are no chain: which kernels read the inputs, and what is refused by name."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import bayesprune as bp
from bayesprune.features import importance, inclusion_probabilities, selected

SETTINGS = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Normal(1.0), "prunable": bp.select.everything}


class Net(nn.Module):
    """A function of x that makes its layers."""

    function: object

    @nn.compact
    def __call__(self, x):
        return self.function(x)


def dense(name, units=3):
    return nn.Dense(units, name=name)


def layout_of(function, input_shape=(3,), **given):
    given = given or {"input_shape": input_shape}
    return bp.BNN(Net(function), **SETTINGS, **given).layout


def ones(layout, **changed):
    kernels = {str(spec.path): jnp.ones(spec.shape) for spec in layout if spec.inputs}
    return kernels | {f"{name}.kernel": jnp.asarray(value) for name, value in changed.items()}


def two(x):
    return dense("out", 1)(jnp.tanh(dense("a")(x)) + jnp.tanh(dense("b")(x)))


def attention(x):
    return dense("out", 1)(nn.MultiHeadDotProductAttention(1, use_bias=False, name="att")(x).mean(1))


@pytest.fixture(scope="module")
def branches():
    return layout_of(two)


@pytest.fixture(scope="module")
def attending():
    return layout_of(attention, (5, 3))


def test_every_kernel_that_reads_the_inputs_counts(branches):
    """Against all states of the gates of both branches."""
    p = dict(zip("ab", np.random.default_rng(0).uniform(0, 0.4, size=(2, 3, 3)), strict=True))
    nodes = ones(branches, **p)
    both = np.concatenate([p["a"], p["b"]], axis=1)
    states = np.array(list(itertools.product((False, True), repeat=6))[1:])
    used = [np.where(states, row, 1 - row).prod(axis=1).sum() for row in both]
    np.testing.assert_allclose(inclusion_probabilities(nodes, layout=branches), used, rtol=1e-5)
    np.testing.assert_array_equal(selected(nodes, "union", layout=branches), np.array(used) > 0.5)
    first, last = np.zeros((3, 3)), np.zeros((3, 3))
    first[0], last[2] = 1.0, 1.0
    assert selected(ones(branches, a=first, b=last), layout=branches).tolist() == [True, False, True]


def test_queries_keys_and_values_all_read_the_inputs(attending):
    nodes = ones(attending)
    for place, name in enumerate(("query", "key", "value")):
        nodes[f"att.{name}.kernel"] = jnp.zeros((3, 1, 3)).at[place, 0, place].set(0.25 * (place + 1))
    np.testing.assert_allclose(inclusion_probabilities(nodes, layout=attending), [0.25, 0.5, 0.75], rtol=1e-5)
    assert selected(nodes, layout=attending).tolist() == [False, False, True]


def test_a_network_that_is_no_chain_has_no_importance_by_paths(branches, attending):
    with pytest.raises(ValueError, match=r"b\.kernel reads the inputs, not a\.kernel alone.*Ask inclusion_probabilities"):
        importance(ones(branches), layout=branches)
    with pytest.raises(ValueError, match=r"att\.key\.kernel reads the inputs, not att\.query\.kernel alone"):
        importance(ones(attending), layout=attending)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: dense("b")(x + dense("a")(x)), r"b\.kernel reads the inputs and a\.kernel, not a\.kernel alone"),
        (lambda x: x + dense("b")(dense("a")(x)), r"the outputs get the inputs also past"),
        (lambda x: (lambda h: h + dense("b")(jnp.tanh(h)))(dense("a")(x)), r"the outputs get a\.kernel also past"),
        (lambda x: dense("b")(dense("a")(x)[:, ::-1]), r"b\.kernel reads a\.kernel \(left out, joined or reordered"),
        (lambda x: dense("b")(dense("a")(x[:, ::-1])), r"a\.kernel reads the inputs \(left out, joined"),
        (lambda x: (lambda layer: dense("b")(layer(layer(x))))(dense("a")), r"a\.kernel reads the inputs and a\.kernel"),
    ],
)
def test_shortcuts_orders_and_layers_used_twice_are_refused(function, message):
    layout = layout_of(function)
    with pytest.raises(ValueError, match=message):
        importance(ones(layout), layout=layout)


def test_a_chain_stays_one_with_norms_activations_and_rows_in_another_shape():
    def chain(x):
        x = nn.gelu(nn.LayerNorm()(dense("a")((x.reshape(len(x), -1) - 2.0) / 3.0)))
        return dense("out", 2)(nn.BatchNorm(use_running_average=True)(x))

    layout = layout_of(chain, (3, 2))
    p = np.random.default_rng(1).uniform(size=(6, 3))
    found = importance(ones(layout, a=p), layout=layout)
    np.testing.assert_allclose(found.log_raw, importance([p]).log_raw, rtol=1e-5)  # a last layer of ones may be missing
    np.testing.assert_allclose(importance({"a.kernel": p}, layout=layout).log_raw, found.log_raw, rtol=1e-5)


def test_a_missing_kernel_beside_the_given_ones_is_named(branches):
    nodes = ones(branches)
    del nodes["b.kernel"]
    with pytest.raises(ValueError, match=r"lacks \['b\.kernel'\], which read the inputs too"):
        selected(nodes, layout=branches)
    with pytest.raises(ValueError, match=r"b\.kernel, which posterior lacks, reads the inputs too"):
        importance({"a.kernel": nodes["a.kernel"]}, layout=branches)


def test_kernels_that_read_parts_of_the_inputs_are_refused():
    halves = layout_of(lambda x: dense("out", 1)(dense("a")(x[:, :3]) + dense("b")(x[:, 3:])), (6,))
    with pytest.raises(ValueError, match=r"a\.kernel reads the inputs \(left out.*not one input each"):
        inclusion_probabilities(ones(halves), layout=halves)
    rows = {"one": np.zeros((1, 3)), "other": np.zeros((1, 3))}
    trees = layout_of(lambda x: dense("out", 1)(dense("a")(x["one"]) + dense("b")(x["other"])), example=rows)
    with pytest.raises(ValueError, match="read different arrays of inputs"):
        inclusion_probabilities(ones(trees), layout=trees)
    widths = layout_of(lambda x: dense("a")(x).reshape(len(x), -1) + dense("b", 15)(x.reshape(len(x), -1)), (5, 3))
    with pytest.raises(ValueError, match="have different numbers of them"):
        inclusion_probabilities(ones(widths), layout=widths)


def test_what_is_not_followed_is_said():
    layout = layout_of(lambda x: dense("out", 1)(nn.RNN(nn.SimpleCell(3))(x)[:, -1]), (4000, 3))
    with pytest.raises(ValueError, match=r"SimpleCell_0.*not followed \(see bnn\.graph\.unfollowed\)"):
        selected(ones(layout), layout=layout)


def test_shapes_other_than_the_layouts_are_refused():
    net = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
    layout = bp.BNN(net, **SETTINGS, input_shape=(3,)).layout
    with pytest.raises(ValueError, match=r"layers\.0\.weight has the shape \(3, 4\), and layout has \(4, 3\)"):
        importance({"layers.0.weight": np.ones((3, 4))}, layout=layout)
