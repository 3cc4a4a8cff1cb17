"""Arrays on the devices of a mesh, made of what each process has of them: all of it, or its share of a minibatch's rows."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bayesprune.core.keys import is_key
from bayesprune.core.types import PyTree


def everywhere(tree: PyTree, mesh: Mesh) -> Any:
    """Arrays that this process has whole, and the others too, on every device."""
    sharding = NamedSharding(mesh, PartitionSpec())
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)
    return jax.tree.map(lambda leaf: _made(np.asarray(leaf), np.shape(leaf), sharding, 0, {}), tree)


def automatic(mesh: Mesh | None) -> Any:
    """The same devices with automatic axes: the compiler finds the layout of everything but the batch."""
    return None if mesh is None else Mesh(mesh.devices, mesh.axis_names)


def laid_automatically(leaf: object) -> Any:
    """An array where it lies, on axes that are automatic; what is on no mesh of this process's devices stays as it is.

    Of explicit axes, which `jax.make_mesh` gives, JAX asks at every operation how the result is to lie.
    """
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh) or not sharding.is_fully_addressable:
        return leaf
    return jax.device_put(leaf, NamedSharding(automatic(sharding.mesh), sharding.spec, memory_kind=sharding.memory_kind))


def rows_here(mesh: Mesh | Any, batch_size: int) -> np.ndarray:
    """The numbers of a minibatch's rows that this process's devices hold, rising.

    Raises `ValueError` where the processes would hold different numbers of rows: they would read blocks of different lengths.
    """
    indices: Any = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0])).devices_indices_map((batch_size,))
    rows: dict[int, set[int]] = {}
    for device, (index,) in indices.items():
        rows.setdefault(device.process_index, set()).update(range(*index.indices(batch_size)))
    if len({len(numbers) for numbers in rows.values()}) > 1:
        counts = ", ".join(f"{len(numbers)} in process {process}" for process, numbers in sorted(rows.items()))
        raise ValueError(f"mesh gives the processes different numbers of rows, {counts}: give each as many devices of it.")
    return np.asarray(sorted(rows[jax.process_index()]))


def spread(tree: PyTree, mesh: Mesh, batch_size: int, here: np.ndarray) -> Any:
    """Minibatches (batches, rows, ...) of which each process has the rows `rows_here`, over the devices of the mesh.

    The processes do not speak with each other: this may be done in a thread.
    """
    sharding = NamedSharding(mesh, PartitionSpec(None, mesh.axis_names[0]))
    place = {int(row): number for number, row in enumerate(here)}
    return jax.tree.map(lambda leaf: _made(leaf, (len(leaf), batch_size, *leaf.shape[2:]), sharding, 1, place), tree)


def by_rows(batch: PyTree, mesh: Mesh | None) -> Any:
    """Within a compiled function: a minibatch whose rows are spread over the first axis of the mesh, if there is one."""
    if mesh is None:
        return batch
    rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, rows), batch)


def by_parameters(tree: PyTree, mesh: Mesh | None) -> Any:
    """Within a compiled function: parameters and moments, cut along the second axis of the mesh, if it has one.

    An array is cut along the longest of its axes that this divides, if any; all else is on every device.
    """
    if mesh is None or len(mesh.axis_names) < 2:
        return tree
    parts = mesh.shape[mesh.axis_names[1]]

    def cut(leaf: jax.Array) -> Any:
        if is_key(leaf):
            return leaf
        whole = [(size, axis) for axis, size in enumerate(leaf.shape) if size % parts == 0 and size]
        names: list[str | None] = [None] * leaf.ndim
        if whole:
            names[max(whole)[1]] = mesh.axis_names[1]
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh, PartitionSpec(*names)))

    return jax.tree.map(cut, tree)


def _made(own: np.ndarray, shape: tuple[int, ...], sharding: NamedSharding, axis: int, place: dict[int, int]) -> jax.Array:
    """The array of ``shape``; ``place``: where its rows of numbers, along ``axis``, are in ``own``."""

    def part(index: Any) -> np.ndarray:
        if not place:
            return own[index]
        start, stop, _ = index[axis].indices(shape[axis])
        first = place[start]
        return own[(*index[:axis], slice(first, first + stop - start), *index[axis + 1 :])]

    return jax.make_array_from_callback(shape, sharding, part)


def check_spread(batch_size: int, mesh: Mesh | None) -> None:
    """Refuse a batch that the devices along the mesh's first axis cannot share evenly."""
    devices = 1 if mesh is None else mesh.shape[mesh.axis_names[0]]
    if batch_size % devices:
        raise ValueError(
            f"batch_size={batch_size} cannot be spread evenly over the {devices} devices of mesh: make it a multiple of "
            f"{devices}."
        )
