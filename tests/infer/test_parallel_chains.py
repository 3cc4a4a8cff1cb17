"""Chains over devices: those of one program, each on the device that it is given to."""

import json

import jax
import pytest

import bayesprune as bp
from tests.infer import four_devices, programs
from tests.infer.four_devices import sample
from tests.infer.processes import output_of


@pytest.mark.slow
def test_on_one_device_they_are_those_of_one_program() -> None:
    one, other = sample("vectorized"), sample("parallel")
    assert programs.same_bits(one.params, other.params)
    assert one.losses.tobytes() == other.losses.tobytes()
    # Bound to no device, so that whatever takes a fit takes this one.
    assert not any(leaf.committed for leaf in jax.tree.leaves((other.params, other.state)))


@pytest.mark.parametrize("settings, told", [
    ({"mask": {}}, "chain_method='parallel' has no sparsifier"),
    ({"mesh": jax.sharding.AbstractMesh((1, 1), ("chains", "rows"))}, "mesh must be a jax.sharding.Mesh"),
])  # fmt: skip
def test_what_has_no_place_is_refused(settings, told) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        sample("parallel", **settings)


def test_meshes_processes_and_streams_that_cannot_be_spread_are_refused(monkeypatch) -> None:
    with pytest.raises(ValueError, match="mesh has the axes chains, rows, and parallel chains are spread over a single one"):
        sample("parallel", mesh=jax.make_mesh((1, 1), ("chains", "rows")))
    data = programs.classes()
    with pytest.raises(ValueError, match="'vectorized' and 'parallel' take arrays"):
        settings = four_devices.SETTINGS | {"batch_size": None}
        bp.fit_sgmcmc(
            jax.random.key(0), programs.small_bnn(), [(data.x, data.y)], num_rows=60, chain_method="parallel", **settings
        )
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="spreads chains over the devices of one process: take 'vectorized'"):
        sample("parallel")


@pytest.mark.slow
def test_four_devices_have_chains_of_their_own() -> None:
    told = json.loads(output_of("four_devices.py", 4))
    # Of eight chains each of four devices has two, each of two four; what all share is on all.
    assert told["four"] == [[4, 2]]
    assert told["two"] == [[2, 4]]
    assert told["differs"] == []
    assert "num_chains=3 cannot be spread evenly over the 4 devices: make it a multiple of 4" in told["uneven"]
