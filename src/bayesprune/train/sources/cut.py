"""Batches of any sizes, cut anew to one size."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.types import Dataset


class Incoming(NamedTuple):
    """A batch as it came; reading on from ``before`` gives it again, from ``after`` the next one."""

    batch: Dataset
    before: Any
    after: Any


class Place(NamedTuple):
    """Where to read on: from ``at``, leaving out the first ``used`` rows."""

    at: Any
    used: int


def cut(incoming: Iterable[Incoming], size: int, used: int = 0) -> Iterator[tuple[Dataset, Place]]:
    """Batches of ``size`` rows in the order in which the rows come, none left out, and where the reading is after each.

    ``used``: rows of the first one that are left out.

    >>> rows = np.arange(7)
    >>> parts = [Incoming(Dataset(rows[:4], rows[:4]), 0, 1), Incoming(Dataset(rows[4:], rows[4:]), 1, 2)]
    >>> [(batch.x.tolist(), tuple(place)) for batch, place in cut(parts, 3)]
    [([0, 1, 2], (0, 3)), ([3, 4, 5], (1, 2))]
    """
    held: list[Dataset] = []
    for batch, before, after in incoming:
        rows, first, used = len(batch.y), used, 0
        while sum(len(part.y) for part in held) + rows - first >= size:
            last = first + size - sum(len(part.y) for part in held)
            whole = joined([*held, part_of(batch, first, last)])
            held, first = [], last
            yield whole, Place(after, 0) if first == rows else Place(before, first)
        if first < rows:
            held.append(part_of(batch, first, rows))


def part_of(batch: Dataset, first: int, last: int) -> Dataset:
    """Rows ``first`` to ``last``, without the last one."""
    return jax.tree.map(lambda leaf: leaf[first:last], batch)


def joined(parts: list[Dataset]) -> Dataset:
    """The rows of all parts, one after another."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
