"""The numbers that a network's tables take, as a file has them: `reader.check_places` reads them by NumPy alone.

Of each array of a row nothing, or ``{"limits": [[least, most, table], ...], "entries": [...]}``: for every entry of the row the
number of its limits, -1 where it has none.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesprune.deploy.program.packing import Leaf
from bayesprune.deploy.reader import LARGEST
from bayesprune.structure.lookups import Bounds

LONGEST = 200  # letters of a table's name


def as_data(bounds: Sequence[Bounds | None]) -> list[Any]:
    """As JSON has them."""
    return [None if limits is None else _of_one(limits) for limits in bounds]


def of_data(stated: Sequence[Any], leaves: Sequence[Leaf]) -> tuple[Bounds | None, ...]:
    """From JSON. Raises ``ValueError`` for what are no limits of rows of these arrays."""
    if len(stated) != len(leaves):
        raise ValueError(f"limits of {len(stated)} arrays, and a row has {len(leaves)}")
    return tuple(None if one is None else _read(one, leaf) for one, leaf in zip(stated, leaves, strict=True))


def _of_one(bounds: Bounds) -> dict[str, Any]:
    of_entries = list(zip(bounds.low.ravel().tolist(), bounds.high.ravel().tolist(), bounds.tables.ravel(), strict=True))
    limits = list(dict.fromkeys(one for one in of_entries if np.isfinite(one[1])))
    numbers = {one: number for number, one in enumerate(limits)}
    whole = [[int(low), int(high), table[:LONGEST]] for low, high, table in limits]
    return {"limits": whole, "entries": [numbers.get(one, -1) for one in of_entries]}


def _read(stated: Any, leaf: Leaf) -> Bounds:
    limits, entries = stated["limits"], stated["entries"]
    if any(not _is_limit(*one) for one in limits):
        raise ValueError("limits that are none")
    if len(entries) != leaf.size or any(type(n) is not int or not -1 <= n < len(limits) for n in entries):
        raise ValueError(f"limits of {len(entries)} entries, and {leaf.name} has {leaf.size} a row")
    every = [(-np.inf, np.inf, ""), *limits]
    low, high, tables = (
        np.array([every[n + 1][field] for n in entries], kind).reshape(leaf.shape)
        for field, kind in enumerate((float, float, object))
    )
    return Bounds(low, high, tables)


def _is_limit(least: object, most: object, table: object) -> bool:
    whole = type(least) is int and type(most) is int and -LARGEST <= least <= most <= LARGEST
    return whole and isinstance(table, str) and len(table) <= LONGEST
