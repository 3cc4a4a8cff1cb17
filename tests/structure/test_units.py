"""Units: what a unit's producers make is nothing without them, and nothing else is."""

import jax
import numpy as np
import pytest
from tests.structure.nets import NETS, case

from bayesprune.structure import reachable, read, units


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", NETS)
def test_every_entry_has_one_unit_and_every_unit_has_producers(name) -> None:
    graph = case(name).graph
    found = units(graph)
    for site, role in graph.roles.items():
        for numbers in (found.producers[site], found.consumers[site]):
            assert numbers.shape == role.shape and numbers.dtype == np.int32
            assert numbers.max(initial=-1) < found.count and numbers.min(initial=0) >= -1
    made = np.unique(np.concatenate([numbers.ravel() for numbers in found.producers.values()]))
    assert made[made >= 0].tolist() == list(range(found.count))


def test_a_dense_layers_units_are_its_columns() -> None:
    found = units(case("mlp").graph)
    np.testing.assert_array_equal(found.producers["Dense_0.kernel"], np.broadcast_to(np.arange(5), (4, 5)))
    np.testing.assert_array_equal(found.producers["Dense_0.bias"], np.arange(5))
    np.testing.assert_array_equal(found.consumers["Dense_1.kernel"], np.broadcast_to(np.arange(5)[:, None], (5, 6)))
    np.testing.assert_array_equal(found.producers["Dense_1.kernel"], np.broadcast_to(np.arange(5, 11), (5, 6)))
    assert (found.producers["Dense_2.kernel"] == -1).all() and (found.producers["Dense_2.bias"] == -1).all()
    assert (found.consumers["Dense_0.kernel"] == -1).all() and found.count == 11


def test_equinox_units_are_rows() -> None:
    found = units(case("sigmoid").graph)
    np.testing.assert_array_equal(found.producers["layers.0.weight"], np.broadcast_to(np.arange(4)[:, None], (4, 3)))
    np.testing.assert_array_equal(found.consumers["layers.1.weight"], np.broadcast_to(np.arange(4), (4, 4)))


def test_norms_and_biases_belong_to_their_channel() -> None:
    found = units(case("nnx").graph).producers
    for site in ("steady.scale", "steady.bias", "first.bias"):
        np.testing.assert_array_equal(found[site], found["first.kernel"][0])
    for site in ("ln_f.scale", "ln_f.bias"):
        np.testing.assert_array_equal(found[site], found["second.kernel"][0])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("norm", ["batch", "group", "frn"])
def test_a_residual_sum_makes_one_unit_of_its_terms(norm) -> None:
    graph = case(f"resnet, {norm}").graph
    found = units(graph).producers
    channels = found["Conv_0.kernel"][0, 0, 0]
    assert sorted(set(channels)) == list(channels), "different channels are different units"
    np.testing.assert_array_equal(found["BasicBlock_0.Conv_1.kernel"][1, 2, 3], channels)
    own = found["BasicBlock_0.Conv_0.kernel"][0, 0, 0]
    assert not set(own) & set(channels), "between the sums a block is free"
    wide = found["BasicBlock_1.Conv_1.kernel"][0, 0, 0]
    np.testing.assert_array_equal(found["BasicBlock_1.Conv_2.kernel"][0, 0, 0], wide)
    for site, role in graph.roles.items():
        if role.is_norm and "Block" not in site:
            np.testing.assert_array_equal(found[site], channels)


def test_heads_places_and_tokens() -> None:
    found = units(case("attention").graph).producers
    stream = found["Conv_0.kernel"][0, 0, 0]
    assert len(set(stream)) == 4
    for site in ("token", "place", "Dense_0.bias", "LayerNorm_0.scale", "MultiHeadDotProductAttention_0.out.kernel"):
        np.testing.assert_array_equal(found[site], np.broadcast_to(stream, found[site].shape))
    query, key, value = (found[f"MultiHeadDotProductAttention_0.{part}.kernel"] for part in ("query", "key", "value"))
    np.testing.assert_array_equal(query, key)  # a feature of a head is a product of both
    assert not set(query.ravel()) & set(value.ravel()) and len(set(value[0].ravel())) == 4


def test_pixels_are_read_channel_by_channel() -> None:
    found = units(case("convolutions").graph)
    channels = found.producers["Conv_2.kernel"][0, 0, 0]
    read = found.consumers["Dense_0.kernel"][:, 0]
    np.testing.assert_array_equal(read, np.tile(channels, len(read) // len(channels)))


def test_a_kernel_over_places_makes_no_unit_and_channels_stay_what_they_are() -> None:
    found = units(case("mixer").graph)
    assert (found.producers["Dense_1.kernel"] == -1).all()
    np.testing.assert_array_equal(found.consumers["Dense_2.kernel"][:, 0], np.tile(found.producers["Dense_0.bias"], 3))


def test_a_cells_units_are_the_same_at_every_turn() -> None:
    found = units(case("recurrent").graph)
    state = found.producers["SimpleCell_0.i.bias"]
    for site in ("SimpleCell_0.i.kernel", "SimpleCell_0.h.kernel"):
        np.testing.assert_array_equal(found.producers[site], np.broadcast_to(state, found.producers[site].shape))
    for site in ("SimpleCell_0.h.kernel", "Dense_0.kernel"):
        np.testing.assert_array_equal(found.consumers[site], np.broadcast_to(state[:, None], found.consumers[site].shape))
    assert len(set(state)) == 3 and found.count == 7


def test_layers_of_one_array_have_units_of_their_own() -> None:
    """The net sums what comes before and after the last layer to the outputs' input: those are one unit."""
    found = units(case("stacked").graph)
    first, second, third = found.producers["stack"][:, :, 0]
    np.testing.assert_array_equal(found.consumers["stack"][1:], np.stack([first, second])[:, None, :].repeat(4, 1))
    np.testing.assert_array_equal(second, third)
    assert len({*first, *second}) == found.count == 8


def test_what_is_not_followed_is_named_and_kept_whole() -> None:
    graph = case("endless").graph
    assert set(graph.unfollowed) == {"w", "while", "sort"}
    assert "while" in graph.unfollowed["w"]
    assert (graph.roles["w"].inputs, graph.roles["w"].outputs) == ((0,), (1,)), "its role is seen all the same"
    mask = {site: np.full(role.shape, site == "w") for site, role in graph.roles.items()}
    assert reachable(graph, mask)["w"].all()
    found = units(graph)
    assert (found.producers["w"] == -1).all() and (found.consumers["Dense_2.kernel"] == -1).all()
    assert found.count == 4 + 3, "the units of the layers before the loop and before the sort"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["mlp", "narrow mlp", "convolutions", "lenet", "resnet, frn"])
def test_without_its_producers_a_unit_is_read_by_nothing(name) -> None:
    """In nets where zero stays zero; a norm that centres, a batch norm's mean or a sigmoid may still speak for a dead unit."""
    graph = case(name).graph
    found = units(graph)
    for unit in range(0, found.count, max(found.count // 5, 1)):
        used = reachable(graph, {site: numbers != unit for site, numbers in found.producers.items()})
        readers = {site: used[site] & (numbers == unit) for site, numbers in found.consumers.items()}
        assert any((numbers == unit).any() for numbers in found.consumers.values())
        assert not any(values.any() for values in readers.values()), unit
        assert any(values.any() for values in used.values())


def test_a_gate_of_all_channels_does_not_make_one_unit_of_them() -> None:
    found = units(case("gated").graph)
    channels = found.producers["Dense_0.kernel"][0]
    assert len(set(channels)) == 4 and channels.min() >= 0
    assert found.producers["Dense_1.kernel"].max() not in (*channels, -1)
    np.testing.assert_array_equal(found.consumers["Dense_2.kernel"][:, 0], [-1, -1, -1])


def test_what_serves_several_units_belongs_to_none() -> None:
    found = units(case("shared").graph)
    assert found.producers["scale"] == -1 and found.count == 4
    np.testing.assert_array_equal(found.producers["w"], np.broadcast_to(np.arange(4)[:, None], (4, 3)))


def test_a_product_of_two_vectors_is_one_signal() -> None:
    """As in a spectral norm: a matrix between two vectors is a number."""

    def net(w, x):
        return (x[0] @ w @ x[0]).reshape(1, 1)

    graph = read(jax.make_jaxpr(net)(np.ones((3, 3)), np.ones((1, 3))), {"w": (3, 3)})
    mask = {"w": np.arange(9).reshape(3, 3) % 2 == 0}
    assert np.array_equal(reachable(graph, mask)["w"], mask["w"]) and not graph.unfollowed
