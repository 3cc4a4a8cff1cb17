"""Rematerialisation: what the backward pass finds from the forward pass, and what it makes again."""

import math
from collections.abc import Callable, Collection
from typing import Any

import jax
from jax.extend.core import Primitive

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
