"""A compact network on JAX's device, rows and draws streamed as `bayesprune.predict` streams them; also by sparse matrices."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCSR
from jax.typing import ArrayLike

from bayesprune.core.numbers import joined
from bayesprune.core.tracing import check_process
from bayesprune.core.types import Array, ArrayTree, PyTree
from bayesprune.deploy.engines.engine import DENSE
from bayesprune.deploy.program.packing import checked_rows
from bayesprune.deploy.program.run import before, run, step
from bayesprune.deploy.program.weights import Draws, Weighted
from bayesprune.deploy.sparse.segments import with_weights
from bayesprune.infer.predict import blocks_of, rows_of

ROWS = 8192  # at a time, of a network of sparse matrices
LANES, AT_ONCE = 32, 1 << 20  # networks that are run side by side at most, and numbers of theirs


class ByJax:
    """E[y | x, w] of a network, compiled by JAX at the first call. ``x``: rows of the program's one array.

    What is returned: as of `Compact.predict`.
    """

    def __init__(self, network: Weighted) -> None:
        self.network = network
        self._at_mean, self._draws, self._mean = (jax.jit(of) for of in (self._of_mean, self._of_each, self._of_all))

    def __call__(self, x: Array) -> np.ndarray:
        """Of the network at the posterior mean."""
        check_process()  # before its numbers are sent to the device
        return self._rows(x, self._at_mean, self._mean_weights)

    def mean(self, rng_key: jax.Array, x: Array, num_samples: int | None) -> np.ndarray:
        """Averaged over so many networks; of stored draws, all for None."""
        check_process()
        return self._rows(x, self._mean, self._tensors, rng_key, self.network.law.chosen(num_samples))

    def predict_draws(self, rng_key: jax.Array, x: Array, num_samples: int) -> np.ndarray:
        """Of each of so many networks: (num_samples, rows, outputs)."""
        check_process()
        x, chosen = checked_rows(x, self.network.inputs.row_shape), self.network.law.chosen(num_samples)
        made = list[np.ndarray]()
        for block in blocks_of(x):
            with jax.transfer_guard("allow"):
                whole = self._draws(block, self._constants, self._tensors, rng_key, chosen)
            made.append(np.asarray(whole).reshape(len(chosen), -1, *whole.shape[3:]))
        draws = joined(made)[:, : len(x)]
        return draws[..., None] if draws.ndim == 1 + len(self.network.output_shape) else draws

    def exported(self, platforms: Sequence[str] | None) -> jax.export.Exported:
        """The network at the posterior mean, or the mean over stored draws, for any number of rows."""
        network = self.network
        rows = jax.export.symbolic_shape("rows")
        inputs = network.inputs
        x = inputs.tree([jax.ShapeDtypeStruct((*rows, *leaf.shape), leaf.dtype) for leaf in inputs.leaves])

        def mean(x: ArrayTree) -> jax.Array:
            together = inputs.together(x).astype(jnp.float32)
            made = before(network.program, together)
            one = lambda weights: run(network.head, {}, run(network.program, weights, together, made=made))  # noqa: E731
            if isinstance(network.law, Draws) and network.law.values:
                # The mean of their weights is another network: of chains, whose units are in orders of their own, a bad one.
                return jax.lax.map(one, jax.tree.map(jnp.asarray, dict(network.law.values))).mean(0)
            return one(network.law.mean())

        return jax.export.export(jax.jit(mean), platforms=platforms)(x)

    # ---- inside
    def _rows(self, x: Array, function: Callable[..., jax.Array], *arguments: PyTree) -> np.ndarray:
        x = checked_rows(x, self.network.inputs.row_shape)
        with jax.transfer_guard("allow"):  # from arrays of the host, to arrays of the host
            return rows_of([function(block, self._constants, *arguments) for block in blocks_of(x)], len(x))

    def _outputs(self, weights: Mapping[str, Any], block: jax.Array, made: Any, constants: Mapping[int, Any]) -> jax.Array:
        """``block``: (blocks, rows, ...); ``made``: of `before`, or None."""
        program, head = self.network.program, self.network.head
        return jax.lax.map(lambda part: run(head, {}, run(program, weights, part[0], constants, part[1])), (block, made))

    # Numbers go into compiled functions as arguments: as constants, the compiler would work on every one of them.
    @functools.cached_property
    def _constants(self) -> dict[int, jax.Array]:
        return jax.tree.map(jnp.asarray, dict(self.network.program.constants))

    @functools.cached_property
    def _tensors(self) -> dict[str, jax.Array]:
        return jax.tree.map(jnp.asarray, self.network.law.tensors())

    @functools.cached_property
    def _mean_weights(self) -> dict[str, jax.Array]:
        return jax.tree.map(jnp.asarray, self.network.law.mean())

    def _of_mean(self, block: jax.Array, constants: Any, weights: Any) -> jax.Array:
        return self._outputs(weights, block, None, constants)

    def _one(self, block: jax.Array, constants: Any, tensors: Any, key: jax.Array) -> Callable[[ArrayLike], jax.Array]:
        """The outputs of a network, as a function of its number."""
        made = jax.lax.map(lambda x: before(self.network.program, x, constants), block)  # the same for all networks
        return lambda index: self._outputs(self.network.law.draw(key, index, tensors), block, made, constants)

    def _of_each(self, block: jax.Array, constants: Any, tensors: Any, key: jax.Array, chosen: jax.Array) -> jax.Array:
        return jax.lax.map(self._one(block, constants, tensors, key), chosen, batch_size=self._at_once)

    def _of_all(self, block: jax.Array, constants: Any, tensors: Any, key: jax.Array, chosen: jax.Array) -> jax.Array:
        one = self._one(block, constants, tensors, key)
        shape, number = jax.eval_shape(one, 0), len(chosen)
        total = jnp.zeros(shape.shape, shape.dtype)
        return jax.lax.fori_loop(0, number, lambda i, sum_: sum_ + one(chosen[i]), total) / number

    @property
    def _at_once(self) -> int | None:
        """How many networks go side by side: a small one alone leaves an accelerator idle. None: one after another."""
        if jax.default_backend() == "cpu":  # convolutions with many kernels take it three times as long, products as long
            return None
        numbers = sum(math.prod(shape) for shape in self.network.law.shapes.values())
        many = min(LANES, AT_ONCE // max(1, numbers))
        return many if many > 1 and not self.network.program.one_by_one else None


class ByBCSR:
    """E[y | x, w] at the posterior mean, compiled by JAX for each number of rows; ``matrices``: by operation, the sparse ones.

    JAX says of its BCSR that it is experimental; `measure` finds whether it pays. ``x``: rows of the program's one array;
    what is returned: as of `Compact.predict`. Raises ``ValueError`` for operations that have no name of ours.
    """

    def __init__(self, network: Weighted) -> None:
        self.input_shape = network.inputs.row_shape
        self.program, known = with_weights(network.program, network.head, network.law.mean())
        self.rest = [(index, op) for index, op in enumerate(self.program.ops) if op.outputs[0] not in known]
        self.matrices = {
            index: BCSR.fromdense(jnp.asarray(known[op.inputs[1]].T, jnp.float32))
            for index, op in self.rest
            if op.is_matrix_product(self.program.sizes) and op.inputs[1] in known and _few(known[op.inputs[1]])
        }
        used = {i for index, op in self.rest for i in (op.inputs[:1] if index in self.matrices else op.inputs)}
        self.known = {n: jnp.asarray(a) for n, a in known.items() if n in used | {self.program.output}}
        self._compiled = jax.jit(self._outputs)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = checked_rows(x, self.input_shape)
        parts = (x[i : i + ROWS] for i in range(0, len(x), ROWS))
        return np.concatenate([np.asarray(self._compiled(self.known, self.matrices, part)) for part in parts])

    def _outputs(self, known: Mapping[int, jax.Array], matrices: Mapping[int, BCSR], x: jax.Array) -> jax.Array:
        values = {**known, self.program.rows: x}
        for index, op in self.rest:
            if index in matrices:
                a = values[op.inputs[0]]
                made = (matrices[index] @ a.reshape(-1, a.shape[-1]).T).T.reshape(*a.shape[:-1], -1)
            else:
                (made,) = step(op, len(x), [values[i] for i in op.inputs])
            values[op.outputs[0]] = made
        return values[self.program.output]


def _few(matrix: np.ndarray) -> bool:
    return bool(0 < np.count_nonzero(matrix) < DENSE * matrix.size)
