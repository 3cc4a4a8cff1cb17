"""To the device, said so: `jax.transfer_guard("disallow")` lets it pass, and refuses arithmetic with numbers of the host."""

from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from bayesprune.core.types import PyTree


def send(value: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """A number or an array of the host as one of the device; one that is there already stays, but for its type.

    >>> send(3, np.int32), send(np.ones(2)).dtype
    (Array(3, dtype=int32), dtype('float32'))
    """
    if isinstance(value, jax.Array):
        return value if dtype is None else value.astype(dtype)
    return jax.device_put(np.asarray(value, dtype))


def send_all(tree: PyTree) -> Any:
    """Every array and number of a tree."""
    return jax.tree.map(send, tree)
