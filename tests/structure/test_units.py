"""Units: what a unit's producers make is nothing without them, and nothing else is."""

import numpy as np
import pytest
from tests.structure.nets import NETS, case

from bayesprune.structure import reachable, units

FOLLOWED = [name for name in NETS if name not in ("recurrent",)]


@pytest.mark.parametrize("name", FOLLOWED)
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


def test_a_loop_is_named_and_kept_whole() -> None:
    graph = case("recurrent").graph
    cell = [site for site in graph.roles if "Cell" in site]
    assert cell and set(cell) | {"scan"} == set(graph.unfollowed)
    assert all("scan" in why for site, why in graph.unfollowed.items() if site != "scan")
    mask = {site: np.zeros(role.shape, bool) | (site in cell) for site, role in graph.roles.items()}
    used = reachable(graph, mask)
    assert all(used[site].all() for site in cell)
    found = units(graph)
    assert all((found.producers[site] == -1).all() for site in cell)
    assert found.count == 4, "the units of the layer before it"


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


def test_what_serves_several_units_belongs_to_none() -> None:
    found = units(case("shared").graph)
    assert found.producers["scale"] == -1 and found.count == 4
    np.testing.assert_array_equal(found.producers["w"], np.broadcast_to(np.arange(4)[:, None], (4, 3)))
