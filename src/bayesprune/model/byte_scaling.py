"""Rows of bytes, scaled where the network runs: a quarter of the memory and of what is sent to the device."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from bayesprune.core.types import Array

_REMEDY = "give bp.data.Scaling(0.0, 255.0) for x / 255, or its loc and scale as one number for each of x's last axis"


@dataclass(frozen=True)
class ByteScaling:
    """(x - loc) / scale of bytes x, each of its 256 values rounded to float32 once: what `data.Scaling` gives on the host.

    ``loc``, ``scale``: one number each, or one for every entry of the last axis.

    >>> scaling = ByteScaling((0.0,), (255.0,))
    >>> scaling(jnp.array([[0, 51, 255]], jnp.uint8)).tolist()
    [[0.0, 0.20000000298023224, 1.0]]
    """

    loc: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, scaling: object, leaves: tuple[tuple[tuple[int, ...], str], ...]) -> "ByteScaling":
        """Of anything with fields loc and scale, for rows of one array. Raises `TypeError` and `ValueError` with the remedy."""
        if isinstance(scaling, type) or not (hasattr(scaling, "loc") and hasattr(scaling, "scale")):
            raise TypeError(f"scaling must have fields loc and scale, got {scaling!r}: {_REMEDY}.")
        if len(leaves) != 1:
            raise TypeError("scaling is for one array of bytes, and the network takes several: let its first lines scale them.")
        (shape, _), = leaves  # fmt: skip
        loc, scale = (np.asarray(part, np.float64) for part in (scaling.loc, scaling.scale))
        for part in (loc, scale):
            if part.shape not in ((), (1,), shape[-1:]):
                raise ValueError(f"scaling has loc and scale of shape {part.shape}, and rows have {shape}: {_REMEDY}.")
        if not (np.isfinite(loc).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError(f"scaling must have finite numbers, and a scale above 0, got {scaling!r}: {_REMEDY}.")
        loc, scale = np.broadcast_arrays(np.atleast_1d(loc), np.atleast_1d(scale))
        return cls(tuple(loc.tolist()), tuple(scale.tolist()))

    def __call__(self, x: UInt8[jax.Array, "*rows"]) -> Float[jax.Array, "*rows"]:
        # Looked up, for XLA divides by a constant otherwise than IEEE 754 has it.
        table = (np.arange(256.0)[:, None] - np.array(self.loc)) / np.array(self.scale)
        values = jnp.asarray(table.astype(np.float32))
        return values[x, jnp.arange(values.shape[1])] if values.shape[1] > 1 else values[:, 0][x]

    def by_arithmetic(self, x: jax.Array) -> jax.Array:
        """The same of bytes kept as real numbers, to within rounding: for what has sums and quotients, and no look-up."""
        return (x - jnp.asarray(self.loc, jnp.float32)) / jnp.asarray(self.scale, jnp.float32)

    def taken(self, x: Array) -> jax.Array:
        """The rows as the network gets them; real numbers are rows that were scaled before."""
        array = jnp.asarray(x)
        if array.dtype == jnp.uint8:
            return self(array)
        if jnp.issubdtype(array.dtype, jnp.floating):
            return array
        raise TypeError(f"x must be bytes, dtype uint8, for the network scales them, got {array.dtype}: x.astype(np.uint8).")

    def check(self, x: Array, name: str) -> None:
        """Refuse rows that are no bytes: whether they were scaled already, nothing says."""
        if x.dtype != np.uint8:
            raise TypeError(
                f"{name} must be bytes, dtype uint8, for the network was built with scaling= and scales them itself, got "
                f"{x.dtype}: give the rows before they were scaled, or build the BNN without scaling=."
            )
