import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.features import importance, inclusion_probabilities, selected
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab


def node(logits):
    logits = jnp.asarray(logits)
    return SpikeSlab(jnp.zeros(logits.shape), jnp.ones(logits.shape), logits)


def test_inclusion_is_the_sum_over_all_states_of_the_gates():
    p = np.random.default_rng(0).uniform(size=(3, 4))
    for row, found in zip(p, inclusion_probabilities([p, np.ones((4, 1))]), strict=True):
        used = sum(
            np.prod([v if on else 1 - v for v, on in zip(row, state, strict=True)])
            for state in itertools.product((False, True), repeat=4)
            if any(state)
        )
        assert float(found) == pytest.approx(used, rel=1e-5)


def test_many_tiny_gates_add_up_and_a_sure_one_is_one():
    logits = np.full((3, 1000), -25.0)
    logits[1, 7] = 80.0
    logits[2] = -460.0  # a logit of log 1e-200, as spike-and-slab priors have it
    found = inclusion_probabilities({"first": node(logits)})
    np.testing.assert_allclose(found[0], 1000 * np.exp(-25.0), rtol=1e-4)
    assert found[1] == 1.0 and found[2] == 0.0


def test_selected_is_any_gate_above_one_half():
    rng = np.random.default_rng(1)
    logits = rng.normal(-2, 2, size=(200, 3))
    logits[0] = 0.0  # exactly one half is not above it
    wanted = (1 / (1 + np.exp(-logits)) > 0.5).any(axis=1)
    assert selected([node(logits)]).tolist() == wanted.tolist()
    assert 0 < wanted.sum() < 200 and not wanted[0]


def test_the_union_rule_never_selects_fewer():
    p = np.random.default_rng(2).uniform(0, 0.6, size=(200, 3))
    median, union = selected([p]), selected([p], "union")
    np.testing.assert_array_equal(union, 1 - np.prod(1 - p, axis=1) > 0.5)
    assert not (np.asarray(median) & ~np.asarray(union)).any() and union.sum() > median.sum()


def test_a_mask_selects_the_inputs_with_a_living_edge():
    mask = np.random.default_rng(3).random((50, 4)) < 0.2
    normal = {"first": MeanField(jnp.ones(mask.shape), jnp.ones(mask.shape))}
    for rule in ("median", "union"):
        np.testing.assert_array_equal(selected(normal, rule, mask={"first": mask}), mask.any(axis=1))
    np.testing.assert_array_equal(inclusion_probabilities(normal, {"first": mask}), mask.any(axis=1).astype(float))
    sure = [node(np.full(mask.shape, 9.0))]
    np.testing.assert_array_equal(selected(sure, mask=[mask]), mask.any(axis=1))


def test_fractions_are_no_mask():
    with pytest.raises(ValueError, match=r"mask of layer 0 must be boolean.*p > 0\.5"):
        inclusion_probabilities([jnp.ones((2, 1))], mask=[np.array([[0.3], [0.0]])])


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match=r"unknown rule 'medain'.*'median'"):
        selected([np.ones((1, 1))], "medain")


@pytest.fixture(scope="module")
def layout():
    """Of an Equinox net, whose kernels have units by inputs."""
    net = eqx.nn.MLP(3, 1, 3, 1, key=jax.random.key(0))
    settings = {"likelihood": bp.likelihoods.Normal(1.0), "input_shape": (3,), "prunable": bp.select.everything}
    return bp.BNN(net, prior=bp.priors.Flat(), **settings).layout


# Units by inputs, as Equinox keeps them: the second input is read by none, the third by all.
FIRST = np.array([[True, False, True], [False, False, True], [False, False, True]])
MASK = {"layers.0.weight": FIRST, "layers.0.bias": np.ones(3, bool), "layers.1.weight": np.array([[True, False, False]])}


def test_a_layout_says_which_way_a_kernel_lies(layout):
    nodes = {site: node(np.where(alive, 30.0, -30.0)) for site, alive in MASK.items()}
    assert selected(nodes, layout=layout).tolist() == [True, False, True]
    assert selected(nodes, "union", layout=layout).tolist() == [True, False, True]
    np.testing.assert_allclose(inclusion_probabilities(nodes, layout=layout), [1, 0, 1], atol=1e-6)
    # One of three units is read by the output: the first and the third input reach it on one path of three.
    np.testing.assert_allclose(np.exp(importance(nodes, layout=layout).log_raw), [1 / 3, 0, 1 / 3], atol=1e-6)
    shuffled = dict(reversed(nodes.items()))
    np.testing.assert_array_equal(importance(shuffled, layout=layout).scaled, importance(nodes, layout=layout).scaled)
    as_list = [jnp.asarray(MASK["layers.0.weight"]).T, jnp.asarray(MASK["layers.1.weight"]).T]
    np.testing.assert_allclose(importance(as_list).scaled, importance(nodes, layout=layout).scaled, atol=1e-6)


def test_a_mask_is_turned_with_its_kernel(layout):
    normal = {site: MeanField(jnp.ones(alive.shape), jnp.ones(alive.shape)) for site, alive in MASK.items()}
    assert selected(normal, mask=MASK, layout=layout).tolist() == [True, False, True]


def test_attention_reads_what_runs_along_its_first_axis():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.DenseGeneral((2, 3), axis=-1)(x).reshape(len(x), -1)

    settings = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "prunable": bp.select.everything}
    bnn = bp.BNN(Net(), input_shape=(4,), **settings)
    p = np.zeros((4, 2, 3))
    p[1, 1, 0] = p[3, 0, 2] = 0.75
    assert inclusion_probabilities({"DenseGeneral_0.kernel": p}, layout=bnn.layout).tolist() == [0, 0.75, 0, 0.75]


def test_equinox_without_a_layout_is_refused(layout):
    with pytest.raises(ValueError, match=r"pass layout=bnn\.layout"):
        selected({"layers.0.weight": np.ones((3, 3))})
    with pytest.raises(ValueError, match=r"sites \['a'\] that layout lacks"):
        selected({"a": np.ones((3, 3))}, layout=layout)


def test_a_convolution_is_refused_with_a_layout_too():
    conv = linen.Sequential([linen.Conv(2, (2, 2)), lambda x: x.reshape(len(x), -1)])
    settings = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "prunable": bp.select.everything}
    bnn = bp.BNN(conv, input_shape=(3, 3, 1), **settings)
    with pytest.raises(ValueError, match="with positions: only dense layers"):
        selected({"layers_0.kernel": np.ones((2, 2, 1, 2))}, layout=bnn.layout)


def test_weights_that_a_cut_has_left_have_no_gate() -> None:
    """A cut leaves the logit: dead weights, at loc = scale = 0, are none of an input's without a mask too."""
    node = SpikeSlab(jnp.ones((3, 2)), jnp.ones((3, 2)), jnp.full((3, 2), 2.0))
    mask = jnp.array([[True, False], [False, False], [True, True]])
    one, other = ({"first.kernel": node.cut(mask)}, {"first.kernel": node})
    np.testing.assert_array_equal(inclusion_probabilities(one), inclusion_probabilities(other, mask={"first.kernel": mask}))
    assert inclusion_probabilities(one)[1] == 0
