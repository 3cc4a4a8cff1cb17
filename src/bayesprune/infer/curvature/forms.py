"""The curvature in each of its forms, over all rows: of weights that meet a row once without the gradients of any row.

Those are the weights of dense layers; all others have theirs beside them, row by row. A form is zeros to start from, and what
some rows give: their outputs, and what one direction of each adds to the form. Its diagonal needs no gradients of rows:
`SlopeSquares`. The exact Hessian, by products with one unit vector after the other, is for small networks.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, Dataset
from bayesprune.infer.curvature.over_rows import (
    Arrays,
    LogDensity,
    OfDirections,
    OfRows,
    Pass,
    Sums,
    Trained,
    gradients_of,
    living,
    outputs_at,
    outputs_of,
    outputs_of_rows,
)
from bayesprune.model.bnn import BNN
from bayesprune.model.transforms.local_noise import drawn_once, local_noise
from bayesprune.model.transforms.slopes import SlopeSquares, dense_sites, with_slope_factors, zero_factors
from bayesprune.posteriors.rows_and_columns import as_matrix

# Of products of gradients, which accelerators would round to ten bits.
EXACT = jax.lax.Precision.HIGHEST


class Factors(NamedTuple):
    """The partial traces of an array's curvature: over its columns, (rows, rows), and over its rows, (columns, columns)."""

    rows: jax.Array
    columns: jax.Array


def start_kronecker(weights: Arrays) -> dict[str, Factors]:
    """Zeros for the two factors of each array, seen as a matrix whose last axis is its columns."""
    sizes = {site: as_matrix(leaf.shape) for site, leaf in weights.items()}
    return {site: Factors(*(jnp.zeros((size, size), weights[site].dtype) for size in sizes[site])) for site in weights}


def add_kronecker(sums: dict[str, Factors], gradients: Arrays) -> dict[str, Factors]:
    """Partial traces, (25.5): G G' and G' G of the rows' gradients G as matrices.

    Of a curvature that is a Kronecker product A x B they are A tr(B) and B tr(A), so that their product over tr(A) tr(B), the
    trace of either, is the curvature.
    """
    added = {}
    for site, total in sums.items():
        g = gradients[site].reshape((-1, len(total.rows), len(total.columns)))
        rows = jnp.einsum("nij,nkj->ik", g, g, precision=EXACT)
        added[site] = Factors(total.rows + rows, total.columns + jnp.einsum("nij,nik->jk", g, g, precision=EXACT))
    return added


def start_full(weights: Arrays) -> jax.Array:
    """Zeros for all weights together, array after array in the order of ``weights``."""
    size = sum(leaf.size for leaf in weights.values())
    return jnp.zeros((size, size), jnp.result_type(*weights.values()))


def add_full(sums: jax.Array, gradients: Arrays) -> jax.Array:
    """Outer products of the rows' gradients."""
    flat = jnp.concatenate([g.reshape((len(g), -1)) for g in gradients.values()], axis=1)
    return sums + jnp.einsum("ni,nj->ij", flat, flat, precision=EXACT)


def squared_gradients(bnn: BNN, trained: Trained, data: Dataset) -> tuple[Arrays, OfRows]:
    """Squared gradients, by `SlopeSquares`, an array for each of ``weights``."""
    forward = functools.partial(outputs_of_rows, bnn, trained)
    once = _meets_a_row_once(bnn, trained, data)
    gradients = _gradients_of_others(bnn, trained, once)

    def lifted_outputs(variances: Arrays, x: ArrayTree) -> jax.Array:
        lifted = {site: SlopeSquares(trained.weights[site], variance) for site, variance in variances.items()}
        return local_noise(forward, "draw")(trained.weights | lifted, x)  # type: ignore[no-any-return]

    def of_rows(x: ArrayTree) -> tuple[jax.Array, OfDirections]:
        ones = {site: jnp.ones_like(trained.weights[site]) for site in once}
        outputs, pull = jax.vjp(lambda variances: lifted_outputs(variances, x), ones)

        def add(sums: Arrays, found: jax.Array) -> Arrays:
            others = {site: jnp.sum(jnp.square(g), axis=0) for site, g in gradients(x, found).items()}
            squares = pull(found)[0] | others
            return {site: total + squares[site] for site, total in sums.items()}

        return outputs, add

    return jax.jit(functools.partial(jax.tree.map, jnp.zeros_like))(trained.weights), of_rows


def partial_traces(bnn: BNN, trained: Trained, data: Dataset) -> tuple[dict[str, Factors], OfRows]:
    """The partial traces of each array's curvature, `add_kronecker`, a pair for each of ``weights``.

    Matrices of which no weight is dead have theirs by `with_slope_factors`.
    """
    sites = list(trained.weights)

    def forward(weights: list[jax.Array], x: ArrayTree) -> jax.Array:
        return outputs_at(bnn, trained, dict(zip(sites, weights, strict=True)), x)

    matrices = by_one_thread(dense_sites(forward, sites))(list(trained.weights.values()), _some(data))
    whole = {site for site, alive in jax.device_get(trained.alive).items() if np.all(alive)}
    dense = _meets_a_row_once(bnn, trained, data) & matrices & whole
    gradients = _gradients_of_others(bnn, trained, dense)

    def of_rows(x: ArrayTree) -> tuple[jax.Array, OfDirections]:
        given, weights = with_slope_factors(forward, sites), list(living(trained, trained.weights).values())
        zeros = {site: zero_factors(trained.weights[site]) for site in dense}
        outputs, pull = jax.vjp(lambda factors: given(weights, factors, x), zeros)

        def add(sums: dict[str, Factors], found: jax.Array) -> dict[str, Factors]:
            pairs = {site: jax.tree.map(jnp.add, sums[site], Factors(*pair)) for site, pair in pull(found)[0].items()}
            return add_kronecker({site: sums[site] for site in sums if site not in dense}, gradients(x, found)) | pairs

        return outputs, add

    return jax.jit(start_kronecker)(trained.weights), of_rows


def outer_products(bnn: BNN, trained: Trained, data: Dataset) -> tuple[jax.Array, OfRows]:
    """The outer products of all gradients, a matrix in the order of ``weights``."""
    gradients = _gradients_of_others(bnn, trained, set())

    def of_rows(x: ArrayTree) -> tuple[jax.Array, OfDirections]:
        return outputs_of_rows(bnn, trained, trained.weights, x), lambda form, found: add_full(form, gradients(x, found))

    return jax.jit(start_full)(trained.weights), of_rows


FORMS: dict[str, Callable[..., tuple[Any, OfRows]]] = {
    "diag": squared_gradients,
    "kron": partial_traces,
    "full": outer_products,
}


def _meets_a_row_once(bnn: BNN, trained: Trained, data: Dataset) -> set[str]:
    """Sites of which every weight reaches one number of each row, as `local_noise` finds them."""
    once: set[str] = set()

    def look(weights: Arrays, rows: ArrayTree) -> None:
        lifted = {site: SlopeSquares(value, jnp.ones_like(value)) for site, value in weights.items()}
        drawn = drawn_once(functools.partial(outputs_of_rows, bnn, trained), "draw")(lifted, rows)
        once.update(site for site in weights if not drawn[site])

    jax.eval_shape(by_one_thread(look), trained.weights, _some(data))
    return once


def _gradients_of_others(bnn: BNN, trained: Trained, known: set[str]) -> Callable[[Any, jax.Array], Arrays]:
    """(rows, directions) -> the gradients of each row by the weights of all sites but the known ones."""
    weights = {site: w for site, w in trained.weights.items() if site not in known}

    def gradients(x: ArrayTree, found: jax.Array) -> Arrays:
        others = trained._replace(weights=weights, points=trained.points | living(trained, trained.weights))
        return jax.vmap(functools.partial(gradients_of, bnn, others))(x, found)  # type: ignore[no-any-return]

    return gradients


def _some(data: Dataset) -> Any:
    """Two rows to be traced with, of which there is the shape alone."""
    shape = lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape[1:]), jax.dtypes.canonicalize_dtype(leaf.dtype))  # noqa: E731
    return jax.tree.map(shape, data.x)


ROWS, VECTORS = 128, 16  # rows of a chunk, and unit vectors that go through them at once


def hessian(bnn: BNN, trained: Trained, data: Dataset, density: LogDensity, diagonal: bool) -> Pass:
    """H = -d² log p(D | w) / dw², of all weights together, or its diagonal; and the log likelihood.

    A product of the whole data set for every weight: for small networks. Off a maximum it has negative eigenvalues.
    """
    flat, shaped = ravel_pytree(trained.weights)

    def nats(weights: jax.Array, x: ArrayTree, y: ArrayTree) -> jax.Array:
        arrays: Arrays = shaped(weights)
        return jnp.sum(jax.vmap(lambda x, y: density(outputs_of(bnn, trained, arrays, x), y))(x, y))

    @jax.jit
    @by_one_thread
    def chunk(total: Sums, x: ArrayTree, y: ArrayTree) -> Sums:
        def column(index: jax.Array) -> jax.Array:
            unit = jnp.zeros_like(flat).at[index].set(1.0)
            product = -jax.jvp(jax.grad(lambda w: nats(w, x, y)), (flat,), (unit,))[1]
            return product[index] if diagonal else product

        columns = jax.lax.map(column, jnp.arange(flat.size), batch_size=VECTORS)
        return Sums(total.form + columns, total.log_likelihood + nats(flat, x, y))

    def rows_at(first: int) -> tuple[Any, ...]:
        return jax.tree.map(lambda leaf: send(leaf[first : first + ROWS]), (data.x, data.y))  # type: ignore[no-any-return]

    def end(total: Sums) -> Sums:
        return total._replace(form=shaped(total.form) if diagonal else 0.5 * (total.form + total.form.T))

    zeros = send(np.zeros(flat.shape if diagonal else (flat.size, flat.size), flat.dtype))
    return Pass(Sums(zeros, send(0.0, jnp.result_type(float))), chunk, rows_at, range(0, rows_in(data.x), ROWS), end)
