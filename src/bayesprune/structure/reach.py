"""Weights in use: alive, fed by something, and on the way to an output."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from bayesprune.core.checks import check_mask
from bayesprune.structure.graph import CONSTANT, NOTHING, Graph, Labels, Terms

Alive = Bool[np.ndarray, "..."]
Flags = Bool[np.ndarray, " signals"]


def reachable(graph: Graph, mask: Mapping[str, Any]) -> dict[str, Alive]:
    """The mask without the weights that no output depends on, or that are multiplied by zero alone.

    ``mask``: {site: booleans, True = alive}; sites that it does not name are whole. The network gives the same outputs without
    the weights that are left out, whatever the values of its weights and its rows, if they are finite: a weight goes only where
    the dead ones make what it multiplies exactly zero, or what it adds to unneeded. A unit that nothing feeds but its bias is a
    constant, which is in use where it is read, as is one that an activation makes of zero (sigmoid, softplus, cosine) and one
    that a batch norm makes of it. Channels count as a whole: of a convolution's kernel all positions are one.

    Raises ``ValueError`` for unknown sites, other shapes, or masks that are not boolean.
    """
    given = check_mask(mask, {site: role.shape for site, role in graph.roles.items()})
    alive = {site: np.asarray(values) for site, values in given.items()}
    used = _used(graph, alive, carried(graph, alive))
    kept = {site for site in graph.unfollowed if site in alive}
    return {site: alive[site] if site in kept else used[site] for site in given}


def carried(graph: Graph, alive: Mapping[str, Alive]) -> Flags:
    """Which signals may differ from zero, going with the data."""
    flags = np.zeros(graph.num_signals + 1, bool)  # the last, which -1 shows, stands for exact zeros
    flags[CONSTANT] = True
    for terms in graph.terms:
        _mark(flags, terms.target, _factor(terms, alive) & _met(terms, flags))
    return flags


def _used(graph: Graph, alive: Mapping[str, Alive], carried: Flags) -> dict[str, Alive]:
    """Which weights an output depends on, going against the data."""
    needed = np.zeros_like(carried)
    needed[graph.outputs] = True
    needed[NOTHING] = False
    used = {site: np.zeros(values.shape, bool) for site, values in alive.items()}
    for terms in reversed(graph.terms):
        wanted = needed[terms.target]
        if terms.site in used:
            meets = (wanted & _met(terms, carried)).any(axis=0)  # classes come first
            used[terms.site] |= alive[terms.site] & meets
        wanted = wanted & _factor(terms, alive)
        if terms.other is None:
            _mark(needed, terms.source, wanted)
        else:
            _mark(needed, terms.source, wanted & carried[terms.other])
            _mark(needed, terms.other, wanted & carried[terms.source])
    return used


def _met(terms: Terms, carried: Flags) -> Any:
    """Where what a term's weight is multiplied by may differ from zero."""
    return carried[terms.source] if terms.other is None else carried[terms.source] & carried[terms.other]


def _mark(flags: Flags, labels: Labels, there: bool | np.bool_ | np.ndarray) -> None:
    """Set the flags of labels where it holds; anywhere along the axes along which the labels stay the same."""
    there = np.broadcast_to(there, np.broadcast_shapes(np.shape(there), labels.shape))
    extra = there.ndim - labels.ndim
    axes = (*range(extra), *(extra + axis for axis, size in enumerate(labels.shape) if size == 1))
    flags[labels[there.any(axis=axes).reshape(labels.shape)]] = True
    flags[NOTHING] = False


def _factor(terms: Terms, alive: Mapping[str, Alive]) -> Alive:
    """Where a term's weight may differ from zero."""
    if terms.solid or terms.site not in alive:
        return np.ones((), bool)
    return alive[terms.site][None]


def has_path(graph: Graph, used: Mapping[str, Any]) -> bool:
    """Whether an output still depends on the rows, of the weights in use that `reachable` gives.

    Told by the kernels that multiply the rows themselves: one of them must have a weight in use. Of one that is not in
    ``used``, all weights are alive, and in use where an output depends on them; one that is not followed is whole. A network
    without such kernels, or one that is given its rows without a weight, is taken to have a path.
    """
    first = _first_kernels(graph)
    if whole := {site: np.ones(graph.roles[site].shape, bool) for site in first if site not in used}:
        used = reachable(graph, {**used, **whole})
    return not first or any(bool(np.any(used[site])) for site in first)


@functools.lru_cache(maxsize=64)
def _first_kernels(graph: Graph) -> frozenset[str]:
    """The kernels that multiply the rows."""
    sites = {terms.site for terms in graph.terms if terms.site and np.any(terms.source == CONSTANT)}
    return frozenset(site for site in sites if graph.roles[site].inputs and not graph.roles[site].looked_up)
