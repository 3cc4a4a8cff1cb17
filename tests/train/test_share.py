"""Rows and parameters on the devices of a mesh: here those of one process, of one device."""

from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.train import share


def test_one_process_has_all_rows_and_they_arrive() -> None:
    mesh, batches = jax.make_mesh((1,), ("rows",)), {"x": np.arange(24.0).reshape(2, 4, 3)}
    here = share.rows_here(mesh, 4)
    assert here.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(share.spread(batches, mesh, 4, here)["x"], batches["x"])
    np.testing.assert_array_equal(share.everywhere(batches, mesh)["x"], batches["x"])


@dataclass(eq=False)
class Device:
    process_index: int


def devices(monkeypatch, *owners: int) -> None:
    """Devices of these processes, which share the rows of a minibatch evenly and in this order."""
    monkeypatch.setattr(jax, "process_index", lambda: 1)

    def spans(rows: int) -> dict:
        each = rows // len(owners)
        return {Device(owner): (slice(n * each, (n + 1) * each),) for n, owner in enumerate(owners)}

    sharding = SimpleNamespace(devices_indices_map=lambda shape: spans(shape[0]))
    monkeypatch.setattr(share, "NamedSharding", lambda mesh, spec: sharding)


def test_the_rows_here_are_those_of_my_devices(monkeypatch) -> None:
    mesh = SimpleNamespace(axis_names=("rows",))
    devices(monkeypatch, 0, 1, 0, 1)
    assert share.rows_here(mesh, 8).tolist() == [2, 3, 6, 7]
    devices(monkeypatch, 0, 1, 1)
    with pytest.raises(
        ValueError, match=r"different numbers of rows, 2 in process 0, 4 in process 1: give each as many devices"
    ):
        share.rows_here(mesh, 6)


def test_a_share_is_put_where_its_rows_belong(monkeypatch) -> None:
    """Of rows 2, 3, 6, 7 of eight, those asked for by a device are found in what was read."""
    asked = {}

    def made(shape, sharding, part) -> jax.Array:
        asked.update(shape=shape, part=part)
        return jnp.zeros(shape)

    monkeypatch.setattr(jax, "make_array_from_callback", made)
    read = np.asarray([[20, 30, 60, 70]])
    share.spread(read, jax.make_mesh((1,), ("rows",)), 8, np.asarray([2, 3, 6, 7]))
    assert asked["shape"] == (1, 8)
    assert asked["part"]((slice(None), slice(6, 8))).tolist() == [[60, 70]]
    assert asked["part"]((slice(None), slice(2, 4))).tolist() == [[20, 30]]


def test_parameters_are_cut_along_their_longest_axis() -> None:
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]).reshape(1, 1), ("rows", "weights"))
    tree = {"w": jnp.ones((3, 5)), "b": jnp.ones(()), "key": jax.random.key(0)}
    text = str(jax.make_jaxpr(lambda tree: share.by_parameters(tree, mesh))(tree))
    assert text.count("sharding_constraint") == 2
    assert "weights" in text
    assert "sharding_constraint" not in str(jax.make_jaxpr(lambda t: share.by_parameters(t, jax.make_mesh((1,), ("a",))))(tree))
