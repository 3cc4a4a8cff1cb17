"""A network that is computed from slices of its weight arrays, as a program of the same sites with smaller arrays."""

import copy
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import Single, Slices
from bayesprune.model.transforms.entries import Entries, of_entries
from bayesprune.model.transforms.lower import lower_convolutions
from bayesprune.model.transforms.parts import short_shape
from bayesprune.model.transforms.short_arrays import of_short_arrays

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

    ``strict``: as of `transforms.short_arrays.of_short_arrays`, whose `UnfitError` the program then raises where it is run.
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
