"""Squares of every row's slopes, summed over the rows, without the slopes of any row: of weights that meet a row once.

Derivation. Where w enters as h = x w + ..., every element reaching one output of each row, the slope of a row's result by w_ij
is x_ni g_nj, g_nj that by h_nj, and the sum of its squares over the rows is sum_n x_ni² g_nj². The variance of h_nj under
independent weights of variances v_ij is sum_i x_ni² v_ij, so the sum is the slope by v of that variance, if g_nj² comes down
to it where g_nj comes down to h_nj. `local_noise` knows which weights those are, and makes the variances.

Source: Dangel, Kunstner & Hennig (2020), BackPACK, for such sums on the way back.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.noise import Noise, none


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


def _forward(mean: jax.Array, variance: jax.Array) -> tuple[jax.Array, None]:
    return mean, None


def _backward(_: None, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    return slope, jnp.square(slope)


_with_squares.defvjp(_forward, _backward)
