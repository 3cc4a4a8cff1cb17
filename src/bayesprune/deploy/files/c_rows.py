"""Sums with the numbers of a known matrix in C: whole, or as CSR."""

from collections.abc import Callable, Sequence

import numpy as np

from bayesprune.deploy.files.c_source import CSource, loops


def write_rows(
    source: CSource,
    matrix: np.ndarray,
    steps: np.ndarray | None,
    taps: np.ndarray,
    shape: Sequence[int],
    base: Callable[[list[str]], str],
    place: Callable[[list[str], str], str],
) -> None:
    """Sums of a row's numbers at ``taps`` beyond ``base``, times those of the matrix, as CSR where it has fewer bytes."""
    outputs, count = matrix.shape
    alive, by = matrix != 0, taps[1] - taps[0] if len(taps) > 1 else 1
    even = bool((taps == np.arange(count) * by).all())
    each = 4 if steps is None else 1
    total = int(alive.sum())
    of_tap = np.min_scalar_type(taps.max(initial=0)).itemsize
    sparse = total * (each + of_tap) + (outputs + 1) * np.min_scalar_type(total).itemsize
    is_sparse = sparse < each * matrix.size + (0 if even else of_tap * count)
    kept = matrix[alive] if is_sparse else matrix.reshape(-1)
    values = source.table(kept.astype(np.float32 if steps is None else np.int8))
    if is_sparse:
        ends = source.indices(np.concatenate([[0], np.cumsum(alive.sum(1))]))
        where = source.indices(np.broadcast_to(taps, matrix.shape)[alive])
        head, term = f"for (int j = (int){ends}[o]; j < (int){ends}[o + 1]; j++)", f"{values}[j] * from[{where}[j]]"
    else:
        tap = ("j" if by == 1 else f"j * {by}") if even else f"{source.indices(taps)}[j]"
        head, term = f"for (int j = 0; j < {count}; j++)", f"{values}[o * {count} + j] * from[{tap}]"
    scaled = "" if steps is None else f" * {source.constant(steps.reshape(-1)).at(['o'])}"

    def inside(index: list[str]) -> Sequence[str]:
        return [
            f"for (int o = 0; o < {outputs}; o++) {{",
            f"  const float *from = &{base(index)};",
            "  float s = 0.0f;",
            f"  {head} s += {term};",
            f"  {place(index, 'o')} = s{scaled};",
            "}",
        ]

    source.body += loops(shape, inside)
