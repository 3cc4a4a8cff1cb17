"""A compact network on the CPU without JAX, each product by the kernel that suits its density."""

from collections.abc import Mapping, Sequence

import numpy as np

from bayesprune.core.checks import unknown_name
from bayesprune.core.types import Array
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.packing import checked_rows
from bayesprune.deploy.sparse.fusing import Segment
from bayesprune.deploy.sparse.kernels import Kernel, available, chain, check_kernel, csr, dense, step
from bayesprune.deploy.sparse.segments import Finder, fused, in_turn, with_weights

ROWS = 1024  # at a time: what is between the operations stays in the cache
DENSE = 0.3  # share of a matrix that is alive, from which a dense product of many rows is quicker
Kernels = str | Mapping[int, str]


class Engine:
    """E[y | x, w] of a program with fixed weights, by NumPy and, for products with fixed matrices, one of three kernels each:
    "dense" (BLAS), "csr" (SciPy's sparse product), "numba" (sparse, compiled, with what follows in the same pass).

    Sums over fixed weights or windows count as products, convolutions too. Results differ from JAX's by the order of sums.

    Args:
        program, head: of a `Compact`.
        weights: {site: array} for the weights that the program has.
        kernels: one for all; {operation number: kernel}, the numbers those of ``segments``, the rest by their density; or
            "auto", all by their density, numba's where it is installed. `measure` finds the quickest on this machine. A
            product that is too large for a sparse matrix is dense whatever is said.

    Raises:
        ValueError: operations that only JAX can run; weights that are missing or of another shape; an unknown kernel.
        ImportError: "numba" by name, and it is not installed.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((32,), 10), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=64)
        >>> mask = fit.mask | {"Dense_0.kernel": np.arange(64 * 32).reshape(64, 32) % 32 < 8}
        >>> small = bp.compact(bnn, fit.params, mask, keep="mean")
        >>> engine = Engine(small.program, small.head, kernels="csr")
        >>> bool(np.allclose(engine(test.x), small.predict(test.x), rtol=1e-4, atol=1e-5))
        True
    """

    def __init__(
        self, program: OpProgram, head: OpProgram, weights: Mapping[str, np.ndarray] | None = None, kernels: Kernels = "auto"
    ) -> None:
        self.input_shape = program.shapes[program.rows][1:]
        given = {} if weights is None else weights
        for site, number in program.weights.items():
            found = np.shape(given[site]) if site in given else "none"
            if found != program.shapes[number]:
                raise ValueError(f"weights[{site!r}] must have shape {program.shapes[number]}, got {found}.")
        self.program, self.known = with_weights(program, head, given)
        self.segments = {segment.index: segment for segment in Finder(self.program, self.known, {}, {}).segments()}
        self.kernels = self._chosen(kernels)
        steps = in_turn(self.program, self.segments, self.kernels, self.known, step)
        self.steps = fused(steps, self.program.output, one)
        used = {i for s in self.steps for i in s.inputs} | {self.program.output}
        self._constants = {number: value for number, value in self.known.items() if number in used}

    def __call__(self, x: Array) -> np.ndarray:
        """The head's outputs for rows ``x`` of shape (rows, *input_shape). Raises ``ValueError`` for others, as NaN."""
        x = checked_rows(x, self.input_shape)
        if len(x) <= ROWS:
            return self.values(x)[self.program.output]
        return np.concatenate([self.values(x[i : i + ROWS])[self.program.output] for i in range(0, len(x), ROWS)])

    def values(self, x: np.ndarray) -> dict[int, np.ndarray]:
        """All arrays, by number."""
        values, rows = {**self._constants, self.program.rows: x}, len(x)
        for s in self.steps:
            arrays = [values[i] for i in s.inputs]
            values[s.output] = s.call(rows, *arrays) if s.segment is None else s.call(*arrays)
        return values

    # ---- inside
    def _chosen(self, kernels: Kernels) -> dict[int, str]:
        """The kernel of each segment."""
        if isinstance(kernels, str):
            named = {} if kernels == "auto" else dict.fromkeys(self.segments, kernels)
            names = {kernels} - {"auto"}
        else:
            named = {int(index): name for index, name in kernels.items()}
            names = set(named.values())
            for index in set(named) - set(self.segments):
                raise unknown_name("operation in kernels", str(index), map(str, self.segments))
        for name in names:
            check_kernel(name)
        return {
            index: "dense" if segment.pattern is None else named.get(index, by_density(segment))
            for index, segment in self.segments.items()
        }


def weights_of(segment: Segment) -> np.ndarray:
    """The weights of a segment whose weights are known."""
    assert isinstance(segment.weights, np.ndarray)
    return segment.weights


def one(segments: Sequence[Segment], kernel: str) -> Kernel:
    """One segment by a kernel, or several by "numba"."""
    weights = [weights_of(segment) for segment in segments]
    if kernel == "numba":
        return chain(segments, weights)
    return (dense if kernel == "dense" else csr)(segments[0], weights[0])


def by_density(segment: Segment) -> str:
    """The kernel that is mostly the quickest where nothing was measured."""
    if segment.op.name == "dot":
        weights = weights_of(segment)
        density = np.count_nonzero(weights) / weights.size
        return "numba" if "numba" in available() and density < DENSE else "csr" if density < 0.05 else "dense"
    # NumPy has to copy all windows of a convolution first.
    return "numba" if "numba" in available() else "csr" if segment.op.name == "conv" else "dense"
