"""Choices: how many weights stay, of the whole and of each array, and which; none brings a dead weight back."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Int, Real

from bayesprune.core import masks, trees
from bayesprune.core.checks import check_density, check_name
from bayesprune.core.types import PyTree

SCOPES = ("global", "layer", "per_layer")


def threshold(scores: PyTree, cut: PyTree, within: PyTree = True) -> PyTree:
    """Alive where the score reaches ``cut``, and was alive ``within``.

    ``cut``: one number, or a tree with one (scalar or array) per array of ``scores``; with `scores.evidence` and the zeta of
    (2.6) it is -zeta. ``within``: tree of masks, or True for everything. NaN scores fall. Returns a tree of masks.

    >>> print(threshold(jnp.array([1.0, 2.0, jnp.nan]), 2.0))
    [False  True False]
    """
    cuts, alive = trees.broadcast(cut, scores), trees.broadcast(within, scores)
    return jax.tree.map(lambda s, c, w: (s >= c) & w, scores, cuts, alive)


def keep_density(scores: PyTree, density: PyTree, scope: str = "global", within: PyTree = True) -> PyTree:
    """The highest scores, exactly round(density * size) of them and at least one per array, among the weights of ``within``.

    ``density``: fraction of all weights, dead ones included, in (0, 1]; may be traced; with ``scope="layer"`` also a tree
    with one per array. ``scope``: "global" ranks all arrays together and keeps the best weight of each, so that no layer is cut
    off; "layer" (or "per_layer") gives every array its own count. ``within``: tree of masks, or True. If fewer are alive, all
    stay. Returns a tree of masks. A `ValueError` for a density outside (0, 1] or an unknown scope.

    >>> print(keep_density({"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0, 4.0])}, 0.5))
    {'a': Array([False,  True], dtype=bool), 'b': Array([False,  True], dtype=bool)}

    Source: Zhu & Gupta 2018, section 3.
    """
    check_name("scope", scope, SCOPES)
    jax.tree.map(check_density, density)
    if scope != "global":
        counts = jax.tree.map(lambda s, d: kept(d, s.size), scores, trees.broadcast(density, scores))
        return masks.top_k_leaves(scores, counts, within)
    best = masks.top_k_leaves(scores, 1, within)
    others = jax.tree.map(lambda b, w: w & ~b, best, trees.broadcast(within, scores))
    rest = masks.top_k_tree(scores, kept(density, trees.size(scores)) - masks.count(best), others)
    return jax.tree.map(jnp.logical_or, best, rest)


def kept(density: Real[ArrayLike, ""], size: int) -> Int[Array, ""] | int:
    """How many of ``size`` weights a density keeps: rounded, at least one. Exact for a number, float32 for a traced value.

    >>> kept(0.05, 266_200), kept(1e-9, 10)
    (13310, 1)
    """
    if isinstance(density, int | float):
        return max(1, round(density * size))
    return jnp.maximum(1, jnp.round(density * size).astype(jnp.int32))


DISTRIBUTIONS = ("uniform", "erdos_renyi", "global")
FIRST = ("auto", "dense", "sparse")


def allocate(
    shapes: Mapping[str, tuple[int, ...]], density: float, distribution: str = "uniform", first: str = "auto"
) -> dict[str, int]:
    """Alive weights of each array, site -> count; together exactly round(density * size), each at least one.

    Args:
        shapes: site -> shape, in the order in which the network uses them.
        density: fraction of all weights that is alive, in (0, 1].
        distribution: "uniform", every array at one density; "erdos_renyi", densities proportional to
            sum(shape)/prod(shape), none above 1 (of kernels this is Erdős-Rényi-kernel; vectors fill up first); "global",
            as "uniform", for a start from which arrays may exchange weights with one another.
        first: whether the first array stays dense: "dense", "sparse", or "auto", dense where it is the kernel of a convolution
            (more than two axes) and leaves the others a weight each. The other arrays make up for it. Only "uniform" takes
            "dense": Erdős-Rényi has its own answer, and "global" lets weights leave.

    Raises:
        ValueError: no arrays, a density outside (0, 1], an unknown name, "dense" with another distribution than "uniform", or
            a first array too large to stay dense.

    Example:
        >>> allocate({"Conv_0.kernel": (3, 3, 1, 4), "Dense_0.kernel": (64, 10), "Dense_1.kernel": (32, 10)}, 0.1)
        {'Conv_0.kernel': 36, 'Dense_0.kernel': 43, 'Dense_1.kernel': 21}

    Source: Evci et al. 2020, section 3 (1); Mocanu et al. 2018, equation 3.
    """
    check_density(density)
    check_name("distribution", distribution, DISTRIBUTIONS)
    check_name("first", first, FIRST)
    if first == "dense" and distribution != "uniform":
        raise ValueError(f"first='dense' goes with distribution='uniform', not {distribution!r}: leave it out.")
    if not shapes:
        raise ValueError("allocate shares weights out to arrays, and there is none: give shapes.")
    sizes = {site: math.prod(shape) for site, shape in shapes.items()}
    total = max(len(sizes), int(kept(float(density), sum(sizes.values()))))
    if distribution == "erdos_renyi":
        return _share(total, sizes, {site: float(max(sum(shape), 1)) for site, shape in shapes.items()})
    dense = _dense_first(shapes, first) if distribution == "uniform" else {}
    rest = {site: size for site, size in sizes.items() if site not in dense}
    if total - sum(dense.values()) < len(rest):
        if first == "auto":
            return _share(total, sizes, sizes)
        raise ValueError(
            f"first='dense' keeps all {sum(dense.values())} weights of {next(iter(dense))!r}, and density={density} leaves "
            f"{total} for the whole network: choose a higher density, or first='sparse'."
        )
    return dense | _share(total - sum(dense.values()), rest, rest)


def _dense_first(shapes: Mapping[str, tuple[int, ...]], first: str) -> dict[str, int]:
    site, shape = next(iter(shapes.items()))
    dense = len(shapes) > 1 and (first == "dense" or (first == "auto" and len(shape) > 2))
    return {site: math.prod(shape)} if dense else {}


def _share(total: int, sizes: Mapping[str, int], parts: Mapping[str, int | float]) -> dict[str, int]:
    """``total`` in whole numbers, proportional to ``parts`` where 1 <= count <= size allows it.

    Arrays that the proportion would overfill, or leave empty, are settled one after another, the worst first; the others share
    what remains. Whole numbers by largest remainders.
    """
    counts: dict[str, int] = {}
    while len(counts) < len(sizes):
        open_sites = [site for site in sizes if site not in counts]
        unit = (total - sum(counts.values())) / sum(parts[site] for site in open_sites)
        wanted = {site: unit * parts[site] for site in open_sites}
        full = max(open_sites, key=lambda site: wanted[site] / sizes[site])
        empty = min(open_sites, key=lambda site: wanted[site])
        if wanted[full] > sizes[full]:
            counts[full] = sizes[full]
        elif wanted[empty] < 1:
            counts[empty] = 1
        else:
            counts |= _rounded(total - sum(counts.values()), wanted)
    return {site: counts[site] for site in sizes}


def _rounded(total: int, wanted: Mapping[str, float]) -> dict[str, int]:
    """Whole numbers that sum to ``total``; of equal remainders the earlier array gets the weight."""
    down = {site: math.floor(value) for site, value in wanted.items()}
    order = sorted(wanted, key=lambda site: down[site] - wanted[site])
    return down | {site: down[site] + 1 for site in order[: total - sum(down.values())]}
