"""Operations of JAX, a record each; a file a kind."""

from collections.abc import Mapping
from typing import Any

from bayesprune.structure.jaxprs import Equation, program_for
from bayesprune.structure.ops import control, elementwise, gathers, movement, products, reductions, trees
from bayesprune.structure.primitive import Known, Primitive

KINDS = (elementwise, products, movement, reductions, gathers, control, trees)
PRIMITIVES: Mapping[str, Primitive] = {record.name: record for kind in KINDS for record in kind.RECORDS}


def record_of(equation: Equation) -> Primitive:
    """What is known of the operation of an equation; nothing, of one without a record."""
    name = equation.primitive.name
    return PRIMITIVES.get(name) or Primitive(name)


def written_out(equation: Equation, known: Known) -> Any:
    """A program of simpler operations that is the same; None: it is simple, or there is none. ``known``: see `Primitive`."""
    write = record_of(equation).written
    function = None if write is None else write(equation.params, [atom.aval.shape for atom in equation.invars], known)
    return None if function is None else program_for(equation, function)
