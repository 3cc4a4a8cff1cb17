"""What every source of minibatches is, and the two things that all of them ask of what they are given."""

from collections.abc import Callable, Iterator, Mapping
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
