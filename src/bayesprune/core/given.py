"""What users give, as editors and type checkers see it.

The calls that users make check their arguments themselves, with errors that name the remedy. Whatever checks types at run time
would come first, with an error that names none; so at run time these types are anything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import jax
from jax.typing import ArrayLike


class Rows(Protocol):
    """A data set by its fields: inputs, an array or a tree of them, and targets."""

    @property
    def x(self) -> Any: ...

    @property
    def y(self) -> Any: ...


if TYPE_CHECKING:
    RandomKey: TypeAlias = jax.Array
    GivenRows: TypeAlias = Rows
    GivenData: TypeAlias = Rows | Sequence[Any] | Iterable[Any] | Callable[[], Iterable[Any]]
    GivenMask: TypeAlias = Mapping[str, ArrayLike] | None
    GivenParams: TypeAlias = Mapping[str, Any]
else:
    RandomKey = GivenRows = GivenData = GivenMask = GivenParams = Any
