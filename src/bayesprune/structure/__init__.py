"""The graph of a network, read once from its jaxpr: everything that needs to know what feeds what uses it."""

from bayesprune.structure.costs import check_settled, flops_of_entries, flops_of_units, multiply_adds
from bayesprune.structure.graph import Graph, Role, Terms
from bayesprune.structure.reach import has_path, reachable
from bayesprune.structure.units import Units, units
from bayesprune.structure.walk import read

__all__ = [
    "Graph",
    "Role",
    "Terms",
    "Units",
    "check_settled",
    "flops_of_entries",
    "flops_of_units",
    "has_path",
    "multiply_adds",
    "reachable",
    "read",
    "units",
]
