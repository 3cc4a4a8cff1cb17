"""What users give, as editors and type checkers see it.

The calls that users make check their arguments themselves, with errors that name the remedy. Whatever checks types at run time
would come first, with an error that names none; so at run time these types are anything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.layout import Layout


class WithFields(Protocol):
    """A data set by its fields: inputs, an array or a tree of them, and targets."""

    @property
    def x(self) -> Any: ...

    @property
    def y(self) -> Any: ...


@runtime_checkable
class Numbered(Protocol):
    """Rows with an index, each a pair (x, y)."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


class ReadNetwork(Protocol):
    """A `bayesprune.BNN`."""

    @property
    def layout(self) -> Layout: ...

    @property
    def graph(self) -> Any: ...


if TYPE_CHECKING:
    import pandas

    RandomKey: TypeAlias = jax.Array
    GivenRows: TypeAlias = WithFields
    GivenData: TypeAlias = WithFields | Numbered | Iterable[Any] | Callable[[], Iterable[Any]]
    GivenMask: TypeAlias = Mapping[str, ArrayLike] | None
    GivenScale: TypeAlias = ArrayLike | Mapping[str, ArrayLike] | None
    GivenArray: TypeAlias = ArrayLike | Sequence[Any]
    GivenInputs: TypeAlias = ArrayLike | Mapping[str, Any] | Sequence[Any]
    GivenNetwork: TypeAlias = ReadNetwork
    GivenParams: TypeAlias = Mapping[str, Any]
    GivenFrame: TypeAlias = pandas.DataFrame
    GivenColumn: TypeAlias = pandas.Series
    GivenTable: TypeAlias = GivenFrame | jax.Array | np.ndarray | Sequence[Any]
else:
    RandomKey = GivenRows = GivenData = GivenMask = GivenScale = Any
    GivenArray = GivenInputs = GivenNetwork = GivenParams = Any
    GivenFrame = GivenColumn = GivenTable = Any
