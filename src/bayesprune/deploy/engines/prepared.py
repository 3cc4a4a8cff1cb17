"""What an engine of random weights knows of its program before there are rows."""

from dataclasses import dataclass

import numpy as np

from bayesprune.deploy.program import laws
from bayesprune.deploy.program.normal import normal
from bayesprune.deploy.program.ops import Program
from bayesprune.deploy.program.weights import Weighted
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace
from bayesprune.deploy.sparse.segments import Finder, check_data, folded, traced


@dataclass(frozen=True)
class Prepared:
    """``program``: in its normal form. By number of array, ``random``: those that are weights, moved at most; ``known``: those
    that no weight and no row enters. ``segments``: its linear parts, in order."""

    program: Program
    random: dict[int, StoredPlace]
    known: dict[int, np.ndarray]
    segments: list[Segment]


def prepare(compact: Weighted, program: Program) -> Prepared:
    """``program``: the network of ``compact``, with its head or without. Raises ``ValueError`` where only JAX can run it."""
    numbers = compact.program.weights.values()
    program = normal(program, numbers)
    check_data(program)
    random = traced(program, {number: compact.program.shapes[number] for number in numbers})
    known = folded(program, program.constants)
    living = {program.weights[site]: alive for site, alive in laws.alive(compact.law).items()}
    return Prepared(program, random, known, Finder(program, known, random, living).segments())
