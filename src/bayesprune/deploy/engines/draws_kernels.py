"""Segments for many networks at once: by numba, by BLAS, by SciPy with matrices as blocks of one; and noise on their sums."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from bayesprune.deploy.engines.draws_table import LANES, Table, TableNetworks, normals, standard
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.weights import GaussianLaw, Law
from bayesprune.deploy.sparse.fusing import ACTIVATIONS, Segment, StoredPlace
from bayesprune.deploy.sparse.kernels import Kernel, LayerKernels, activate, chain, csr
from bayesprune.deploy.sparse.segments import Step
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


# ---- noise on a layer's sums in place of its weights: the local reparameterisation
@dataclass(frozen=True, eq=False)
class Noise:
    """What is drawn for ``size`` samples: ``factors``, of each shared scale (size, 1, 1); the rest as it is needed."""

    size: int
    rng: np.random.Generator
    compiled: bool
    factors: Mapping[str, np.ndarray]

    def normals(self, shape: tuple[int, ...]) -> np.ndarray:
        """Standard normal numbers."""
        return standard(normals(self.rng, self.compiled), shape)


def check_local(law: Law, program: OpProgram, steps: Sequence[Step], random: Mapping[int, StoredPlace]) -> None:
    """Refuse networks whose sums over weights are not independent Gaussians, given a row's inputs and the shared scales."""
    if not isinstance(law, GaussianLaw):
        raise ValueError(f"noise='local' needs independent Gaussian weights, got {law.kind}: use noise='weights'.")
    used: Counter[int] = Counter()
    fine = True
    for step in steps:
        segment = step.segment
        if segment is None:
            fine &= not set(step.inputs) & set(random)
            continue
        places = [p for p in (segment.weights, segment.bias) if isinstance(p, StoredPlace)]
        used.update(place.number for place in places)
        row_by_row = program.sizes[segment.op.inputs[0]][:-1] == (-1,)
        fine &= not places or (segment.op.name == "dot" and row_by_row and all(map(_once, places)))
    if not fine or any(count > 1 for count in used.values()):
        raise ValueError(
            "noise='local' needs every random weight to enter one sum of a row, once, as in dense layers on rows of features; "
            "here some are shared, as by a convolution or between tokens, or enter otherwise: use noise='weights'."
        )


def _once(place: StoredPlace) -> bool:
    where = place.where[place.where >= 0]
    return bool(len(np.unique(where)) == where.size)


class LawAt(NamedTuple):
    """Of a segment's weights or bias: loc, scale, and the name of the scale that they share; known ones have no scale."""

    loc: Any
    scale: np.ndarray | None
    shared: str


def law_at(numbers: StoredPlace | np.ndarray | None, law: GaussianLaw, sites: Mapping[int, str]) -> LawAt:
    """What the law says of them. ``sites``: by the number of their array."""
    if not isinstance(numbers, StoredPlace):
        return LawAt(numbers, None, "")
    site = sites[numbers.number]
    return LawAt(numbers.of(law.loc[site]), numbers.of(law.scale[site]), law.shared.get(site, ""))


def noisy(
    segment: Segment, law: GaussianLaw, sites: Mapping[int, str], kernel: str
) -> Callable[[Noise, np.ndarray], np.ndarray]:
    """act(s M_loc x + sqrt(s² M_scale² x²) z) with one z for each row and output; the bias joins in both parts.

    Takes x of shape (1, rows, ...), or of each sample, and gives (samples, rows, outputs).
    """
    make = lambda part: chain([part], [part.weights]) if kernel == "numba" else csr(part, part.weights)  # noqa: E731
    bare = replace(segment, act="none", shift=None, bias=None)
    weights, bias = (law_at(numbers, law, sites) for numbers in (segment.weights, segment.bias))
    squared = None if segment.scale is None else segment.scale**2
    mean = make(replace(bare, weights=weights.loc))
    spread = None if weights.scale is None else make(replace(bare, weights=weights.scale**2, scale=squared))

    def call(noise: Noise, a: np.ndarray) -> np.ndarray:
        factor, other = (noise.factors.get(of.shared, np.ones((1, 1, 1), np.float32)) for of in (weights, bias))
        made = factor * _of(mean, a)
        variance = np.zeros((), np.float32) if spread is None else factor**2 * _of(spread, a * a)
        if segment.shift is not None:
            made = made + segment.shift
        if bias.scale is not None:
            made, variance = made + other * bias.loc, variance + (other * bias.scale) ** 2
        if variance.ndim:
            made = made + np.sqrt(variance) * noise.normals((noise.size, *made.shape[1:]))
        return activate(
            np.broadcast_to(made, (noise.size, *made.shape[1:])).copy() if len(made) == 1 else made, segment.act, -1
        )

    return call


def _of(kernel: Kernel, a: np.ndarray) -> np.ndarray:
    flat = a.reshape(-1, *a.shape[2:])
    made = kernel(flat)
    return made.reshape(len(a), -1, *made.shape[1:])
