"""Refuse networks whose outputs for a row depend on other rows: by their operations, or by what their code asks."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from bayesprune.structure.independence import mixing

MANY = (8, 1025)  # numbers of rows beside two and three: `rows // 4` is the same for both of these
Traced = Callable[[Any], Any]


def check_alone(jaxpr: Traced) -> None:
    """Refuse a network by which rows meet, or which is another for another number of rows.

    ``jaxpr``: the network's, of so many rows; its last input are the rows. It is traced for two rows and for three, whose sizes
    say where the rows are; for a number that is only a name: code that compares it (``if len(x) > 7``) fails there; and for a
    few more: a name is never equal to a number, and code like ``len(x) // 4`` gives another one only there.

    Raises ``ValueError`` with the operation, or the line of code.
    """
    two = jaxpr(2)
    _refuse(mixing(two, jaxpr(3)))
    _check_for_any_number(jaxpr)
    for rows in MANY:
        _refuse(mixing(two, jaxpr(rows)))


def _refuse(by: str) -> None:
    if by:
        raise ValueError(
            f"the network's outputs for a row depend on the rows beside it, or on how many there are, by {by}: a smaller "
            "network would not be the same function. Let each row stand for itself."
        )


def _check_for_any_number(jaxpr: Traced) -> None:
    """Refuse code of the user's that compares the number of rows; what cannot be traced for a name says nothing."""
    try:
        jaxpr(jax.export.symbolic_shape("rows")[0])
    except jax.errors.InconclusiveDimensionOperation as error:
        if line := _line(error):
            _refuse(f"a comparison with their number ({line})")
    except Exception:  # what does not work with a name says nothing of the network
        return


def _line(error: BaseException) -> str:
    """The line that compared, "" where it is one of a library's."""
    libraries = os.sep + "site-packages" + os.sep
    own = str(Path(jax.__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(own):
            continue
        return "" if libraries in frame.filename else f"{Path(frame.filename).name}, line {frame.lineno}"
    return ""
