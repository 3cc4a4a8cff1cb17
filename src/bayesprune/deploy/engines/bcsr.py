"""A compact network on JAX's device, its sparse matrices in JAX's own sparse format."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCSR

from bayesprune.deploy.engines.engine import DENSE
from bayesprune.deploy.program.rows import checked_rows
from bayesprune.deploy.program.run import step
from bayesprune.deploy.program.weights import Weighted
from bayesprune.deploy.sparse.segments import with_weights

ROWS = 8192  # at a time


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
