"""Trees of posteriors: names, sizes, and taking apart without loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core import trees
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab

TREE = {
    "Dense_0": {"kernel": MeanField(jnp.zeros((2, 3)), jnp.ones((2, 3))), "bias": jnp.zeros(3)},
    "blocks": [SpikeSlab(jnp.zeros(4), jnp.ones(4), jnp.zeros(4)), jnp.float32(1.0)],
}
PATHS = ["Dense_0.bias", "Dense_0.kernel", "blocks.0", "blocks.1"]


def same(left: object, right: object) -> bool:
    return jax.tree.structure(left) == jax.tree.structure(right) and all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    )


def test_paths_are_dotted_and_end_at_posterior_nodes() -> None:
    assert trees.paths(TREE) == PATHS
    assert trees.paths({"Dense_0.kernel": MeanField(0.0, 1.0)}) == ["Dense_0.kernel"]


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'a\.b'"):
        trees.flatten({"a.b": 0.0, "a": {"b": 1.0}})


def test_sizes_count_a_node_once() -> None:
    assert trees.size(TREE) == 6 + 3 + 4 + 1
    assert trees.size({}) == 0
    assert trees.shape(TREE["blocks"][0]) == (4,)


def test_map_nodes_hands_over_whole_nodes_and_their_companions() -> None:
    widths = {"a": 2.0, "b": jnp.asarray([1.0, 3.0])}
    posterior = {"a": MeanField(jnp.ones(2), jnp.ones(2)), "b": MeanField(jnp.ones(2), jnp.ones(2))}
    got = trees.map_nodes(lambda q, width: q.loc * width, posterior, widths)
    assert same(got, {"a": jnp.asarray([2.0, 2.0]), "b": jnp.asarray([1.0, 3.0])})


def test_map_with_path_names_every_node() -> None:
    got = trees.map_with_path(lambda path, node, other: path == other, TREE, trees.map_with_path(lambda p, _: p, TREE))
    assert jax.tree.leaves(got) == [True] * 4


def test_broadcast_repeats_a_number_and_takes_a_tree_as_it_is() -> None:
    like = {"a": MeanField(jnp.zeros(2), jnp.ones(2)), "b": jnp.zeros(3)}
    assert trees.broadcast(0.5, like) == {"a": 0.5, "b": 0.5}
    widths = {"a": jnp.ones(2), "b": 1.0}
    assert trees.broadcast(widths, like) is widths
    node = MeanField(jnp.zeros(2), jnp.ones(2))
    assert trees.broadcast(0.5, node) == 0.5
    with pytest.raises(ValueError, match="'b'"):
        trees.broadcast({"a": 1.0}, like)
