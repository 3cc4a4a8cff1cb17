"""What a fit may be fed with: arrays, files in mapped memory, single examples by number, or batches as somebody makes them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from bayesprune.core.checks import check_integer
from bayesprune.core.send import send
from bayesprune.core.types import Dataset
from bayesprune.infer import door
from bayesprune.infer.predict import check_bnn
from bayesprune.train.batches import Padded
from bayesprune.train.feed import Stream, Whole
from bayesprune.train.processes import check_shares, of_mesh
from bayesprune.train.share import rows_here
from bayesprune.train.sources.batched import Batched
from bayesprune.train.sources.by_row import ByRow, Examples, Mapped, mapped_files
from bayesprune.train.sources.in_order import by_batch, by_number
from bayesprune.train.sources.source import Check, Source


def feed_of(program: Any, data: Any, num_rows: int | None, batch_size: int | None, mesh: Any) -> tuple[Whole | Stream, int]:
    """The data in the form that a fit takes, checked as far as they can be without reading all of them; and rows of a batch.

    Rows that are read later are checked when they are read. ``num_rows``: needed for batches, which do not say it. Of several
    processes each is given all rows, or their files, of which it reads those of its own devices; and of batches its own share.
    """
    processes = of_mesh(mesh)
    if num_rows is not None:
        check_integer(num_rows, "num_rows")
    if isinstance(data, Padded):
        return _padded(program, data, batch_size, mesh)
    if _in_memory(data):
        whole = door.check_program_data(program, data, "data")
        _check_same(num_rows, len(whole.y))
        batch = door.check_batch(batch_size, len(whole.y))
        return Whole(door.spread(whole, batch, mesh), types_of(data.x, data.y)), batch

    check = _Noting(_check_of(program, "data"))
    if _has_fields(data):
        door.check_same_length(data.x, data.y, "data")
        return _by_row(Mapped(data.x, data.y), num_rows, batch_size, check, mesh)
    if num_rows is not None:
        size = None if batch_size is None else door.check_batch(batch_size, num_rows)
        return _batched(data, num_rows, size, check, mesh, processes)
    if _has_numbers(data):
        return _by_row(Examples(data), None, batch_size, check, mesh)
    raise _unknown(data)


def held_out(program: Any, data: Any, early_stop: Any) -> Dataset | None:
    """What a fit is evaluated on, if anything: arrays on the device, or rows that are read in order at every evaluation."""
    if data is None or _in_memory(data) or isinstance(data, tuple | Mapping | str) or hasattr(data, "shape"):
        return door.check_eval_data(program, data, early_stop)
    check_bnn(program)
    check = _check_of(program, "eval_data")
    if _has_fields(data):
        door.check_same_length(data.x, data.y, "eval_data")
        return by_number(Mapped(data.x, data.y), check)
    if _has_numbers(data):
        door.check_not_empty(len(data), "eval_data")
        return by_number(Examples(data), check)
    return by_batch(_again(data, "eval_data"), check)


def _in_memory(data: Any) -> bool:
    return isinstance(data, type) or (_has_fields(data) and not mapped_files((data.x, data.y)))


def _has_fields(data: Any) -> bool:
    return hasattr(data, "x") and hasattr(data, "y")


def _check_of(program: Any, name: str) -> Check:
    return lambda x, y: jax.tree.map(np.asarray, door.check_rows(program, Dataset(x, y), name))


class _Noting:
    """A check of rows that remembers the types of the first ones."""

    def __init__(self, check: Check) -> None:
        self.check, self.types = check, ""

    def __call__(self, x: Any, y: Any) -> Dataset:
        self.types = self.types or types_of(x, y)
        return self.check(x, y)


def types_of(x: Any, y: Any) -> str:
    """The types of inputs and targets as they come: whether the same numbers come again, a fit that goes on has to ask.

    >>> types_of(np.zeros(3), {"a": [True], "b": np.ones(2, np.int8)})
    'float64; bool, int8'
    """
    return "; ".join(
        ", ".join(map(_type, jax.tree.leaves(side, is_leaf=lambda node: isinstance(node, list)))) for side in (x, y)
    )


def _type(array: Any) -> str:
    """Of one array, which may be PyTorch's, or written out as a list."""
    kind = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
    return str(kind).removeprefix("torch.")


def _padded(program: Any, data: Padded, batch_size: int | None, mesh: Any) -> tuple[Whole, int]:
    """Rows in more places than there are; see `Padded`."""
    places, num_rows = door.check_program_data(program, Dataset(data.x, data.y), "data"), int(data.num_rows)
    batch = door.check_batch(batch_size, num_rows)
    if batch == num_rows or num_rows > len(places.y) or mesh is not None:
        raise ValueError(
            f"{num_rows} rows in {len(places.y)} places are drawn by minibatches of fewer rows, on one device: give them as "
            "bp.Dataset(x, y)."
        )
    return Whole(Padded(*places, send(num_rows, np.int32))), batch


def _by_row(table: Mapped | Examples, num_rows: int | None, size: int | None, check: _Noting, mesh: Any) -> tuple[Stream, int]:
    _check_same(num_rows, len(table))
    door.check_not_empty(len(table), "data")
    size = door.check_batch(size, len(table))
    door.check_spread(size, mesh)
    here = None if mesh is None else rows_here(mesh, size)
    source = ByRow.of(table, size, check, here)
    return Stream(source, size, _shown(source, of_mesh(mesh)), mesh, check.types), size


def _batched(data: Any, num_rows: int, size: int | None, check: _Noting, mesh: Any, processes: Any) -> tuple[Stream, int]:
    if size is not None:
        door.check_spread(size, mesh)
    source = Batched.of(_again(data), num_rows, size and max(1, size // processes.count), check, processes.count)
    size = source.batch_size * processes.count
    door.check_spread(size, mesh)
    if processes.count > 1:
        check_shares(processes, source.first, len(rows_here(mesh, size)))
    return Stream(source, size, _shown(source, processes), mesh, check.types), size


def _shown(source: Source, processes: Any) -> Any:
    """Rows that the program may be run on outside of the loop, the same in every process."""
    if processes.count == 1:
        return source.first
    return multihost_utils.broadcast_one_to_all(source.first)


def _check_same(num_rows: int | None, rows: int) -> None:
    if num_rows not in (None, rows):
        raise ValueError(f"num_rows={num_rows}, but data has {rows} rows: leave num_rows out, it is for data in batches.")


def _again(data: Any, name: str = "data") -> Callable[[], Iterator[Any]]:
    """A function that returns a new iterator of the batches at every call."""
    if isinstance(data, Iterator):
        raise TypeError(
            f"{name} can be read only once, got {type(data).__name__}: give a function that returns a new iterator, as in "
            f"{name}=make_batches without calling it, or a list."
        )
    if hasattr(data, "__iter__") and not isinstance(data, Mapping | str):
        return lambda: iter(data)
    if callable(data):
        return lambda: iter(data())
    if name != "data":
        raise TypeError(f"{name} must have fields x and y, or give rows or batches (x, y), got {type(data).__name__}.")
    raise TypeError(
        f"data must give batches (x, y) where num_rows= is said, got {type(data).__name__}: leave it out where entries are "
        "single rows, or give a list, a loader, or a function that returns an iterator."
    )


def _has_numbers(data: Any) -> bool:
    """Whether single examples can be asked for by number; lists and arrays are left to mean batches or columns."""
    plain = isinstance(data, list | tuple | Mapping | str) or hasattr(data, "shape")
    return not plain and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _unknown(data: Any) -> Exception:
    batches = not isinstance(data, tuple | Mapping | str) and not hasattr(data, "shape")
    if batches and not isinstance(data, list) and (hasattr(data, "__iter__") or callable(data)):
        return ValueError(
            f"num_rows= is missing, and batches from a {type(data).__name__} do not say it: give the rows of the whole data "
            "set, by which the likelihood of a batch is scaled."
        )
    remedy = ", or say num_rows= of a list of batches" if isinstance(data, list) else ""
    return TypeError(f"data must have fields x and y, got {type(data).__name__}: wrap your arrays as bp.Dataset(x, y){remedy}.")
