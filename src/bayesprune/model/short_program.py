"""A network that is computed from slices of its weight arrays, as a program of the same sites with smaller arrays."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from bayesprune.core.types import PyTree
from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import Single, Slices
from bayesprune.model.transforms.entries import Entries, of_entries
from bayesprune.model.transforms.lower import lower_convolutions, plain_convolutions
from bayesprune.model.transforms.part_rules import run_parts
from bayesprune.model.transforms.parts import Kept, Part, short_shape, whole


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
        static = tuple(place for place, one in enumerate(args, 1) if isinstance(one, bool))  # switches, which no trace follows
        with plain_convolutions():  # that they can be seen in the trace
            closed, result = jax.make_jaxpr(apply, return_shape=True, static_argnums=static)(abstract, *args)
        parts = [
            Part(params[n], shapes[n], index[n], True) if n in shapes else Part.whole(params[n], True)
            for n in sorted(params)  # as JAX lays dictionaries out
        ]
        moving = [leaf for place, one in enumerate(args, 1) if place not in static for leaf in jax.tree.leaves(one)]
        parts += [Part.whole(leaf) for leaf in moving]
        done = run_parts(closed.jaxpr, closed.consts, parts, strict)
        return jax.tree.unflatten(jax.tree.structure(result), [whole(part).value for part in done])

    return short


# An array of at least so many numbers, of which at most this share lives, is held by its single entries.
FEWEST, MOST = 4096, 0.5


def slices_in_use(bnn: BNN, mask: Mapping[str, np.ndarray]) -> Slices:
    """The slices of each array of a mask that hold a living weight, or belong to a unit that has one.

    Cut short are the axes of inputs and of outputs, the positions of a convolution stay. An array's slices go with its unit's:
    a kernel's column, the bias and the rows that read it stay or leave together, so that nothing has to be put in order between
    them. The least are two of an axis: one would look like a constant.
    """
    lives = np.zeros(bnn.units.count + 1, bool)  # the last, which -1 shows, for none
    for site, alive in mask.items():
        for of_unit in (bnn.units.producers[site], bnn.units.consumers[site]):
            lives[np.broadcast_to(of_unit, alive.shape)[alive]] = True
    lives[-1] = False
    slices = []
    for site, alive in mask.items():
        role, kept = bnn.graph.roles[site], []
        made, read = (lives[np.broadcast_to(of[site], alive.shape)] for of in (bnn.units.producers, bnn.units.consumers))
        for axis in range(alive.ndim):
            others = tuple(a for a in range(alive.ndim) if a != axis)
            stays = np.array(alive.any(others))
            if axis in role.inputs:
                stays |= read.any(others)
            elif axis in role.outputs:
                stays |= made.any(others)
            else:
                stays[:] = True
            stays[: 2 if stays.sum() < 2 else 0] = True
            kept.append(None if stays.all() else tuple(np.flatnonzero(stays).tolist()))
        if any(index is not None for index in kept):
            slices.append((site, alive.shape, tuple(kept)))
    return tuple(slices)


def single_entries(mask: Mapping[str, np.ndarray], slices: Slices) -> Single:
    """The living entries of the arrays that are mostly dead, also in the slices that are there."""
    known = {site: kept for site, _, kept in slices}
    found = []
    for site, alive in mask.items():
        kept, count = known.get(site, (None,) * alive.ndim), int(np.count_nonzero(alive))
        if 0 < count <= MOST * math.prod(short_shape(alive.shape, kept)) and alive.size >= FEWEST:
            found.append((site, Entries.at(np.flatnonzero(alive), alive.shape, kept)))
    return tuple(found)


def numbers_in(bnn: BNN, slices: Slices, single: Single = ()) -> int:
    """Numbers in the network's arrays, of which these slices are there, or entries."""
    short = {site: math.prod(short_shape(sizes, kept)) for site, sizes, kept in slices}
    short |= {site: len(entries) for site, entries in single}
    return sum(short.get(str(spec.path), math.prod(spec.shape)) for spec in bnn.layout)


def cut_short(bnn: BNN, slices: Slices, strict: bool = False, single: Single = ()) -> BNN:
    """The network with arrays of these slices alone, whose other weights are dead: the same outputs from smaller products.

    ``single``: arrays that are held as vectors of their entries.

    ``strict``: as of `of_short_arrays`, whose `UnfitError` the program then raises where it is run.
    """
    kept, sizes = {site: one for site, _, one in slices}, {site: shape for site, shape, _ in slices}
    other, entries = copy.copy(bnn), dict(single)
    shapes = {site: short_shape(sizes[site], one) for site, one in kept.items()}
    shapes |= {site: (len(one),) for site, one in single}
    other.layout = tuple(spec._replace(shape=shapes.get(str(spec.path), spec.shape)) for spec in bnn.layout)
    apply = of_short_arrays(bnn._net.apply, sizes, kept, strict)
    lowered = lower_convolutions(apply)
    other._net = replace(bnn._net, apply=of_entries(lowered, entries) if entries else lowered)
    other._key = (*bnn._key, slices, strict, single)
    return other
