"""The curvature in each of its forms, over all rows: of weights that meet a row once without the gradients of any row.

Those are the weights of dense layers; all others have theirs beside them, as `sum_over_rows` makes them.
The exact Hessian, by products with one unit vector after the other, is for small networks.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, Dataset
from bayesprune.infer.curvature.directions import LogDensity, directions
from bayesprune.infer.curvature.forms import Factors, add_full, add_kronecker, start_full, start_kronecker
from bayesprune.infer.curvature.over_rows import (
    Arrays,
    OfDirections,
    Sums,
    Trained,
    gradients_of,
    living,
    outputs_at,
    outputs_of,
    outputs_of_rows,
    sum_over_rows,
    summed,
)
from bayesprune.model.bnn import BNN
from bayesprune.model.transforms.local_noise import drawn_once, local_noise
from bayesprune.model.transforms.slope_factors import dense_sites, with_slope_factors, zero_factors
from bayesprune.model.transforms.slope_squares import SlopeSquares


def squares_over_rows(
    rng_key: jax.Array, bnn: BNN, trained: Trained, data: Dataset, density: LogDensity, structure: str, num_draws: int | None
) -> Sums:
    """The sum of squared gradients, by `SlopeSquares`, an array for each of ``weights``; and the log likelihood."""
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

    start = jax.jit(functools.partial(jax.tree.map, jnp.zeros_like))(trained.weights)
    return summed(rng_key, trained, data, density, directions(density, structure, num_draws), start, of_rows)


def factors_over_rows(
    rng_key: jax.Array, bnn: BNN, trained: Trained, data: Dataset, density: LogDensity, structure: str, num_draws: int | None
) -> Sums:
    """The partial traces of each array's curvature, `add_kronecker`, a pair for each of ``weights``; and the log likelihood.

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

    start = jax.jit(start_kronecker)(trained.weights)
    return summed(rng_key, trained, data, density, directions(density, structure, num_draws), start, of_rows)


def all_over_rows(
    rng_key: jax.Array, bnn: BNN, trained: Trained, data: Dataset, density: LogDensity, structure: str, num_draws: int | None
) -> Sums:
    """The sum of the outer products of all gradients, a matrix in the order of ``weights``; and the log likelihood."""
    start = jax.jit(start_full)(trained.weights)
    return sum_over_rows(rng_key, bnn, trained, data, density, structure, num_draws, start, add_full)


FORMS: dict[str, Callable[..., Sums]] = {"diag": squares_over_rows, "kron": factors_over_rows, "full": all_over_rows}


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
