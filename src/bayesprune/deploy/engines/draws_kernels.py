"""Segments for many networks at once: by numba, or by SciPy with the matrices as blocks of one."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from bayesprune.deploy.engines.draws_table import LANES, Table, TableNetworks
from bayesprune.deploy.sparse.fusing import ACTIVATIONS, Segment, StoredPlace
from bayesprune.deploy.sparse.kernels import LayerKernels, activate
from bayesprune.deploy.sparse.threads import in_parts, workers

MANY_ROWS = 16  # from which a network for itself, rows side by side, is quicker than networks side by side

# (networks, x of shape (1, rows, ...), or of each network) -> (networks, rows, ...)
DrawsKernel = Callable[[TableNetworks, np.ndarray], np.ndarray]


def compiled(segments: Sequence[Segment], table: Table) -> DrawsKernel:
    """Segments by numba: networks side by side for few rows, rows side by side for many."""
    from bayesprune.deploy.sparse import kernels_numba

    layers = LayerKernels(segments)
    lines = [table.of(segment) for segment in layers.segments]
    entries, start = np.concatenate([each.entries for each in lines]), np.concatenate([each.start for each in lines])
    in_blocks, blocked = layers.in_blocks(kernels_numba.BLOCK)
    numbers_of, start_of = blocked.filled(entries, start)

    def kernel(networks: TableNetworks, a: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(a.reshape(len(a), -1, layers.width), np.float32)
        out = np.empty((networks.size, x.shape[1], layers.size), np.float32)
        width = networks.numbers.shape[2]

        def side_by_side(first: int, last: int) -> None:
            numbers = networks.numbers[first // LANES : -(-last // LANES)]
            own = x if len(x) == 1 else x[first:last]
            kernels_numba.networks(own, *layers.structure, entries, numbers, start, out[first:last])

        def one_by_one(first: int, last: int) -> None:
            for i in range(first, last):
                if i == first or i % width == 0:
                    block = np.ascontiguousarray(networks.numbers[i // width].T)
                mine, own = block[i % width], x[0 if len(x) == 1 else i]
                kernels_numba.rows(own, *in_blocks, mine[numbers_of], mine[start_of], out[i])

        many = x.shape[1] >= MANY_ROWS or width == 1
        most = workers(networks.size * x.shape[1] * len(entries))
        in_parts(one_by_one if many else side_by_side, networks.size, 1 if many else LANES, most)
        return out.reshape(networks.size, *a.shape[1 : 1 + layers.lead], *layers.shape)

    return kernel


def by_blas(segment: Segment, table: Table) -> DrawsKernel:
    """A dense product, network by network: of many rows quicker than a sparse one from `DENSE` on."""
    lines, place = table.of(segment), segment.weights
    assert isinstance(place, StoredPlace)
    where = np.where(place.where >= 0, table.lines[place.number][place.where], 0)  # line 0 is zero

    def kernel(networks: TableNetworks, a: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(a.reshape(len(a), -1, len(where)), np.float32)
        out = np.empty((networks.size, x.shape[1], where.shape[1]), np.float32)
        for i, mine in enumerate(networks.lanes):
            np.matmul(x[0 if len(x) == 1 else i], mine[where], out=out[i])
            if segment.scale is not None:
                out[i] *= segment.scale
            out[i] += mine[lines.start]
        return _activated(out, segment.act, table.compiled).reshape(*out.shape[:1], *a.shape[1:-1], *segment.shape)

    return kernel


def _activated(values: np.ndarray, act: str, by_numba: bool) -> np.ndarray:
    if act == "softmax" or not by_numba:
        return activate(values, act, -1)
    from bayesprune.deploy.sparse import kernels_numba

    kernels_numba.activate(values.reshape(-1), ACTIVATIONS.index(act), 1)
    return values


def by_scipy(segment: Segment, table: Table) -> DrawsKernel:
    """One segment by SciPy: the matrices of `LANES` networks at a time as blocks of one."""
    pattern, lines = segment.matrix, table.of(segment)
    height, width, count = pattern.height, pattern.width, len(pattern.columns)
    # Blocks below one another for rows that all networks share, along a diagonal for rows of each network.
    block = np.arange(LANES)[:, None]
    ptr = np.concatenate([[0], (block * count + pattern.ptr[1:]).reshape(-1)])
    below, along = np.tile(pattern.columns, LANES), (block * width + pattern.columns).reshape(-1)

    def kernel(networks: TableNetworks, a: np.ndarray) -> np.ndarray:
        x = a.reshape(len(a), -1, width).transpose(0, 2, 1)
        made = list[np.ndarray]()
        for first in range(0, networks.size, LANES):
            mine = networks.lanes[first : first + LANES]
            n, own = len(mine), x[first : first + LANES]
            columns, wide, operand = (below, width, x[0]) if len(x) == 1 else (along, n * width, own.reshape(n * width, -1))
            parts = (mine[:, lines.entries].reshape(-1), columns[: n * count], ptr[: n * height + 1])
            product = csr_matrix(parts, (n * height, wide)) @ operand
            made.append(activate(product.reshape(n, height, -1) + mine[:, lines.start, None], segment.act, 1))
        result = np.concatenate(made).transpose(0, 2, 1)
        return result.reshape(len(result), *a.shape[1 : 1 + segment.lead], *segment.shape)

    return kernel
