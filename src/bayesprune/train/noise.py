"""Normal noise for a whole tree of parameters, drawn at once."""

import math

import jax

from bayesprune.model.transforms.noise import quantile
from bayesprune.train.kernel import Params


def normal_like(rng_key: jax.Array, params: Params) -> Params:
    """Standard normal numbers of the parameters' shapes and types, from one draw; see `model.transforms.noise.quantile`.

    >>> import jax.numpy as jnp
    >>> noise = normal_like(jax.random.key(0), {"a": jnp.zeros((2, 3)), "b": jnp.zeros(())})
    >>> noise["a"].shape, noise["b"].shape
    ((2, 3), ())
    """
    leaves, structure = jax.tree.flatten(params)
    sizes = [math.prod(leaf.shape) for leaf in leaves]
    flat, parts, first = quantile(rng_key, (sum(sizes),)), [], 0
    for leaf, size in zip(leaves, sizes, strict=True):
        parts.append(flat[first : first + size].reshape(leaf.shape).astype(leaf.dtype))
        first += size
    return jax.tree.unflatten(structure, parts)  # type: ignore[no-any-return]
