"""The processes of one fit, as of `jax.distributed`: what they must agree on, and what only the first of them does."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.typing import ArrayLike

from bayesprune.core.keys import is_key
from bayesprune.core.same import array_digest, digest
from bayesprune.core.types import PyTree

_SHORTEST = 256  # bytes of a message; longer ones are filled up to a power of two, for each length is compiled once


@dataclass(frozen=True)
class Alone:
    """One process, that agrees with itself."""

    index: int = 0
    count: int = 1

    def broadcast(self, value: PyTree) -> list[Any]:
        """What each process says, by its number; what JSON holds."""
        return [value]

    def once(self, act: Callable[[], Any]) -> Any:
        """What ``act`` gives in the first process, in all of them; JSON. Its error there is an error in all."""
        return act()

    def own(self, tree: PyTree) -> Any:
        """The arrays, whole, as this process's own: what is done with them then is done by it alone."""
        return tree


@dataclass(frozen=True)
class Together:
    """Processes that take every step of a fit together, each of which must come to every call, in the same order."""

    index: int
    count: int

    def broadcast(self, value: PyTree) -> list[Any]:
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = multihost_utils.process_allgather(np.asarray(len(text), np.int32))
        room = np.zeros(max(_SHORTEST, 1 << int(max(sizes) - 1).bit_length()), np.uint8)
        room[: len(text)] = text
        rows = multihost_utils.process_allgather(room)
        return [json.loads(bytes(row[:size])) for row, size in zip(rows, sizes, strict=True)]

    def once(self, act: Callable[[], Any]) -> Any:
        answer, error = None, None
        if self.index == 0:
            try:
                answer = act()
            except BaseException as raised:  # the others wait for an answer, whatever it is
                error = raised
        answer, failed = self.broadcast((answer, error and f"{type(error).__name__}: {error}"))[0]
        if error is not None:
            raise error
        if failed is not None:
            raise RuntimeError(f"the first process of this fit failed, and the others end with it: {failed}")
        return answer

    def own(self, tree: PyTree) -> Any:
        return jax.tree.map(_own, tree)


def _own(leaf: ArrayLike) -> Any:
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
        return leaf
    return with_numbers(_gathered, leaf)


def _gathered(array: jax.Array) -> Any:
    return np.asarray(array) if array.is_fully_replicated else multihost_utils.process_allgather(array, tiled=True)


def with_numbers(read: Callable[[jax.Array], Any], leaf: jax.Array) -> jax.Array:
    """What ``read`` gives of an array, or of a random key's numbers, as a new array or key."""
    if is_key(leaf):
        return jax.random.wrap_key_data(with_numbers(read, jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    return jnp.asarray(read(leaf))


ALONE = Alone()


def of_mesh(mesh: jax.sharding.Mesh | Any) -> Alone | Together:
    """The processes of a fit on the devices of ``mesh``: all there are, or this one alone on devices of its own.

    Raises `ValueError` where there are several and it is not said which of the two is meant, or neither is.
    """
    count, index = jax.process_count(), jax.process_index()
    if count == 1:
        return ALONE
    if mesh is None:
        raise ValueError(
            f"there are {count} processes, and mesh= does not say what they share: give "
            "mesh=jax.make_mesh((jax.device_count(),), ('rows',)) for one fit by all of them, or a mesh of "
            "jax.local_devices() for a fit of its own in each."
        )
    processes = {device.process_index for device in mesh.devices.flat}
    if processes == {index}:
        return ALONE
    if processes != set(range(count)):
        raise ValueError(
            f"mesh has devices of the processes {sorted(processes)}, and this is process {index} of {count}: give one of "
            "devices of all of them, jax.make_mesh((jax.device_count(),), ('rows',)), or one of jax.local_devices() alone."
        )
    return Together(index, count)


def check_same(processes: Alone | Together, words: dict[str, Any]) -> None:
    """Refuse, in every process, to train together on what differs: names -> text or numbers that must be the same."""
    said = processes.broadcast({name: json.dumps(word, sort_keys=True) for name, word in words.items()})
    for other, theirs in enumerate(said):
        differ = [name for name in {**said[0], **theirs} if said[0].get(name) != theirs.get(name)]
        if differ:
            raise ValueError(
                f"the processes of one fit must be given the same, and {', '.join(differ)} of process {other} is not that of "
                f"process 0: {_short(theirs.get(differ[0]))} and {_short(said[0].get(differ[0]))}. Run one script with one key "
                "and the whole data and eval_data in each; data in batches are each process's own share."
            )


def check_shares(processes: Alone | Together, first: PyTree, rows_here: int) -> None:
    """Refuse batches of which each process was not given a share of its own. ``first``: its first minibatch."""
    shapes = [(str(leaf.dtype), *leaf.shape) for leaf in jax.tree.leaves(first)]
    said = processes.broadcast([shapes, digest(tuple(map(array_digest, jax.tree.leaves(first))))])
    if any(theirs != said[0][0] for theirs, _ in said):
        raise ValueError(f"data gave the processes batches of different shapes, {_short([theirs for theirs, _ in said])}.")
    if len({rows for _, rows in said}) < processes.count:
        raise ValueError(
            "data gave several processes the same batches: give each its own share of the rows, as "
            "dataset[jax.process_index()::jax.process_count()] of a Grain dataset does, or grain.sharding.ShardByJaxProcess()."
        )
    if rows_here != shapes[0][1]:
        raise ValueError(
            f"mesh has {rows_here} rows of a minibatch in each of {processes.count} processes, and data in batches are "
            f"{shapes[0][1]} for each: let its first axis go through the processes, as jax.make_mesh((jax.device_count(),), "
            "('rows',)) does."
        )


def _short(word: object) -> str:
    return str(word) if len(str(word)) <= 100 else f"{str(word)[:97]}..."
