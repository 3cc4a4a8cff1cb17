"""The memory that a curvature takes, before any of it is allocated; and which one fits."""

import math
from collections.abc import Mapping

from bayesprune.infer.curvature.over_rows import BYTES
from bayesprune.posteriors.rows_and_columns import as_matrix

Shapes = Mapping[str, tuple[int, ...]]
# Of a matrix: its sum on the device and the next one, then in double precision itself, its factor, inverse and one copy.
OF_A_MATRIX, OF_A_NUMBER = 2 * 4 + 4 * 8, 4 * 4


def bytes_needed(curvature: str, shapes: Shapes) -> int:
    """Bytes at the peak, with the gradients of a chunk of rows.

    >>> bytes_needed("full", {"w": (1000, 1)}) > 10 * bytes_needed("kron", {"w": (1000, 1)}) / 11
    True
    """
    size = sum(map(math.prod, shapes.values()))
    gradients, numbers = 2 * max(BYTES, 4 * size), OF_A_NUMBER * size
    if curvature == "diag":
        return gradients + numbers
    if curvature == "kron":
        factors = sum(rows**2 + columns**2 for rows, columns in map(as_matrix, shapes.values()))
        return gradients + numbers + OF_A_MATRIX * factors
    return gradients + numbers + OF_A_MATRIX * size**2


def check_bytes(curvature: str, wanted: Shapes, shapes: Shapes, last: Shapes, max_bytes: int) -> None:
    """Refuse what takes more than ``max_bytes``, with the curvature that fits.

    ``wanted``: the arrays whose curvature is taken; ``shapes``: all; ``last``: those of the last layer.
    """
    form = "full" if curvature == "last_layer" else curvature
    needed = bytes_needed(form, wanted)
    if needed <= max_bytes:
        return
    others = {"kron": ("kron", shapes), "last_layer": ("full", last), "diag": ("diag", shapes)}
    fits = [name for name, (form, arrays) in others.items() if arrays and bytes_needed(form, arrays) <= max_bytes]
    fits = [repr(name) for name in fits if name != curvature]
    remedy = f"take curvature={' or '.join(fits)}" if fits else "no curvature fits"
    raise ValueError(
        f"curvature={curvature!r} takes {needed / 2**30:,.2f} GiB for {sum(map(math.prod, wanted.values())):,} weights, and "
        f"max_bytes={max_bytes:,} is {max_bytes / 2**30:,.2f} GiB: {remedy}, or raise max_bytes."
    )
