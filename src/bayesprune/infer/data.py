"""Data of a fit: what may be given, how it is checked, and the form in which the loop takes it.

Arrays are put into the device's memory; files in mapped memory, single examples by number, and batches as somebody makes them
are read while the loop works.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from bayesprune.core.checks import check_integer
from bayesprune.core.fields import check_fields, has_fields
from bayesprune.core.numbers import numbers_of, real_numbers
from bayesprune.core.same import array_digest
from bayesprune.core.send import send_all
from bayesprune.core.types import Array, Dataset, PyTree
from bayesprune.infer.predict import check_bnn
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.processes import Alone, Together, check_same, check_shares, of_mesh
from bayesprune.train.share import check_spread, everywhere, laid_automatically, rows_here
from bayesprune.train.sources.batched import Batched
from bayesprune.train.sources.by_row import ByRow, Examples, Mapped, mapped_files
from bayesprune.train.sources.in_order import by_batch, by_number
from bayesprune.train.sources.source import Check, Source
from bayesprune.train.stopping import EarlyStop, NeverStop

_largest = jax.jit(lambda array: jnp.nanmax(jnp.abs(array), initial=0.0))


@runtime_checkable
class OwnFeed(Protocol):
    """Data that make and check the form in which the loop takes them; fields x and y are what was given."""

    x: Any
    y: Any

    def feed(self, program: Trainable, batch_size: int | None, mesh: Mesh | None) -> tuple[WholeFeed | Stream, int]: ...


def feed_of(
    program: Trainable, data: Any, num_rows: int | None, batch_size: int | None, mesh: Mesh | None
) -> tuple[WholeFeed | Stream, int]:
    """The data in the form that a fit takes, checked as far as they can be without reading all of them; and rows of a batch.

    Rows that are read later are checked when they are read. ``num_rows``: needed for batches, which do not say it. Of several
    processes each is given all rows, or their files, of which it reads those of its own devices; and of batches its own share.
    """
    processes = of_mesh(mesh)
    if num_rows is not None:
        check_integer(num_rows, "num_rows")
    if isinstance(data, OwnFeed):
        return data.feed(program, batch_size, mesh)
    if _in_memory(data):
        whole = check_program_data(program, data, "data")
        _check_same(num_rows, len(whole.y))
        batch = check_batch(batch_size, len(whole.y))
        return WholeFeed(spread(whole, batch, mesh), types_of(data.x, data.y)), batch

    check = _Noting(_check_of(program, "data"))
    if has_fields(data):
        check_fields(data, "data")
        check_same_length(data.x, data.y, "data")
        return _by_row(Mapped(data.x, data.y), num_rows, batch_size, check, mesh)
    if num_rows is not None:
        size = None if batch_size is None else check_batch(batch_size, num_rows)
        return _batched(data, num_rows, size, check, mesh, processes)
    if _has_numbers(data):
        return _by_row(Examples(data), None, batch_size, check, mesh)
    raise _unknown(data)


def held_out(program: Trainable, data: Any, early_stop: EarlyStop | NeverStop) -> Dataset | None:
    """What a fit is evaluated on, if anything: arrays on the device, or rows that are read in order at every evaluation."""
    if data is None:
        if not isinstance(early_stop, NeverStop):
            raise ValueError("early_stop watches the evaluation on eval_data, and there is none: give eval_data=Dataset(x, y).")
        return None
    check_bnn(program)
    if _in_memory(data) or isinstance(data, tuple | Mapping | str) or hasattr(data, "shape"):
        return check_program_data(program, data, "eval_data")
    check = _check_of(program, "eval_data")
    if has_fields(data):
        check_fields(data, "eval_data")
        check_same_length(data.x, data.y, "eval_data")
        return by_number(Mapped(data.x, data.y), check)
    if _has_numbers(data):
        check_not_empty(len(data), "eval_data")
        return by_number(Examples(data), check)
    return by_batch(_again(data, "eval_data"), check)


def _in_memory(data: Any) -> bool:
    return isinstance(data, type) or (has_fields(data) and not mapped_files((data.x, data.y)))


def _check_of(program: Trainable, name: str) -> Check:
    return lambda x, y: jax.tree.map(np.asarray, check_rows(program, Dataset(x, y), name))


class _Noting:
    """A check of rows that remembers the types of the first ones."""

    def __init__(self, check: Check) -> None:
        self.check, self.types = check, ""

    def __call__(self, x: PyTree, y: PyTree) -> Dataset:
        self.types = self.types or types_of(x, y)
        return self.check(x, y)


def types_of(x: PyTree, y: PyTree) -> str:
    """The types of inputs and targets as they come: a fit that goes on checks that the same numbers come again.

    >>> types_of(np.zeros(3), {"a": [True], "b": np.ones(2, np.int8)})
    'float64; bool, int8'
    """
    return "; ".join(
        ", ".join(map(_type, jax.tree.leaves(side, is_leaf=lambda node: isinstance(node, list)))) for side in (x, y)
    )


def _type(array: Array) -> str:
    """Of one array, which may be PyTorch's, or written out as a list."""
    kind = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
    return str(kind).removeprefix("torch.")


def _by_row(
    table: Mapped | Examples, num_rows: int | None, size: int | None, check: _Noting, mesh: Mesh | None
) -> tuple[Stream, int]:
    _check_same(num_rows, len(table))
    check_not_empty(len(table), "data")
    size = check_batch(size, len(table))
    check_spread(size, mesh)
    here = None if mesh is None else rows_here(mesh, size)
    source = ByRow.of(table, size, check, here)
    return Stream(source, size, _shown(source, of_mesh(mesh)), mesh, check.types), size


def _batched(
    data: object, num_rows: int, size: int | None, check: _Noting, mesh: Mesh | None, processes: Alone | Together
) -> tuple[Stream, int]:
    if size is not None:
        check_spread(size, mesh)
    source = Batched.of(_again(data), num_rows, size and max(1, size // processes.count), check, processes.count)
    size = source.batch_size * processes.count
    check_spread(size, mesh)
    if processes.count > 1:
        check_shares(processes, source.first, len(rows_here(mesh, size)))
    return Stream(source, size, _shown(source, processes), mesh, check.types), size


def _shown(source: Source, processes: Alone | Together) -> Any:
    """Rows that the program may be run on outside of the loop, the same in every process."""
    if processes.count == 1:
        return source.first
    return multihost_utils.broadcast_one_to_all(source.first)


def _check_same(num_rows: int | None, rows: int) -> None:
    if num_rows not in (None, rows):
        raise ValueError(f"num_rows={num_rows}, but data has {rows} rows: leave num_rows out, it is for data in batches.")


def _again(data: object, name: str = "data") -> Callable[[], Iterator[Any]]:
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


def _has_numbers(data: object) -> bool:
    """Whether single examples have an index; lists and arrays are taken for batches or columns."""
    plain = isinstance(data, list | tuple | Mapping | str) or hasattr(data, "shape")
    return not plain and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _unknown(data: object) -> Exception:
    batches = not isinstance(data, tuple | Mapping | str) and not hasattr(data, "shape")
    if batches and not isinstance(data, list) and (hasattr(data, "__iter__") or callable(data)):
        return ValueError(
            f"num_rows= is missing, and batches from a {type(data).__name__} do not say it: give the rows of the whole data "
            "set, by which the likelihood of a batch is scaled."
        )
    remedy = ", or say num_rows= of a list of batches" if isinstance(data, list) else ""
    return TypeError(f"data must have fields x and y, got {type(data).__name__}: wrap your arrays as bp.Dataset(x, y){remedy}.")


def check_program_data(program: Trainable, data: object, name: str) -> Dataset:
    """A data set of device arrays, floats as float32; for a `BNN` rows and targets that it understands; else an error."""
    return send_all(check_rows(program, data, name))  # type: ignore[no-any-return]


def check_rows(program: Trainable, data: object, name: str) -> Dataset:
    """`check_program_data` of arrays that stay where they are."""
    trainable: bool = isinstance(program, Trainable)
    if not trainable:
        raise TypeError(f"program must be a bp.BNN or a bp.Program(model, guide), got {type(program).__name__}.")
    if not hasattr(program, "likelihood"):
        return numbers_in(data, name)
    network = cast(BNN, program)
    found = numbers_in(data, name, bytes_stay=True, takes_nan=takes_nan(network))
    network.inputs.check_given(cast(Dataset, data).x, f"{name}.x")
    network.inputs.check(found.x, f"{name}.x")
    network.likelihood.check(np.asarray(found.y), network.output_shape)
    return found


def check_same_length(x: PyTree, y: PyTree, name: str) -> None:
    """Refuse inputs, an array or a tree of them, and targets without rows or of different numbers of rows."""
    *inputs, targets = (tuple(np.shape(leaf)) for leaf in jax.tree.leaves((x, y)))
    for shape in inputs:
        if not shape or not targets or shape[0] != targets[0]:
            raise ValueError(
                f"{name}.x and {name}.y must have one row per example, got {shape} and {targets}: the first sizes must agree."
            )
    check_not_empty(targets[0], name)


def check_not_empty(num_rows: int, name: str) -> None:
    """Refuse data without rows."""
    if num_rows == 0:
        raise ValueError(f"{name} is empty: it has no rows. Check the selection or the split that made it.")


def takes_nan(bnn: BNN) -> bool:
    """Whether NaN among targets means something: that they are missing."""
    return bool(getattr(bnn.likelihood, "takes_nan", False))


def numbers_in(data: Any, name: str, bytes_stay: bool = False, takes_nan: bool = False) -> Dataset:
    """Real numbers out of data with fields x and y, as many rows of each; ``bytes_stay``: see `core.numbers.numbers_of`."""
    check_fields(data, name)
    x, y = numbers_of(data.x, f"{name}.x", bytes_stay), real_numbers(data.y, f"{name}.y", takes_nan)
    found: Dataset = jax.tree.map(laid_automatically, Dataset(x, y))
    check_same_length(*found, name)
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        _check_squares(leaf, name + jax.tree_util.keystr(path))
    return found


def _check_squares(array: np.ndarray | jax.Array, name: str) -> None:
    """Refuse numbers whose squares overflow: of one such the gradient's moments are infinite, and its weights stand still."""
    if not jnp.issubdtype(array.dtype, jnp.floating) or not array.size:
        return
    largest = _largest(array) if isinstance(array, jax.Array) else np.nanmax(np.abs(array), initial=0.0)
    largest, most = float(largest), math.sqrt(float(jnp.finfo(array.dtype).max))
    if largest > most:
        raise ValueError(
            f"{name} holds a value of size {largest:.3g}, whose square is beyond {array.dtype}: look for a mark of "
            "missing values among its numbers, or standardise, bp.data.fit_scaling(x).apply(x)."
        )


def check_batch(batch_size: int | None, num_rows: int) -> int:
    """The number of rows of a batch: all of them for None."""
    if batch_size is None:
        return num_rows
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f"batch_size must be a positive integer, or None for all rows at once; got {batch_size!r}.")
    if batch_size > num_rows:
        raise ValueError(
            f"batch_size={batch_size} is larger than the data set of {num_rows} rows: choose at most {num_rows}, or None for "
            "all rows at once."
        )
    return int(batch_size)


def spread(data: Dataset, batch_size: int, mesh: Mesh | None) -> Dataset:
    """The data on every device of the mesh, whose first axis must divide the batch, and of every process that shares it."""
    check_spread(batch_size, mesh)
    if (processes := of_mesh(mesh)).count > 1:
        check_same(processes, {"data": list(map(array_digest, jax.tree.leaves(data)))})
    return data if mesh is None else everywhere(data, mesh)
