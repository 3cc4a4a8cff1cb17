"""Weights in use, against an enumeration of every path and against the network's own outputs."""

import itertools

import equinox as eqx
import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.report.metrics import sparsity_report, weights_in_use

SIZES = ((3, 4, 2), (2, 3, 3, 1), (4, 1, 3), (2, 2), (3, 2, 2, 2, 2))


def draw(rng: np.random.Generator, sizes: tuple[int, ...], biases: bool, density: float):
    """Shapes of a chain of dense layers, and a random mask of each of its tensors."""
    shapes = {}
    for i, (ins, outs) in enumerate(itertools.pairwise(sizes)):
        shapes[f"Dense_{i}.kernel"] = (ins, outs)
        if biases:
            shapes[f"Dense_{i}.bias"] = (outs,)
    return shapes, {site: rng.random(shape) < density for site, shape in shapes.items()}


def by_paths(mask, sizes):
    """The weights on any living path, by walking each: from every input and every bias to every output."""
    used = {site: np.zeros_like(alive) for site, alive in mask.items()}
    depth = len(sizes) - 1
    for start in range(depth):
        for path in itertools.product(*map(range, sizes[start:])):
            steps = [(f"Dense_{start + i}.kernel", pair) for i, pair in enumerate(itertools.pairwise(path))]
            walks = [steps] if start == 0 else []
            if f"Dense_{start}.bias" in mask:
                walks.append([(f"Dense_{start}.bias", (path[1],)), *steps[1:]])
            for walk in walks:
                if all(mask[site][at] for site, at in walk):
                    for site, at in walk:
                        used[site][at] = True
    return used


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_every_path_is_found_and_no_other(sizes, biases) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        shapes, mask = draw(rng, sizes, biases, rng.uniform(0.2, 0.8))
        got, wanted = weights_in_use(mask, shapes), by_paths(mask, sizes)
        assert got.keys() == mask.keys()
        for site in mask:
            np.testing.assert_array_equal(got[site], wanted[site])


def test_what_is_not_in_use_changes_no_output() -> None:
    rng = np.random.default_rng(1)
    sizes = (5, 6, 6, 3)
    spared = 0
    for _ in range(20):
        shapes, mask = draw(rng, sizes, True, 0.3)
        weights = {site: rng.normal(size=shape) * mask[site] for site, shape in shapes.items()}
        used = weights_in_use(mask, shapes)
        spared += sum(int((mask[site] & ~used[site]).sum()) for site in mask)

        def outputs(weights, x):
            for i in range(len(sizes) - 1):
                x = np.tanh(x @ weights[f"Dense_{i}.kernel"] + weights[f"Dense_{i}.bias"])
            return x

        x = rng.normal(size=(7, 5))
        np.testing.assert_allclose(outputs({s: w * used[s] for s, w in weights.items()}, x), outputs(weights, x), atol=1e-12)
    assert spared > 50


def test_sites_that_are_not_in_the_mask_are_whole() -> None:
    rng = np.random.default_rng(2)
    sizes = (3, 4, 4, 2)
    for left_out in itertools.combinations([f"Dense_{i}.{part}" for i in range(3) for part in ("kernel", "bias")], 2):
        shapes, mask = draw(rng, sizes, True, 0.4)
        given = {site: alive for site, alive in mask.items() if site not in left_out}
        wanted = by_paths(given | {site: np.ones(shapes[site], bool) for site in left_out}, sizes)
        got = weights_in_use(given, shapes)
        assert got.keys() == given.keys()
        assert all(np.array_equal(got[site], wanted[site]) for site in given)


def test_a_dead_bottleneck_leaves_nothing_in_use_but_the_last_bias() -> None:
    shapes = {"a.kernel": (2, 1), "b.kernel": (1, 2), "b.bias": (2,)}
    used = weights_in_use({"a.kernel": np.zeros((2, 1), bool), "b.kernel": np.ones((1, 2), bool)}, shapes)
    assert sparsity_report(used)["prunable"]["num_alive"] == 0


def test_convolutions_and_the_pixels_that_they_flatten_to() -> None:
    shapes = {"Conv_0.kernel": (3, 3, 1, 2), "Conv_1.kernel": (2, 2, 2, 3), "Dense_0.kernel": (2 * 2 * 3, 2)}
    mask = {site: np.ones(shape, bool) for site, shape in shapes.items()}
    mask["Dense_0.kernel"].reshape(2, 2, 3, 2)[:, :, 1] = False  # no pixel of feature 1 is read
    mask["Conv_1.kernel"][:, :, 0, [0, 2]] = False  # feature 0 of the first layer feeds that one alone
    mask["Conv_1.kernel"][:, :, :, 2] = False  # nothing feeds feature 2
    used = weights_in_use(mask, shapes)
    assert used["Conv_0.kernel"].any(axis=(0, 1)).tolist() == [[False, True]]
    assert used["Conv_1.kernel"].any(axis=(0, 1)).tolist() == [[False, False, False], [True, False, False]]
    assert used["Dense_0.kernel"].reshape(2, 2, 3, 2).any(axis=(0, 1, 3)).tolist() == [True, False, False]


def bnn_of(net, input_shape=(4,)) -> bp.BNN:
    return bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=input_shape)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "net", [bp.nets.MLP((5, 4), 2), eqx.nn.MLP(4, 2, 5, 2, key=jax.random.key(0))], ids=["linen", "equinox"]
)
def test_a_net_gives_what_its_chain_gives(net) -> None:
    bnn = bnn_of(net)
    rng = np.random.default_rng(3)
    names = {str(spec.path): f"{spec.path.layer}.{'kernel' if spec.inputs else 'bias'}" for spec in bnn.layout}
    shapes = {names[s.path]: tuple(s.shape[axis] for axis in s.inputs + s.outputs) for s in bnn.layout}
    for density in (0.2, 0.4, 0.6, 0.8):
        mask = {site: rng.random(shape) < density for site, shape in shapes.items()}
        own = {spec.path: mask[names[spec.path]].T if spec.inputs != (0,) else mask[names[spec.path]] for spec in bnn.layout}
        got, wanted = bp.connected(bnn, own), weights_in_use(mask, shapes)
        assert got.keys() == own.keys()
        for spec in bnn.layout:
            other = wanted[names[spec.path]]
            np.testing.assert_array_equal(got[spec.path], other.T if spec.inputs != (0,) else other)


def test_what_is_prunable_is_judged_and_the_rest_is_whole() -> None:
    bnn = bnn_of(bp.nets.MLP((3, 3), 2))
    mask = {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    mask["Dense_1.kernel"][:, 0] = mask["Dense_1.bias"][0] = False  # of the second layer the first unit
    mask["Dense_1.kernel"][2] = False  # and nothing reads the third unit of the first layer
    used = bp.connected(bnn, mask)
    assert used.keys() == mask.keys()
    assert used["Dense_0.kernel"].all(axis=0).tolist() == used["Dense_0.bias"].tolist() == [True, True, False]
    np.testing.assert_array_equal(used["Dense_1.kernel"], mask["Dense_1.kernel"])


def test_connected_is_of_a_bnn_and_its_sites() -> None:
    bnn = bnn_of(bp.nets.MLP((3,), 2))
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN, got Program"):
        bp.connected(bp.Program(bnn.model, bnn.guide), {})
    with pytest.raises(ValueError, match="unknown site in mask 'Dense_9"):
        bp.connected(bnn, {"Dense_9.kernel": np.ones((3, 2), bool)})


def test_a_layout_gives_the_shapes() -> None:
    bnn = bnn_of(bp.nets.MLP((3,) * 11, 2))  # by name, Dense_10 would come before Dense_2
    shapes = {spec.path: spec.shape for spec in bnn.layout}
    mask = {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    mask["Dense_10.kernel"][:] = mask["Dense_10.bias"][:] = False
    used = weights_in_use(mask, shapes)
    assert not any(alive.any() for alive in used.values())


BAD = {
    "other tensors": ({"LayerNorm_0.scale": (3,), "Dense_0.kernel": (3, 2)}, "no chain of layers: got LayerNorm_0.scale"),
    "a bias alone": ({"Dense_0.kernel": (3, 2), "Dense_1.bias": (2,)}, "no chain of layers: got Dense_1.bias"),
    "nothing": ({}, "no chain of layers: got no kernel"),
    "order": ({"b.kernel": (4, 2), "a.kernel": (3, 4)}, "a reads 3 inputs, and b before it has 2 outputs"),
    "groups": ({"a.kernel": (3, 3, 1, 8), "b.kernel": (3, 3, 1, 8)}, "b reads 1 inputs, and a before it has 8 outputs"),
    "bias": ({"a.kernel": (3, 4), "a.bias": (3,)}, r"a has a kernel of shape \(3, 4\) and a bias of shape \(3,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_of_another_network_it_is_not_known(case) -> None:
    shapes, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        weights_in_use({}, shapes)


def test_a_mask_that_does_not_fit_is_told() -> None:
    with pytest.raises(ValueError, match=r"unknown site in mask 'b\.kernel'"):
        weights_in_use({"b.kernel": np.ones((3, 2), bool)}, {"a.kernel": (3, 2)})
    with pytest.raises(ValueError, match=r"mask\['a.kernel'\] has shape \(2, 3\)"):
        weights_in_use({"a.kernel": np.ones((2, 3), bool)}, {"a.kernel": (3, 2)})
