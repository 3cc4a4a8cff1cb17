"""The negative second derivatives of the log likelihood themselves, by products with one unit vector after the other."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, Dataset
from bayesprune.infer.curvature.directions import LogDensity
from bayesprune.infer.curvature.over_rows import Arrays, Sums, Trained, outputs_of
from bayesprune.model.bnn import BNN

ROWS, VECTORS = 128, 16  # rows of a chunk, and unit vectors that go through them at once


def hessian(bnn: BNN, trained: Trained, data: Dataset, density: LogDensity, diagonal: bool) -> Sums:
    """H = -d² log p(D | w) / dw², of all weights together, or its diagonal; and the log likelihood.

    A product of the whole data set for every weight: for small networks. Off a maximum it has negative eigenvalues.
    """
    flat, shaped = ravel_pytree(trained.weights)

    def nats(weights: jax.Array, x: ArrayTree, y: ArrayTree) -> jax.Array:
        arrays: Arrays = shaped(weights)
        return jnp.sum(jax.vmap(lambda x, y: density(outputs_of(bnn, trained, arrays, x), y))(x, y))

    @jax.jit
    @by_one_thread
    def chunk(x: ArrayTree, y: ArrayTree) -> tuple[jax.Array, jax.Array]:
        def column(index: jax.Array) -> jax.Array:
            unit = jnp.zeros_like(flat).at[index].set(1.0)
            product = -jax.jvp(jax.grad(lambda w: nats(w, x, y)), (flat,), (unit,))[1]
            return product[index] if diagonal else product

        return jax.lax.map(column, jnp.arange(flat.size), batch_size=VECTORS), nats(flat, x, y)

    found = log_likelihood = send(0.0, jnp.result_type(float))
    for first in range(0, rows_in(data.x), ROWS):
        columns, part = chunk(*jax.tree.map(lambda leaf, at=first: send(leaf[at : at + ROWS]), (data.x, data.y)))
        found, log_likelihood = found + columns, log_likelihood + part
    return Sums(shaped(found) if diagonal else 0.5 * (found + found.T), log_likelihood)
