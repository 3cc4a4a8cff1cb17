"""Ready-made batches: lists, PyTorch's and Grain's loaders, tf.data, functions that return iterators.

What says where it is, as Grain's iterators do, goes on from there. All else is read again from its beginning when a fit is
resumed, and a checksum tells whether it gave the same batches.
"""

import base64
import json
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesprune.core.types import Dataset
from bayesprune.train.sites import Example
from bayesprune.train.sources.source import Check, Incoming, Place, Read, as_pair, example_of, like, rebatched


@dataclass(frozen=True)
class Batched:
    """Epoch after epoch of what ``again()`` returns, a new iterator of batches, cut to ``batch_size`` rows.

    Of several processes each has its own share of the rows, and of every minibatch; ``processes``: how many there are.
    ``largest``: rows of the largest batch that an epoch may leave out at its end; ``tells``: whether iterators say where they
    are, and can be put there. ``gone``: the iterator that was looked at, if it is of a kind that cannot begin anew.
    """

    again: Callable[[], Iterator[Any]]
    batch_size: int
    check: Check
    first: Dataset
    example: Example
    largest: int
    tells: bool
    processes: int = 1
    gone: Any = None

    @classmethod
    def of(
        cls, again: Callable[[], Iterator[Any]], num_rows: int, batch_size: int | None, check: Check, processes: int = 1
    ) -> "Batched":
        """``batch_size``: None for that of the batches."""
        iterator = again()
        item = next(iterator, None)
        if item is None:
            raise ValueError("data gives no batches: it is empty, or an iterator that is used up.")
        found = check(*as_pair(item))
        size = min(len(found.y), num_rows) if batch_size is None else batch_size
        first, _ = next(rebatched([Incoming(found, 0, 0)] * -(-size // len(found.y)), size))  # rows enough, perhaps some twice
        largest, tells = max(size, len(found.y)), _has_state(iterator)
        gone = iterator if type(iterator).__module__ in ("builtins", "itertools") else None  # generators are of builtins
        return cls(again, size, check, first, example_of(first, num_rows), largest, tells, processes, gone)

    def read(
        self, rng_key: jax.Array | None, number: int, begun: int, state: Mapping[str, Any] | None, keep: bool
    ) -> Iterator[Read]:
        tells = self.tells and keep
        epoch, inner = state["at"] if tells and state is not None else (0, None)
        used = state["used"] if tells and state is not None else 0
        read = rebatched(self._incoming(tells, epoch, inner), self.batch_size, used)
        if tells:
            return (Read(batch, place._asdict()) for batch, place in read)
        return self._with_sums(read, number, state, keep)

    def described(self) -> str:
        kind = "batches that say where they are" if self.tells else "batches"
        return f"{kind}, {self.example.leaves}"

    def _with_sums(
        self, read: Iterator[tuple[Dataset, Place]], number: int, state: Mapping[str, Any] | None, keep: bool
    ) -> Iterator[Read]:
        checksum = 0
        for count, (batch, _) in enumerate(read, 1):
            if keep or count <= number:
                checksum = _checksum(batch, checksum)
            if count == number and state is not None and state["checksum"] != checksum:
                raise ValueError(
                    "data gave other batches than before it was interrupted, so that the fit would not be the same: seed what "
                    "shuffles them, or give a Grain dataset or a memory-mapped array, which remember where they are."
                )
            if count > number:
                yield Read(batch, {"checksum": checksum} if keep else None)

    def _incoming(self, tells: bool, epoch: int, inner: Mapping[str, Any] | None) -> Iterator[Incoming]:
        """Batches of epoch ``epoch`` and all that follow it; ``inner``: where its iterator is, None at its beginning."""
        while True:
            iterator, rows = self.again(), 0
            if self.gone is not None and iterator is self.gone:
                raise ValueError(
                    "data gives the same iterator at every call, and its first batch was read to see what it holds: it can be "
                    "read only once. Give a list, or a function that makes a new iterator at every call."
                )
            whole = inner is None
            if not whole:
                iterator.set_state(_decoded(inner))  # type: ignore[attr-defined]
            before = (epoch, _encoded(iterator)) if tells else None
            for item in iterator:
                batch = like(self.check(*as_pair(item)), self.first)
                rows += len(batch.y)
                after = (epoch, _encoded(iterator)) if tells else None
                yield Incoming(batch, before, after)
                before = after
            if whole:
                self._check_epoch(epoch, rows)
            epoch, inner = epoch + 1, None

    def _check_epoch(self, epoch: int, rows: int) -> None:
        if not rows:
            raise ValueError(
                f"data gave no batches in epoch {epoch + 1}: it can be read only once. Give a list, or a function that returns "
                "a new iterator at every call."
            )
        beyond = rows - self.example.num_rows / self.processes
        # Loaders leave a last batch out, or fill it up; of one process none ends with a part of a batch beyond the data.
        if epoch == 0 and (abs(beyond) >= self.largest or (self.processes == 1 and beyond > 0 and rows % self.largest)):
            where = f" in one of {self.processes} processes" if self.processes > 1 else ""
            warnings.warn(
                f"the first epoch of data had {rows} rows{where}, and num_rows={self.example.num_rows}, by which the "
                "likelihood is scaled: give the number of rows of the whole data set.",
                UserWarning,
                stacklevel=2,
            )


def _has_state(iterator: object) -> bool:
    return callable(getattr(iterator, "get_state", None)) and callable(getattr(iterator, "set_state", None))


def _encoded(iterator: Any) -> Any:
    """The iterator's state in a form that JSON holds."""
    state = iterator.get_state()
    if isinstance(state, bytes):
        return {"base64": base64.b64encode(state).decode()}
    text = json.dumps(state)
    if json.loads(text) != state:
        raise TypeError(f"data has an iterator whose state no checkpoint can hold, {text[:80]}: fit without checkpoint=.")
    return {"json": text}


def _decoded(state: Any) -> Any:
    return base64.b64decode(state["base64"]) if "base64" in state else json.loads(state["json"])


def _checksum(batch: Dataset, checksum: int) -> int:
    for array in jax.tree.leaves(batch):
        checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, checksum)
    return checksum
