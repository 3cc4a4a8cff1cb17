"""All numbers of many drawn networks in one table: a line for each number, a lane for each network."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from bayesprune.core.checks import check_key
from bayesprune.deploy.program import laws
from bayesprune.deploy.program.weights import Draws, GaussianLaw, Law
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace

Source = jax.Array | np.random.Generator | np.ndarray | int | None  # of random numbers: a JAX key, or a NumPy generator
LANES = 32  # networks in a block, as many as `kernels_numba` takes at a time
FEW = 8  # networks at most that are drawn one by one: a block has as many lanes whether they are asked for or not
LARGEST = 1 << 26  # numbers of networks that are there at once


@dataclass(frozen=True, eq=False)
class TableNetworks:
    """Drawn networks: ``numbers`` (blocks, lines, `LANES`), or (``size``, lines, 1) of few; the first ``size`` lanes count."""

    numbers: np.ndarray
    size: int

    @functools.cached_property
    def lanes(self) -> np.ndarray:
        """The numbers of each network, in one line each: (networks, lines)."""
        return self.numbers.transpose(0, 2, 1).reshape(-1, self.numbers.shape[1])[: self.size]


class Lines(NamedTuple):
    """The lines that a segment reads: of each entry of its matrix, and of what each output begins with."""

    entries: np.ndarray
    start: np.ndarray


class Table:
    """Line 0 is zero; then the weights of each site that are alive; then what is made from those and from constants."""

    def __init__(self, law: Law, numbers: Mapping[str, int], compiled: bool) -> None:
        self.law, self.compiled = law, compiled
        living = laws.alive(law)
        self.alive = {site: np.flatnonzero(alive) for site, alive in living.items() if site in numbers}
        self.shapes = {site: alive.shape for site, alive in living.items()}
        self.lines: dict[int, np.ndarray] = {}  # of each weight of an array, 0 for dead ones
        self.spans: dict[str, slice] = {}
        self.size = 1
        for site, places in self.alive.items():
            self.spans[site] = slice(self.size, self.size + len(places))
            self.lines[numbers[site]] = np.zeros(int(np.prod(self.shapes[site], dtype=int)), np.int32)
            self.lines[numbers[site]][places] = np.arange(self.size, self.size + len(places))
            self.size += len(places)
        self.random = self.size
        self.sources: list[np.ndarray] = []  # line = factor * line of the source + shift
        self.factors: list[np.ndarray] = []
        self.shifts: list[np.ndarray] = []

    def of(self, segment: Segment) -> Lines:
        """The lines of a segment; those that are missing are added."""
        pattern = segment.matrix
        if isinstance(segment.weights, StoredPlace):
            entries = self.lines[segment.weights.number][segment.weights.where.reshape(-1)[pattern.places]]
            if segment.scale is not None:
                entries = self._made(entries, segment.scale[pattern.rows], np.zeros(len(entries)))
        else:
            values = segment.values(segment.weights)
            entries = self._made(np.zeros(len(values), int), np.ones(len(values)), values)
        start = np.zeros(pattern.height, int)
        if segment.bias is not None:
            start = np.where(segment.bias.where >= 0, self.lines[segment.bias.number][segment.bias.where], 0)
        if segment.shift is not None:
            start = self._made(start, np.ones(pattern.height), segment.shift)
        return Lines(entries.astype(np.int32), start.astype(np.int32))

    def _made(self, source: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> np.ndarray:
        wanted = np.stack([source.astype(float), factor.astype(float), shift.astype(float)])
        new, index = np.unique(wanted, axis=1, return_inverse=True)
        self.sources.append(new[0].astype(int))
        self.factors.append(new[1].astype(np.float32))
        self.shifts.append(new[2].astype(np.float32))
        self.size += new.shape[1]
        return self.size - new.shape[1] + index.reshape(-1)

    def drawn(self, rng: Source, num_samples: int | None) -> TableNetworks:
        """So many networks. ``rng``: a NumPy generator or a JAX key; of stored draws, evenly over all, without it."""
        (networks,) = self.groups(rng, num_samples, at_once=None)
        return networks

    def groups(self, rng: Source, num_samples: int | None, at_once: int | None = LARGEST) -> Iterator[TableNetworks]:
        """The networks of `drawn`, in order, as many at a time as make at most so many numbers; None: all."""
        law, chosen = self.law, self.law.chosen(num_samples)
        lanes = 1 if len(chosen) <= FEW else LANES
        total = -(-len(chosen) // lanes)
        step = total if at_once is None else max(1, at_once // (self.size * lanes))
        draw = self._draws(law, generator(rng), (total, 1, lanes)) if isinstance(law, GaussianLaw) else None
        for first in range(0, total, step):
            of = chosen[first * lanes : (first + step) * lanes]
            numbers = np.zeros((-(-len(of) // lanes), self.size, lanes), np.float32)
            if draw is not None:
                draw(first, numbers[:, 1 : self.random])
            elif isinstance(law, Draws):
                self._copy(law, of, numbers)
            if self.sources:
                sources, factors, shifts = map(np.concatenate, (self.sources, self.factors, self.shifts))
                numbers[:, self.random :] = numbers[:, sources] * factors[:, None] + shifts[:, None]
            yield TableNetworks(numbers, len(of))

    def _copy(self, law: Draws, chosen: np.ndarray, numbers: np.ndarray) -> None:
        """Stored networks."""
        for site, span in self.spans.items():
            values = np.zeros((len(numbers) * numbers.shape[2], span.stop - span.start), np.float32)
            values[: len(chosen)] = law.values[site][chosen].reshape(len(chosen), -1)[:, self.alive[site]]
            numbers[:, span] = values.reshape(len(numbers), numbers.shape[2], -1).transpose(0, 2, 1)

    def _draws(self, law: GaussianLaw, rng: np.random.Generator, blocks: Sequence[int]) -> Callable[[int, np.ndarray], None]:
        """A function that draws block after block: (number of the first, out). ``blocks``: (all of them, 1, lanes)."""
        shared, empty = factors(law, rng, blocks), np.zeros(0, np.float32)
        loc, scale = (
            np.concatenate([empty, *(arrays[site].reshape(-1)[self.alive[site]] for site in self.spans)])
            for arrays in (law.loc, law.scale)
        )
        normal = normals(rng, self.compiled)

        def draw(first: int, out: np.ndarray) -> None:
            if blocks[2] == 1:
                out[..., 0] = loc + scale * standard(normal, out.shape[:2])
            else:
                normal(loc, scale, out)
            for site, span in self.spans.items():
                if site in law.shared:
                    of_blocks = shared[law.shared[site]][first : first + len(out)]
                    out[:, span.start - 1 : span.stop - 1] *= of_blocks

        return draw

    def array(self, networks: TableNetworks, site: str) -> np.ndarray:
        """All of a site's weights: (networks, *shape)."""
        values = np.zeros((networks.size, int(np.prod(self.shapes[site], dtype=int))), np.float32)
        values[:, self.alive[site]] = networks.lanes[:, self.spans[site]]
        return values.reshape(networks.size, *self.shapes[site])


def generator(rng: Source) -> np.random.Generator:
    """A NumPy generator, as it is or from a JAX key."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.Generator(np.random.SFC64(np.asarray(jax.random.key_data(check_key(rng))).reshape(-1).tolist()))


def normals(rng: np.random.Generator, compiled: bool) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """A function of (loc, scale, out): out = loc + scale z, z ~ N(0, 1), ``out`` (blocks, numbers, `LANES`).

    ``compiled``: by numba, several times as fast.
    """
    if not compiled:

        def by_numpy(loc: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
            for block in out:
                rng.standard_normal(block.shape, np.float32, block)
                block *= scale[:, None]
                block += loc[:, None]

        return by_numpy
    from bayesprune.deploy.sparse import normals_numba

    state = rng.integers(1, 1 << 32, (4, LANES), np.uint32)

    def by_numba(loc: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
        for block in out if loc.size else ():
            normals_numba.draw(state, loc, scale, block)

    return by_numba


def standard(draw: Callable[[np.ndarray, np.ndarray, np.ndarray], None], shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers, by what `normals` gave."""
    count = int(np.prod(shape))
    lines = -(-count // LANES)
    out = np.empty((1, lines, LANES), np.float32)
    draw(np.zeros(lines, np.float32), np.ones(lines, np.float32), out)
    return out.reshape(-1)[:count].reshape(shape)


def factors(law: GaussianLaw, rng: np.random.Generator, shape: Sequence[int]) -> dict[str, np.ndarray]:
    """A draw of each shared scale."""
    return {name: np.exp(mean + std * rng.standard_normal(shape)).astype(np.float32) for name, (mean, std) in law.log.items()}
