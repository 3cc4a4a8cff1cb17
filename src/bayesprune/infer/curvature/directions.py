"""Which gradients make a curvature: of each row's log density by the network's outputs, so that H = sum_d J' d d' J.

Derivation. With outputs f = net(w, x) of Jacobian J, the generalised Gauss-Newton matrix is sum_n J' L J, L the negative second
derivatives of log p(y | f) by f; any square root of L, taken apart into its columns d, gives it as a sum of squares. The
empirical Fisher has the one direction d = gradient of log p(y | f).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from numpyro.handlers import seed, substitute, trace

from bayesprune.core.compiling import WHOLE_PRODUCTS
from bayesprune.model.bnn import BNN

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
