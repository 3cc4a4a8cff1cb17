"""A compact network as an Equinox module without a parameter for any zero."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.given import RandomKey
from bayesprune.core.types import ArrayTree
from bayesprune.model.transforms.entries import Entries


class EquinoxModule(eqx.Module):
    """See `Compact.to_equinox`. ``places``: of the values in their flat arrays, whole numbers, which no filter trains."""

    values: dict[str, jax.Array]
    places: dict[str, jax.Array]
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    apply: Callable[..., Any] = eqx.field(static=True)

    def __init__(self, apply: Callable[..., Any], trainable: Mapping[str, np.ndarray]) -> None:
        self.apply = apply
        found = {name: Entries.living(array) for name, array in trainable.items()}
        self.values = {name: one.taken(jnp.asarray(trainable[name])) for name, one in found.items()}
        self.places = {name: jnp.asarray(one.places) for name, one in found.items()}
        self.shapes = tuple((name, one.sizes) for name, one in found.items())

    def weights(self) -> dict[str, jax.Array]:
        """The arrays with their zeros, as `Compact.net` has them."""

        def whole(name: str, shape: tuple[int, ...]) -> jax.Array:
            values = self.values[name]
            return jnp.zeros(math.prod(shape), values.dtype).at[self.places[name]].set(values).reshape(shape)

        return {name: whole(name, shape) for name, shape in self.shapes}

    def __call__(self, x: ArrayTree, *, key: RandomKey | None = None) -> Any:
        """The outputs of one row; a ``key``, which other modules may need, changes nothing."""
        made = self.apply(self.weights(), jax.tree.map(lambda part: jnp.asarray(part)[None], x))
        return jax.tree.map(lambda part: part[0], made)
