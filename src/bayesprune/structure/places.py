"""Axes of places: of what is added to every token, as a position embedding is, entries along them belong to one unit."""

import math
from dataclasses import replace

import numpy as np

from bayesprune.structure.graph import Graph, Role
from bayesprune.structure.movement import NOTHING, Labels, compress
from bayesprune.structure.units import unit_of_entries


def with_places(graph: Graph) -> Graph:
    """The graph, the roles of arrays that are applied entry by entry split into axes of outputs and of positions.

    An axis whose entries all belong to the same unit is one of positions: (tokens, channels) of a position embedding has as
    many outputs as channels. A bias of heads, (heads, features), has outputs along both axes.
    """
    asked = {site for site, role in graph.roles.items() if _may_have_places(role) and site not in graph.unfollowed}
    if not asked:
        return graph
    found = unit_of_entries(graph, asked)
    roles = {site: _split(role, found[site]) if site in asked else role for site, role in graph.roles.items()}
    return replace(graph, roles=roles)


def _may_have_places(role: Role) -> bool:
    several = sum(size > 1 for size in role.shape)
    return role.used and not (role.inputs or role.positions) and several > 1


def _split(role: Role, units: Labels) -> Role:
    """``units``: the unit of every entry, of the array's shape or broadcasting to it."""
    sizes = compress(units).shape
    places = tuple(axis for axis, size in enumerate(sizes) if size == 1 < role.shape[axis])
    if math.prod(sizes) == 1 or (np.asarray(units) == NOTHING).all():  # nothing is told apart
        return role
    return replace(role, outputs=tuple(axis for axis in role.outputs if axis not in places), positions=places)
