"""Squares of every row's slopes, summed over the rows, without the slopes of any row: as Kronecker factors, or one by one.

Derivation of the factors, of a dense layer. In z = x W the slopes of a row's result by W are the outer product of x and of its
slopes g by z. Their partial traces, G G' and G' G, are |g|² x x' and |x|² g g'; summed over the rows each is one product of
matrices.

Derivation of the squares, of weights that meet a row once. Where w enters as h = x w + ..., every element reaching one output
of each row, the slope of a row's result by w_ij is x_ni g_nj, g_nj that by h_nj, and the sum of its squares over the rows is
sum_n x_ni² g_nj². The variance of h_nj under independent weights of variances v_ij is sum_i x_ni² v_ij, so the sum is the slope
by v of that variance, if g_nj² comes down to it where g_nj comes down to h_nj. `local_noise` knows which weights those are, and
makes the variances.

Source: Dangel, Kunstner & Hennig (2020), BackPACK, for such sums on the way back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from bayesprune.core.types import PyTree
from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.layer_inputs import EXACT, Weight, visited
from bayesprune.model.transforms.noise import Noise, none
from bayesprune.structure.jaxprs import Equation

Pair = tuple[jax.Array, jax.Array]


def zero_factors(weight: jax.Array) -> Pair:
    """Zeros for the factors of a matrix of weights, over its rows and over its columns."""
    rows, columns = weight.shape
    return jnp.zeros((rows, rows), weight.dtype), jnp.zeros((columns, columns), weight.dtype)


def with_slope_factors(fn: Callable[..., Any], sites: Sequence[str]) -> Callable[..., Any]:
    """(weights in the order of ``sites``, factors by site, *others) -> fn(weights, *others), rows on the first axis of others.

    Of a sum of the results in any directions, the slope by a site's factors (see `zero_factors`) are the two partial traces
    of its rows' slopes, and those of all else as ever.

    >>> x, w = jnp.array([[1.0, 2.0]]), jnp.ones((2, 1))
    >>> given = with_slope_factors(lambda w, x: x @ w[0], ["w"])
    >>> rows, columns = jax.grad(lambda factors: 3 * given([w], factors, x).sum())({"w": zero_factors(w)})["w"]
    >>> rows.tolist(), columns.tolist()
    ([[9.0, 18.0], [18.0, 36.0]], [[45.0]])
    """

    def run(weights: Sequence[Any], factors: Mapping[str, Pair], *others: ArrayLike) -> Any:
        def visit(equation: Equation, given: list[Any], of: list[Weight | None], outs: list[Any]) -> list[Any]:
            place = _place_of_a_matrix(equation, given, of)
            weight = None if place is None else of[place]
            if place is None or weight is None or weight.site not in factors:
                return outs
            return [_watched(equation, given, place, outs[0], factors[weight.site], weight)]

        return visited(fn, sites, visit)(weights, *others)

    return run


def dense_sites(fn: Callable[..., Any], sites: Sequence[str]) -> Callable[..., set[str]]:
    """(weights in the order of ``sites``, *others) -> sites that are the matrix of one product with a matrix of rows.

    Shapes do: nothing is computed.
    """

    def find(weights: Sequence[Any], *others: PyTree) -> set[str]:
        met: list[str] = []

        def visit(equation: Equation, given: list[Any], of: list[Weight | None], outs: list[Any]) -> list[Any]:
            place = _place_of_a_matrix(equation, given, of)
            met.extend(weight.site for weight in of if weight is not None and place is not None)
            return outs

        jax.eval_shape(visited(fn, sites, visit), weights, *others)
        return {site for site in met if met.count(site) == 1}

    return find


def _place_of_a_matrix(equation: Equation, given: list[Any], of: list[Weight | None]) -> int | None:
    """The place of the weights in a product of a matrix of rows with a matrix of weights; None for anything else."""
    if equation.primitive.name != "dot_general" or (of[0] is None) == (of[1] is None):
        return None
    (contracted, batched), place = equation.params["dimension_numbers"], 0 if of[0] is not None else 1
    plain = all(jnp.ndim(value) == 2 for value in given) and not batched[place] and len(contracted[place]) == 1
    return place if plain else None


def _watched(equation: Equation, given: list[Any], place: int, out: jax.Array, factors: Pair, weight: Weight) -> jax.Array:
    """The product itself, the factors of its weights' slopes on the way back."""
    contracted = equation.params["dimension_numbers"][0]
    x = given[1 - place] if contracted[1 - place][0] == 1 else given[1 - place].T
    rows_first = out if place == 1 else out.T
    # Where the array's own rows are the layer's outputs, the two factors change places.
    turned = weight.axes[contracted[place][0]] == 1
    first, second = factors[::-1] if turned else factors
    watched = _with_factors(rows_first, lax.stop_gradient(x), first, second)
    return watched if place == 1 else watched.T


@jax.custom_vjp
def _with_factors(z: jax.Array, x: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    return z


def _forward(z: jax.Array, x: jax.Array, rows: jax.Array, columns: jax.Array) -> tuple[jax.Array, jax.Array]:
    return z, x


def _backward(x: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    of_g, of_x = jnp.square(g).sum(1), jnp.square(x).sum(1)
    rows = jnp.matmul((x * of_g[:, None]).T, x, precision=EXACT)
    return g, jnp.zeros_like(x), rows, jnp.matmul((g * of_x[:, None]).T, g, precision=EXACT)


_with_factors.defvjp(_forward, _backward)


@jax.tree_util.register_pytree_node_class
class SlopeSquares(GaussianArray):
    """A weight at ``loc``, whose squared slopes are the slope by ``variance``, an array of ones of its shape.

    Beside weights of this kind the others have plain slopes.

    >>> from bayesprune.model.transforms.local_noise import local_noise
    >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> result = lambda v: local_noise(lambda w, x: x @ w, "draw")(SlopeSquares(jnp.zeros((2, 1)), v), x).sum()
    >>> jax.grad(result)(jnp.ones((2, 1))).ravel().tolist()
    [10.0, 20.0]
    """

    def __init__(self, loc: ArrayLike, variance: ArrayLike) -> None:
        super().__init__(loc, jnp.sqrt(variance), jax.random.key(0), none)

    def materialise(self) -> Any:
        """The weight itself, which has no squared slopes then."""
        return self.loc

    def seen(self, value: Any) -> Any:
        """Constant: no slope of an earlier layer comes down by the squares of a later one."""
        return jax.lax.stop_gradient(value)

    def noisy(self, mean: jax.Array, variance: jax.Array, number: int, noise: Noise) -> jax.Array:
        """The outputs themselves; the square of what comes down to them goes to the variance."""
        return _with_squares(mean, variance)


@jax.custom_vjp
def _with_squares(mean: jax.Array, variance: jax.Array) -> jax.Array:
    return mean


def _outputs_alone(mean: jax.Array, variance: jax.Array) -> tuple[jax.Array, None]:
    return mean, None


def _squares_back(_: None, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    return slope, jnp.square(slope)


_with_squares.defvjp(_outputs_alone, _squares_back)
