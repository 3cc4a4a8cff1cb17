"""Many networks drawn from a posterior, side by side: one pass over the weights that are alive for all of them."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from bayesprune.core.checks import check_integer, check_name
from bayesprune.core.types import ArrayTree
from bayesprune.deploy.engines.draws_kernels import (
    MANY_ROWS,
    DrawsKernel,
    Noise,
    by_blas,
    by_scipy,
    check_local,
    compiled,
    noisy,
)
from bayesprune.deploy.engines.draws_table import LANES, Source, Table, TableNetworks, factors, generator
from bayesprune.deploy.engines.engine import DENSE
from bayesprune.deploy.program import laws
from bayesprune.deploy.program.linear import by_row
from bayesprune.deploy.program.normal import normal
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.program.packing import checked
from bayesprune.deploy.program.weights import GaussianLaw, Weighted
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace
from bayesprune.deploy.sparse.kernels import check_kernel, has_numba, step
from bayesprune.deploy.sparse.segments import Finder, Step, check_data, folded, fused, in_turn, joined, traced

LARGEST = 1 << 24  # numbers of one array, of all networks together
NOISES = ("weights", "local", "auto")
# In times of drawing a weight: a sum with noise of its own, a product more for each weight, and a call, which is longer.
SUM, PRODUCT, FIXED = 3.0, 0.015, 30_000
BLAS = "blas"


class DrawsEngine:
    """E[y | x, w] for many networks w at once, by NumPy and SciPy or numba, without JAX.

    The law of the networks is that of `Compact.predict_draws`, one network for all rows; the draws themselves are others for
    the same key, and others with numba than with SciPy. Numbers are drawn for weights that are alive alone. Networks may be
    drawn once (`draw`) and used for any number of rows (`outputs`). Convolutions and products are quick; other operations
    are run for all networks at once where they treat each row for itself, and network by network where they do not.

    Args:
        compact: a `Compact`, of `bayesprune.compact` with ``keep="posterior"``; of a mean, there is one network.
        kernel: "numba", "csr" (SciPy), or "auto", numba where it is installed.

    Raises:
        ValueError: operations that only JAX can run; an unknown kernel.
        ImportError: "numba" by name, and it is not installed.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((32,), 10), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=64)
        >>> mask = fit.mask | {"Dense_0.kernel": np.arange(64 * 32).reshape(64, 32) % 32 < 8}
        >>> engine = DrawsEngine(bp.compact(bnn, fit.params, mask), kernel="csr")
        >>> networks = engine.draw(jax.random.key(1), num_samples=20)
        >>> engine.outputs(networks, test.x[:3]).shape, engine.predict(jax.random.key(1), test.x[:3]).shape
        ((20, 3, 10), (3, 10))
    """

    def __init__(self, compact: Weighted, kernel: Literal["auto", "csr", "numba"] | str = "auto") -> None:
        check_name("kernel", kernel, ("auto", "csr", "numba"))
        self.kernel = ("numba" if has_numba() else "csr") if kernel == "auto" else kernel
        check_kernel(self.kernel)
        ready = prepare(compact, joined(compact.program, compact.head))
        self.compact, self.program, self.random, self.segments = compact, ready.program, ready.random, ready.segments()
        self.sites = {number: site for site, number in compact.program.weights.items()}
        self.table = Table(compact.law, compact.program.weights, self.kernel == "numba")
        self.drawn = self.program.weighed
        self.plain = self._plain(ready.known, self.kernel)
        self.steps = fused(self.plain, self.program.output, self._by)
        with_blas = self._plain(ready.known, BLAS)
        has_blas = any(s.kernel == BLAS for s in with_blas)
        self.of_many = fused(with_blas, self.program.output, self._by) if has_blas else self.steps
        used = {self.program.output, *(i for s in (*self.plain, *with_blas) for i in s.inputs)}
        self._known = {number: value for number, value in ready.known.items() if number in used}
        self._sites = {number: site for number, site in self.sites.items() if number in used}

    def draw(self, rng_key: Source, num_samples: int = 100) -> TableNetworks:
        """So many networks; of stored draws those that `Compact.predict_draws` takes, no more than there are, without a key.

        ``rng_key``: a JAX random key, or a NumPy generator, which is moved on. The same key gives the same networks.
        """
        check_integer(num_samples, "num_samples")
        return self.table.drawn(rng_key, num_samples)

    def outputs(self, networks: TableNetworks, x: ArrayTree) -> np.ndarray:
        """E[y | x, w] of each network: (networks, rows, outputs). ``x``: (rows, *input_shape)."""
        rows = checked(self.compact.inputs, x, getattr(self.compact, "bounds", ()))
        steps = self.of_many if len(rows) >= MANY_ROWS else self.steps
        made = np.concatenate([self._rows(steps, networks, part) for part in self._parts(rows, networks.size, steps)], 1)
        return made[..., None] if self._one_output else made

    def predict_draws(self, rng_key: Source, x: ArrayTree, num_samples: int = 100) -> np.ndarray:
        """E[y | x, w] for each of ``num_samples`` new networks: (num_samples, rows, outputs), as `Compact.predict_draws`."""
        return self.outputs(self.draw(rng_key, num_samples), x)

    def predict(
        self,
        rng_key: Source,
        x: ArrayTree,
        num_samples: int = 100,
        noise: Literal["weights", "local", "auto"] | str = "weights",
    ) -> np.ndarray:
        """E[y | x], averaged over ``num_samples`` networks: (rows, outputs), or (rows,).

        ``noise``: "weights", the networks of `draw`. "local", for dense layers with Gaussian weights: given a row's inputs to a
        layer and the shared scales, the layer's sums are Gaussian, and are drawn in place of the weights, for every row anew.
        Each row's outputs have the same law as with "weights", rows together have not: no network is common to them, so that
        differences between rows are noisier. Quicker for few rows. ``ValueError`` where a weight enters two sums of a row.
        "auto": whichever is likely quicker for so many rows, "local" only where it may be.
        """
        check_name("noise", noise, NOISES)
        check_integer(num_samples, "num_samples")
        rng = generator(rng_key)
        rows = checked(self.compact.inputs, x, getattr(self.compact, "bounds", ()))
        if noise == "weights" or (noise == "auto" and not self.local_pays(len(rows), num_samples)):
            return self.mean(x, rng_key=rng, num_samples=num_samples)
        steps, law = self._local, self.compact.law
        assert isinstance(law, GaussianLaw)
        drawn = Noise(num_samples, rng, self.kernel == "numba", factors(law, rng, (num_samples, 1, 1)))
        return np.concatenate([self._rows(steps, drawn, part).mean(0) for part in self._parts(rows, num_samples, steps)])

    def mean(self, x: ArrayTree, *, rng_key: Source = None, num_samples: int | None = None) -> np.ndarray:
        """`predict`, a group of networks in memory at a time; of stored draws without a key, and all for None."""
        groups = [(networks.size, self.outputs(networks, x).sum(0)) for networks in self.table.groups(rng_key, num_samples)]
        sizes, sums = zip(*groups, strict=True)
        made = np.asarray(sum(sums) / sum(sizes), np.float32)
        return made[..., 0] if self._one_output else made

    def local_pays(self, rows: int, num_samples: int) -> bool:
        """Whether drawing a layer's sums is likely quicker than drawing its weights: few rows have fewer of them.

        What a sum costs beside a weight, and what all that NumPy does beside either, is measured.
        """
        if not self.may_be_local:
            return False
        sums = sum(int(np.prod(s.segment.shape, dtype=int)) for s in self.plain if s.segment is not None)
        return num_samples * (self.table.random - rows * (SUM * sums + PRODUCT * self.table.random)) > FIXED

    # ---- inside
    @functools.cached_property
    def may_be_local(self) -> bool:
        try:
            check_local(self.compact.law, self.program, self.plain, self.random)
        except ValueError:
            return False
        return True

    @property
    def _one_output(self) -> bool:
        return len(self.program.sizes[self.program.output]) == len(self.compact.output_shape)

    @functools.cached_property
    def _local(self) -> list[Step]:
        law = self.compact.law
        check_local(law, self.program, self.plain, self.random)
        assert isinstance(law, GaussianLaw)
        return [
            replace(s, call=noisy(s.segment, law, self.sites, self.kernel)) if s.segment is not None else s for s in self.plain
        ]

    def _parts(self, x: np.ndarray, size: int, steps: Sequence[Step]) -> list[np.ndarray]:
        """Rows in parts of which all arrays of all networks have room."""
        between = {i for s in steps for i in (*s.inputs, s.output) if i in self.drawn} - set(self.random)
        largest = max(int(np.prod(self.program.shapes[i], dtype=int)) for i in between | {self.program.output})
        rows = max(1, LARGEST // (largest * size))
        rows -= rows % LANES if rows > LANES else 0
        return [x[i : i + rows] for i in range(0, len(x), rows)]

    def _plain(self, known: Mapping[int, np.ndarray], kernel: str) -> list[Step]:
        """Segments that depend on what is drawn, and the rest. ``kernel``: `BLAS`, where a matrix is dense."""
        chosen = {s.index: s for s in self.segments if s.pattern is not None and s.output in self.drawn}
        kernels = {index: BLAS if kernel == BLAS and _is_dense(s) else self.kernel for index, s in chosen.items()}
        return in_turn(self.program, chosen, kernels, known, lambda op: functools.partial(self._rest, op))

    def _by(self, segments: Sequence[Segment], kernel: str) -> DrawsKernel:
        if kernel == "numba":
            return compiled(segments, self.table)
        return (by_blas if kernel == BLAS else by_scipy)(segments[0], self.table)

    def _rows(self, steps: Sequence[Step], drawn: TableNetworks | Noise, x: np.ndarray) -> np.ndarray:
        values = {**self._known, self.program.rows: x}
        if isinstance(drawn, TableNetworks):
            values |= {number: self.table.array(drawn, site) for number, site in self._sites.items()}
        for s in steps:
            arrays = [values[i] for i in s.inputs]
            if s.segment is None:
                values[s.output] = s.call(drawn.size, len(x), arrays)
            else:
                values[s.output] = s.call(drawn, arrays[0] if s.inputs[0] in self.drawn else arrays[0][None])
        out = values[self.program.output]
        return out if self.program.output in self.drawn else np.broadcast_to(out, (drawn.size, *out.shape))

    def _rest(self, op: Op, size: int, rows: int, arrays: list[np.ndarray]) -> np.ndarray:
        """Any other operation: on rows of all networks at once, or network by network."""
        function, drawn = step(op), [i in self.drawn for i in op.inputs]
        if not any(drawn):
            return function(rows, *arrays)
        grows = [self.program.sizes[i] for i in (*op.inputs, op.outputs[0])]
        apart = all(
            by_row(sizes) or (all(n >= 0 for n in sizes) and not d) for sizes, d in zip(grows, [*drawn, True], strict=True)
        )
        if not apart:
            made = [function(rows, *(a[i] if d else a for a, d in zip(arrays, drawn, strict=True))) for i in range(size)]
            return np.stack(made)
        for place, (a, d) in enumerate(zip(arrays, drawn, strict=True)):
            if by_row(grows[place]):
                arrays[place] = (a if d else np.broadcast_to(a, (size, *a.shape))).reshape(size * rows, *a.shape[1 + d :])
        together = function(size * rows, *arrays)
        return together.reshape(size, rows, *together.shape[1:])


def _is_dense(segment: Segment) -> bool:
    """Whether its matrix is random and dense: then one of BLAS's products is the quickest for many rows."""
    if segment.op.name != "dot" or not isinstance(segment.weights, StoredPlace) or segment.pattern is None:
        return False
    return bool(len(segment.pattern.columns) >= DENSE * segment.weights.where.size)


def prepare(compact: Weighted, program: OpProgram) -> Finder:
    """What finds the segments of ``program``, the network of ``compact`` with its head or without, in its normal form.

    Raises ``ValueError`` where only JAX can run it.
    """
    numbers = compact.program.weights.values()
    program = normal(program, numbers)
    check_data(program)
    random = traced(program, {number: compact.program.shapes[number] for number in numbers})
    living = {program.weights[site]: alive for site, alive in laws.alive(compact.law).items()}
    return Finder(program, folded(program, program.constants), random, living)
