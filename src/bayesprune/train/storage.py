"""Where the weights of a fit are kept: whole arrays, or only those that are alive.

Each storage has the same functions. *Kept* values are what the optimiser sees and what lasts from step to step; *whole*
ones have the shapes of the program.
"""

import functools
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from bayesprune.core import masks
from bayesprune.core.types import Sparsifier
from bayesprune.posteriors.params import stems
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import needs_of

STORAGES = ("masked", "active", "compact", "auto")


@dataclass(frozen=True)
class WithMask:
    """Whole arrays, and a mask beside them."""

    def keep_mask(self, mask: dict[str, Any]) -> dict[str, Any]:
        return mask

    def whole_mask(self, kept: dict[str, Any]) -> dict[str, Any]:
        return kept

    def keep(self, params: dict[str, Any], kept_mask: dict[str, Any]) -> dict[str, Any]:
        return params

    def whole(self, params: dict[str, Any], kept_mask: dict[str, Any]) -> dict[str, Any]:
        return params

    def movers(self, params: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> dict[str, Callable[..., Any]]:
        """For the parameters of masked sites, what becomes of an optimiser's arrays: fresh where a weight changed sides."""
        return {name: _refresh(old[site] ^ new[site]) for name, site in stems(params, old).items()}

    def density(self, kept_mask: dict[str, Any]) -> float:
        return float(masks.density(kept_mask))

    def thrifty(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        """The loss as it is: its backward pass finds everything that the forward pass made."""
        return loss


MASKED = WithMask()


def _refresh(changed: jax.Array) -> Callable[[Any, Any], Any]:
    return lambda leaf, fresh: jnp.where(changed, fresh, leaf) if jnp.shape(leaf) == changed.shape else leaf


@functools.partial(jax.jit, static_argnums=1)
def _alive_at(mask: jax.Array, count: int) -> jax.Array:
    """The positions of the alive, in order."""
    return jnp.flatnonzero(mask, size=count, fill_value=0).astype(jnp.int32)


@dataclass(frozen=True)
class Active:
    """Only the alive weights: a vector of values for each parameter, and the sorted positions that they have in the array.

    A whole array exists while a layer uses it, and at mask updates. The number of alive weights of each array is fixed.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    counts: tuple[tuple[str, int], ...]

    def keep_mask(self, mask: dict[str, Any]) -> dict[str, Any]:
        """Positions, int32, in the place of booleans."""
        return {site: _alive_at(mask[site], count) for site, count in self.counts}

    def whole_mask(self, kept: dict[str, Any]) -> dict[str, Any]:
        return {site: _scatter(jnp.ones(kept[site].shape, bool), kept[site], shape) for site, shape in self.shapes}

    def keep(self, params: dict[str, Any], kept_mask: dict[str, Any]) -> dict[str, Any]:
        mine = stems(params, kept_mask)
        return {n: jnp.reshape(v, -1)[kept_mask[mine[n]]] if n in mine else v for n, v in params.items()}

    def whole(self, params: dict[str, Any], kept_mask: dict[str, Any]) -> dict[str, Any]:
        """Dead entries are 0 here, in unconstrained coordinates; their mask hides them."""
        mine, shapes = stems(params, kept_mask), dict(self.shapes)
        return {n: _scatter(v, kept_mask[mine[n]], shapes[mine[n]]) if n in mine else v for n, v in params.items()}

    def movers(self, params: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> dict[str, Callable[..., Any]]:
        """For the parameters of masked sites, what becomes of an optimiser's vectors: fresh for reactivated weights."""
        return {name: _carry_over(old[site], new[site]) for name, site in stems(params, old).items()}

    def density(self, kept_mask: dict[str, Any]) -> float:
        return sum(count for _, count in self.counts) / sum(math.prod(shape) for _, shape in self.shapes)

    def thrifty(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        """The loss whose backward pass makes whole arrays again, layer by layer, instead of finding all of them."""
        return without(loss, {shape for _, shape in self.shapes})


def _scatter(values: jax.Array, index: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    whole = jnp.zeros(math.prod(shape), values.dtype)
    return whole.at[index].set(values, unique_indices=True, indices_are_sorted=True).reshape(shape)


def _carry_over(old: jax.Array, new: jax.Array) -> Callable[[Any, Any], Any]:
    """From values at the sorted positions ``old`` to those at ``new``, fresh where a position was not there."""
    place = jnp.minimum(jnp.searchsorted(old, new), old.shape[0] - 1)
    found = old[place] == new

    def move(leaf: jax.Array, fresh: jax.Array) -> Any:
        return jnp.where(found, leaf[place], fresh) if jnp.shape(leaf) == old.shape else leaf

    return move


Storage = WithMask | Active


def make_storage(name: str, sparsifier: Sparsifier, mask: dict[str, Any]) -> Storage:
    """The storage of a name, one of `STORAGES`, for a fit that starts from ``mask``.

    Raises `ValueError` for "active" where there is no mask or its counts would change.
    """
    if name != "active":  # the others have whole arrays between steps; `train.shrinking` knows what they do with them
        return MASKED
    if not mask:
        raise ValueError("storage='active' keeps alive weights only, and nothing is dead: give sparsifier= or mask=.")
    if not (isinstance(sparsifier, KeepAll) or needs_of(sparsifier).constant_counts):
        raise ValueError(
            f"storage='active' needs as many alive weights in each array throughout, and {sparsifier} changes them: use "
            "methods.SSVI with distribution='uniform' or 'erdos_renyi', or storage='masked'."
        )
    sites = {site: (tuple(alive.shape), int(alive.sum())) for site, alive in mask.items()}
    empty = [site for site, (_, count) in sites.items() if not count]
    if empty:
        raise ValueError(f"storage='active' needs an alive weight in every array, and {empty} have none: widen mask=.")
    return Active(tuple((s, shape) for s, (shape, _) in sites.items()), tuple((s, count) for s, (_, count) in sites.items()))


# Matrix products and convolutions: expensive to compute again.
_product = jax.checkpoint_policies.dots_saveable


def products_only(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss; its backward pass finds what products gave, and makes all the rest again."""
    return jax.checkpoint(loss, policy=_product)


def without(loss: Callable[..., Any], shapes: Collection[tuple[int, ...]]) -> Callable[..., Any]:
    """The loss; its backward pass makes again what anything but a product made from, or filled into, arrays of these shapes.

    The same arrays laid out as vectors count too. An activation that happens to be of such a shape is made again as well.
    """
    barred = set(shapes) | {(math.prod(shape),) for shape in shapes}

    def kept(primitive: Primitive, *operands: object, **settings: object) -> bool:
        # A fill has no operand of its shape, which is among its settings.
        touched = {getattr(operand, "shape", None) for operand in operands} | {settings.get("shape")}
        return _product(primitive, *operands, **settings) or not touched & barred

    return jax.checkpoint(loss, policy=kept)
