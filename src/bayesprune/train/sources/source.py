"""What every source of minibatches is, and the two things that all of them ask of what they are given."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from bayesprune.core.fields import check_no_weights
from bayesprune.core.types import Dataset
from bayesprune.train.sites import Example

Check = Callable[[Any, Any], Dataset]  # x and y of some rows as they come -> arrays that a fit takes, or an error by name


class Read(NamedTuple):
    """A minibatch of host arrays; ``after``: where the reading is then, for `Source.read`, in a form that JSON holds."""

    batch: Dataset
    after: Any


@runtime_checkable
class Source(Protocol):
    """Minibatches without end.

    ``example``: shapes and types, as of all rows in one array; ``first``: a minibatch to look at.
    """

    @property
    def example(self) -> Example: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def first(self) -> Dataset: ...

    def read(self, rng_key: jax.Array, number: int, begun: int, state: Mapping[str, Any] | None, keep: bool) -> Iterator[Read]:
        """From minibatch ``number`` on, where ``state`` was the reading's; states come with minibatches that are kept.

        ``begun``: minibatches of the fits that this one goes on from, where that says which rows follow.
        """

    def described(self) -> str:
        """What identifies the data, as far as it is known without reading all of them."""


def as_pair(item: object, names: tuple[str, str] = ("x", "y")) -> tuple[Any, Any]:
    """Inputs and targets of one row or batch: of fields or keys ``names``, or of a pair. Weights beside them are refused."""
    x, y = names
    check_no_weights(item, "data", names)
    if hasattr(item, x) and hasattr(item, y):
        return getattr(item, x), getattr(item, y)
    if isinstance(item, Mapping) and x in item and y in item:
        return item[x], item[y]
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    keys = f" with keys {', '.join(map(str, item))}" if isinstance(item, Mapping) else ""
    raise TypeError(
        f"data must give pairs (x, y), got {type(item).__name__}{keys}: map each to a pair, as in "
        "(lambda item: (item['image'], item['label'])) of a Grain dataset or a tf.data one, or in a generator function."
    )


def like(batch: Dataset, first: Dataset) -> Dataset:
    """The batch, refused where its rows are of another shape or type than those of ``first``."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(batch), jax.tree.leaves(first), strict=True)
    for (path, new), old in pairs:
        if new.shape[1:] != old.shape[1:] or new.dtype != old.dtype:
            was, now = (f"{leaf.shape[1:]}, {leaf.dtype}" for leaf in (old, new))
            raise ValueError(
                f"data{jax.tree_util.keystr(path)} had rows of shape {was}, and now of {now}: all batches must be alike; pad "
                "them to one shape, and cast them to one type."
            )
    return batch


def example_of(first: Dataset, num_rows: int) -> Example:
    """The example of ``num_rows`` rows like the first ones."""
    if num_rows > np.iinfo(np.int32).max:
        raise ValueError(f"data has {num_rows:,} rows, beyond int32: give an endless source in batches, and say num_rows=.")
    return Example.of(first, num_rows)


class Incoming(NamedTuple):
    """A batch as it came; reading on from ``before`` gives it again, from ``after`` the next one."""

    batch: Dataset
    before: Any
    after: Any


class Place(NamedTuple):
    """Where to read on: from ``at``, leaving out the first ``used`` rows."""

    at: Any
    used: int


def rebatched(incoming: Iterable[Incoming], size: int, used: int = 0) -> Iterator[tuple[Dataset, Place]]:
    """Batches of ``size`` rows in the order in which the rows come, none left out, and where the reading is after each.

    ``used``: rows of the first one that are left out.

    >>> rows = np.arange(7)
    >>> parts = [Incoming(Dataset(rows[:4], rows[:4]), 0, 1), Incoming(Dataset(rows[4:], rows[4:]), 1, 2)]
    >>> [(batch.x.tolist(), tuple(place)) for batch, place in rebatched(parts, 3)]
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
