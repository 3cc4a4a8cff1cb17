"""The sum over rows of what a form makes of each row's gradients: a chunk of rows at once, one direction after the other.

Which gradients: of each row's log density by the network's outputs, so that H = sum_d J' d d' J. With outputs f = net(w, x) of
Jacobian J, the generalised Gauss-Newton matrix is sum_n J' L J, L the negative second derivatives of log p(y | f) by f; any
square root of L, taken apart into its columns d, gives it as a sum of squares. The empirical Fisher has the one direction
d = gradient of log p(y | f).
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpyro.handlers import seed, substitute, trace

from bayesprune.core.compiling import WHOLE_PRODUCTS
from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Array, ArrayTree, Dataset, PyTree
from bayesprune.model.bnn import BNN
from bayesprune.posteriors.rows_and_columns import as_matrix

STRUCTURES = ("empirical", "ggn", "exact")
LogDensity = Callable[[jax.Array, Any], jax.Array]


def log_density(bnn: BNN, latents: dict[str, Any]) -> LogDensity:
    """log p(y | f) of one row, as a function of its outputs, flat, and its targets; nats."""

    def density(outputs: jax.Array, y: ArrayLike) -> jax.Array:
        row = outputs.reshape((1, *bnn.output_shape))
        observe = substitute(bnn.likelihood.observe, data=latents)
        site = trace(seed(observe, jax.random.key(0))).get_trace(row, jax.tree.map(lambda a: a[None], y))["obs"]
        return jnp.sum(site["fn"].log_prob(site["value"]))

    return density


def root_of_negative_hessian(density: LogDensity, outputs: jax.Array, y: ArrayLike) -> jax.Array:
    """The rows d of a square root of L, (25.3): sum_d d d' = L, negative eigenvalues of L taken for 0."""
    values, vectors = jnp.linalg.eigh(-jax.hessian(density)(outputs, y))
    return jnp.sqrt(jnp.maximum(values, 0.0))[:, None] * vectors.T


def directions(density: LogDensity, structure: str, num_draws: int | None) -> Callable[[jax.Array, jax.Array, Any], jax.Array]:
    """The directions of one row: of a key, its outputs and its targets.

    ``num_draws``: of "ggn", so many draws of random signs times the root of L in place of all its rows. The mean of d d' is L,
    and the sum over many rows comes near it at a share of the price.
    """

    @WHOLE_PRODUCTS
    def found(rng_key: jax.Array, outputs: jax.Array, y: ArrayLike) -> jax.Array:
        if structure == "empirical":
            return jax.grad(density)(outputs, y)[None]
        root = root_of_negative_hessian(density, outputs, y)
        if num_draws is None:
            return root
        signs = jax.random.rademacher(rng_key, (num_draws, len(root)), root.dtype)
        return signs @ root / jnp.sqrt(num_draws)

    return found


Arrays = dict[str, jax.Array]
# What one direction of each row of a chunk, (rows, outputs), adds to a form; and of a chunk's rows their outputs, and that.
OfDirections = Callable[[Any, jax.Array], Any]
OfRows = Callable[[ArrayTree], tuple[jax.Array, OfDirections]]
BYTES = 2**26  # that the gradients of a chunk may take: those of more rows leave the caches


class Trained(NamedTuple):
    """A network with its weights filled in: the Bayesian ones in its own units, its other parameters, its state, and which of
    the weights are alive, for the others have no gradient."""

    weights: Arrays
    points: Arrays
    state: Any
    alive: Arrays


class Sums(NamedTuple):
    """What a pass over the data gives: the form's sum, and the log likelihood at the weights, nats."""

    form: Any
    log_likelihood: jax.Array


class Pass(NamedTuple):
    """A pass over the data: ``chunk``, compiled, adds to the sums, ``start`` at first, the rows that ``rows_at`` gives for each
    of ``firsts``, one chunk after the other."""

    start: Sums
    chunk: jax.stages.Wrapped
    rows_at: Callable[[int], tuple[Any, ...]]
    firsts: range
    end: Callable[[Sums], Sums] = lambda sums: sums

    def total(self) -> Sums:
        """Of all rows."""
        return self.end(functools.reduce(lambda sums, first: self.chunk(sums, *self.rows_at(first)), self.firsts, self.start))


def living(trained: Trained, weights: Arrays) -> Arrays:
    """The weights, dead ones at zero."""
    return {site: jnp.where(trained.alive[site], value, 0) for site, value in weights.items()}


def outputs_at(bnn: BNN, trained: Trained, weights: Arrays, rows: ArrayTree) -> jax.Array:
    """The network's outputs at these weights, dead ones among them, those of each row flat."""
    return bnn.outputs(trained.points | weights, trained.state, rows).reshape((rows_in(rows), -1))


def outputs_of_rows(bnn: BNN, trained: Trained, weights: Arrays, rows: ArrayTree) -> jax.Array:
    """The network's outputs, those of each row flat."""
    return outputs_at(bnn, trained, living(trained, weights), rows)


def outputs_of(bnn: BNN, trained: Trained, weights: Arrays, row: ArrayTree) -> jax.Array:
    """The network's outputs for one row, flat."""
    return outputs_of_rows(bnn, trained, weights, jax.tree.map(lambda leaf: leaf[None], row))[0]


def gradients_of(bnn: BNN, trained: Trained, x: ArrayTree, direction: jax.Array) -> Arrays:
    """Of one row's outputs along a direction."""
    _, pull = jax.vjp(lambda weights: outputs_of(bnn, trained, weights, x), trained.weights)
    return pull(direction)[0]  # type: ignore[no-any-return]


def sum_over_rows(
    rng_key: jax.Array,
    trained: Trained,
    data: Dataset,
    density: LogDensity,
    find: Callable[[jax.Array, jax.Array, Any], jax.Array],
    start: PyTree,
    of_rows: OfRows,
) -> Pass:
    """The form's sum over all rows, and the log likelihood: one chunk of rows after the other, and of each one direction.

    ``weights`` of ``trained``: those whose gradients are taken, whatever else the network needs is in ``points``. ``find``: see
    `directions`; ``start``, ``of_rows``: the form.
    """

    def one(key: jax.Array, outputs: jax.Array, y: ArrayTree, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
        # A row that only fills a chunk counts for nothing, and so do its directions.
        return counts * density(outputs, y), counts * find(key, outputs, y)

    @jax.jit
    @by_one_thread
    def chunk(total: Sums, key: jax.Array, x: ArrayTree, y: ArrayTree, counts: jax.Array) -> Sums:
        outputs, add = of_rows(x)
        nats, found = jax.vmap(one)(jax.random.split(key, len(counts)), outputs, y, counts)
        form, _ = jax.lax.scan(lambda form, part: (add(form, part), None), total.form, jnp.moveaxis(found, 1, 0))
        return Sums(form, total.log_likelihood + nats.sum())

    size = rows_of_a_chunk(trained.weights, rows_in(data.x))

    zero = send(np.zeros((), jnp.result_type(float)))

    def rows_at(first: int) -> tuple[Any, ...]:
        x, y = jax.tree.map(lambda leaf: _filled(leaf[first : first + size], size), (data.x, data.y))
        counts = send(np.arange(size) < rows_in(data.x) - first, zero.dtype)
        return jax.random.fold_in(rng_key, send(first, np.uint32)), x, y, counts

    return Pass(Sums(start, zero), chunk, rows_at, range(0, rows_in(data.x), size))


def rows_of_a_chunk(weights: Arrays, num_rows: int) -> int:
    """Rows whose gradients are taken at once."""
    row = sum(leaf.nbytes for leaf in weights.values())
    return int(np.clip(BYTES // max(row, 1), 1, min(128, num_rows)))


def _filled(leaf: Array, size: int) -> Any:
    missing = size - len(leaf)
    return np.concatenate([np.asarray(leaf), np.repeat(np.asarray(leaf[-1:]), missing, axis=0)]) if missing else leaf


Shapes = Mapping[str, tuple[int, ...]]
# Of a matrix: its sum on the device and the next one, then in double precision itself, its factor, inverse and copies, those
# of the posterior among them; of a number a dozen and more arrays in double precision. Both are measured: docs/scaling.md.
OF_A_MATRIX, OF_A_NUMBER = 2 * 4 + 6 * 8, 14 * 8


def bytes_needed(form: str, shapes: Shapes) -> int:
    """Bytes at the peak: of the form, and of the gradients of a chunk of rows.

    >>> bytes_needed("full", {"w": (1000, 1)}) > 10 * bytes_needed("kron", {"w": (1000, 1)}) / 11
    True
    """
    return 2 * max(BYTES, 4 * _size(shapes)) + bytes_of_a_form(form, shapes)


def bytes_of_a_form(form: str, shapes: Shapes) -> int:
    """Bytes at the peak of what is made of a form once it is summed up.

    >>> bytes_of_a_form("diag", {"w": (10, 10)}), bytes_of_a_form("full", {"w": (10, 10)})
    (11200, 571200)
    """
    numbers = OF_A_NUMBER * _size(shapes)
    if form == "diag":
        return numbers
    if form == "kron":
        return numbers + OF_A_MATRIX * sum(rows**2 + columns**2 for rows, columns in map(as_matrix, shapes.values()))
    return numbers + OF_A_MATRIX * _size(shapes) ** 2


def _size(shapes: Shapes) -> int:
    return sum(map(math.prod, shapes.values()))


def check_bytes(curvature: str, wanted: Shapes, shapes: Shapes, last: Shapes, max_bytes: int) -> None:
    """Refuse what takes more than ``max_bytes``, with the curvature that fits.

    ``wanted``: the arrays whose curvature is taken; ``shapes``: all; ``last``: those of the last layer.
    """
    form = "full" if curvature == "last_layer" else curvature
    needed = bytes_needed(form, wanted)
    if needed <= max_bytes:
        return
    others = {"kron": ("kron", shapes), "last_layer": ("full", last), "diag": ("diag", shapes)}
    fits = [name for name, (form, arrays) in others.items() if arrays and bytes_needed(form, arrays) <= max_bytes]
    fits = [repr(name) for name in fits if name != curvature]
    remedy = f"take curvature={' or '.join(fits)}" if fits else "no curvature fits"
    raise ValueError(
        f"curvature={curvature!r} takes {needed / 2**30:,.2f} GiB for {_size(wanted):,} weights, and "
        f"max_bytes={max_bytes:,} is {max_bytes / 2**30:,.2f} GiB: {remedy}, or raise max_bytes."
    )
