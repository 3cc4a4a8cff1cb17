"""A network computed from slices of its weight arrays: those that are left out hold nothing but zeros."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from bayesprune.core.types import PyTree
from bayesprune.model.transforms.lower import plain_convolutions
from bayesprune.model.transforms.part_rules import run_parts
from bayesprune.model.transforms.parts import Kept, Part, whole


def of_short_arrays(
    apply: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]], kept: Mapping[str, Kept], strict: bool = False
) -> Callable[..., Any]:
    """``apply(params, *args)`` for params of which arrays are cut short: the same results, of as few slices as they need.

    Whatever the network: what has no rule in `part_rules` is done on whole arrays, zeros put back.

    Args:
        apply: a function of arrays by name, and of other arguments.
        shapes: name -> whole shape, of those that are cut short.
        kept: name -> by axis the slices that are there, None for all.
        strict: refuse, by `parts.UnfitError`, where a weight array would have to be given other slices than it has.

    >>> import jax.numpy as jnp
    >>> net = lambda params, x: jax.nn.relu(x @ params["a"]) @ params["b"]
    >>> short = of_short_arrays(net, {"a": (3, 4), "b": (4, 2)}, {"a": (None, (1, 3)), "b": ((1, 3), None)})
    >>> short({"a": jnp.ones((3, 2)), "b": jnp.ones((2, 2))}, jnp.ones((1, 3))).tolist()
    [[6.0, 6.0]]
    """
    index = {name: tuple(None if one is None else np.array(one) for one in axes) for name, axes in kept.items()}

    def short(params: Mapping[str, Any], *args: PyTree) -> Any:
        abstract = {n: jax.ShapeDtypeStruct(shapes[n], v.dtype) if n in shapes else v for n, v in params.items()}
        with plain_convolutions():  # that they can be seen in the trace
            closed, result = jax.make_jaxpr(apply, return_shape=True, static_argnums=_static(args))(abstract, *args)
        parts = [
            Part(params[n], shapes[n], index[n], True) if n in shapes else Part.whole(params[n], True)
            for n in sorted(params)  # as JAX lays dictionaries out
        ]
        moving = [leaf for place, one in enumerate(args) if place + 1 not in _static(args) for leaf in jax.tree.leaves(one)]
        parts += [Part.whole(leaf) for leaf in moving]
        done = run_parts(closed.jaxpr, closed.consts, parts, strict)
        return jax.tree.unflatten(jax.tree.structure(result), [whole(part).value for part in done])

    return short


def _static(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The places of switches, which no trace follows."""
    return tuple(place + 1 for place, one in enumerate(args) if isinstance(one, bool))
