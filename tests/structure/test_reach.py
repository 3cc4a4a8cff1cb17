"""Weights in use, against the network's own outputs and against gradients: two oracles that know nothing of the graph."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.structure.nets import LARGE, NETS, Case, case

from bayesprune.structure import reachable, read, units

SMALL = [name for name in NETS if name not in LARGE]
SLOW = {name: pytest.param(name, marks=pytest.mark.slow) for name in LARGE}
SEEN_LESS = [name for name in LARGE if name not in ("lenet", "resnet, batch")]
DENSITIES = (0.15, 0.3, 0.5, 0.8)


def applied(mask, weights):
    return {site: np.where(mask[site], value, 0).astype(np.float32) for site, value in weights.items()}


@pytest.mark.slow_cases(6)
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("name", [*SMALL, *(SLOW[name] if name in SEEN_LESS else name for name in LARGE)])
def test_without_what_is_not_in_use_the_outputs_stay(name) -> None:
    """Bit by bit, up to the order of sums, which XLA may change with a zero among them: 1e-5 of the largest output."""
    net = case(name)
    rng = np.random.default_rng(0)
    spared = 0
    for draw, density in enumerate((*DENSITIES, *DENSITIES)):
        mask, weights = net.mask(rng, density), net.weights(rng)
        used = reachable(net.graph, mask)
        assert used.keys() == mask.keys()
        assert all((used[site] <= mask[site]).all() for site in mask)
        spared += sum(int((mask[site] & ~used[site]).sum()) for site in mask)
        whole, less = (net.outputs(applied(m, weights), draw) for m in (mask, used))
        np.testing.assert_allclose(less, whole, rtol=0, atol=1e-5 * max(np.abs(whole).max(), 1e-6))
        again = reachable(net.graph, used)
        assert all(np.array_equal(again[site], used[site]) for site in used), "nothing more goes the second time"
    assert spared > 0


def depends(net, mask, rng, draws=20):
    """The alive weights on which an output depends somewhere: a gradient that is not zero at any of several draws."""
    found = {site: np.zeros(alive.shape, bool) for site, alive in mask.items()}
    for draw in range(draws):
        slopes = net.slopes(applied(mask, net.weights(rng)), draw)
        for site in found:
            found[site] |= (slopes[site] != 0) & mask[site]
    return found


# Sites whose weights matter to no output for a reason that no graph shows: the softmax over keys does not see a shift of all.
INVARIANT = {
    "attention": ("MultiHeadDotProductAttention_0.key.bias",),
    **dict.fromkeys(("vit", "vit, mean", "vit, each token"), ("EncoderBlock_0.attention.key.bias",)),
}


# No gradient goes back through a loop of unknown length.
@pytest.mark.slow_cases(6)
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", [*(name for name in SMALL if name != "endless"), *SLOW.values()])
def test_what_is_in_use_changes_an_output(name) -> None:
    """Of a convolution's kernel some position, for channels count as a whole."""
    net = case(name)
    rng = np.random.default_rng(1)
    for density in DENSITIES:
        mask = net.mask(rng, density)
        used, wanted = reachable(net.graph, mask), depends(net, mask, rng)
        for site, role in net.graph.roles.items():
            if site in INVARIANT.get(name, ()) or site in net.graph.unfollowed:
                continue
            positions = role.positions if role.inputs else ()  # of a position embedding entries are told apart
            got, true = (tree[site].any(axis=positions) if positions else tree[site] for tree in (used, wanted))
            assert not (true & ~got).any(), f"{site}: an output depends on what is said not to be in use"
            np.testing.assert_array_equal(got, true, err_msg=site)


def test_where_tokens_are_too_many_to_be_told_apart_nothing_in_use_is_lost(monkeypatch) -> None:
    exact = case("attention")
    wanted = units(exact.graph).producers
    monkeypatch.setattr("bayesprune.structure.ops.movement.MANY", 1)
    coarse = Case(exact.net, exact.shape).graph
    assert coarse.num_signals < exact.graph.num_signals
    rng = np.random.default_rng(2)
    for density in DENSITIES:
        mask = exact.mask(rng, density)
        fewer, more = reachable(exact.graph, mask), reachable(coarse, mask)
        assert all((fewer[site] <= more[site]).all() for site in mask)
    for site, numbers in units(coarse).producers.items():
        np.testing.assert_array_equal(numbers, wanted[site])


def padded(w):
    return jnp.pad(w, ((0, 0), (1, 0)))


MADE_OF_WEIGHTS = {  # (w, (3, 2), v, (3, 3)) -> a kernel of three inputs
    "zeros, then a shift": lambda w, v: padded(w) + 1.0,
    "zeros, then an activation": lambda w, v: jnp.exp(padded(w)),
    "zeros, then other weights": lambda w, v: padded(w) + v,
    "an activation, then zeros": lambda w, v: 2.0 * padded(jnp.exp(w)),
    "shrunk": lambda w, v: jnp.sign(w) * jnp.maximum(jnp.abs(w) - 0.3, 0.0),
    "scaled by others": lambda w, v: w * v[:, :2],
    "stacked, tiled and taken apart": lambda w, v: jnp.tile(jnp.stack(jnp.unstack(w, axis=1)[::-1], axis=1), (1, 2))[:, 1:],
    "a product with itself": lambda w, v: v @ v,
    "one for all inputs": lambda w, v: jnp.broadcast_to(w[1:2], w.shape),
}


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", MADE_OF_WEIGHTS)
def test_kernels_that_are_computed_from_weights(name) -> None:
    """Without what is not in use the outputs stay; only what zeros stand beside, and is then shifted, is given up on."""

    def net(h, v, w, x):
        return jnp.tanh(x @ MADE_OF_WEIGHTS[name](w, v)) @ h[: MADE_OF_WEIGHTS[name](w, v).shape[1]]

    shapes = {"h": (3, 2), "v": (3, 3), "w": (3, 2)}
    graph = read(jax.make_jaxpr(net)(*map(jnp.zeros, shapes.values()), jnp.zeros((1, 3))), shapes)
    assert ("w" in graph.unfollowed) == name.startswith("zeros")
    assert set(graph.unfollowed) <= {"w", "v"}
    rng = np.random.default_rng(4)
    for _ in range(10):
        mask = {site: rng.random(shape) < 0.6 for site, shape in shapes.items()}
        weights = {site: rng.normal(size=shape).astype(np.float32) for site, shape in shapes.items()}
        used, x = reachable(graph, mask), rng.normal(size=(5, 3))
        whole, less = (net(*applied(m, weights).values(), x) for m in (mask, used))
        np.testing.assert_allclose(less, whole, atol=1e-6)


def test_a_loop_that_is_too_long_to_be_written_out_is_kept_whole(monkeypatch) -> None:
    net = case("stacked")
    monkeypatch.setattr("bayesprune.structure.jaxprs.MOST_EQUATIONS", 1)
    graph = Case(net.net, net.shape).graph
    assert set(graph.unfollowed) == {"scan", "stack"}
    assert (graph.roles["stack"].inputs, graph.roles["stack"].outputs) == ((2,), (1,))
    mask = net.mask(np.random.default_rng(3), 0.5)
    used = reachable(graph, mask)
    np.testing.assert_array_equal(used["stack"], mask["stack"])
    np.testing.assert_array_equal(used["head"], mask["head"])
