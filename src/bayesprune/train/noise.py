"""Normal noise for a whole tree of parameters: of large arrays by themselves, of small ones from one draw."""

import itertools
from collections.abc import Iterator

import jax
import numpy as np

from bayesprune.model.transforms.noise import quantile
from bayesprune.train.kernel import Params

# Arrays from here on have a draw of their own: with slices of one long draw a sampler's step of a million weights took more
# than twice as long on a CPU. A draw for every bias would make the program long instead.
_LARGE = 2**15


def normal_like(rng_key: jax.Array, params: Params) -> Params:
    """Standard normal numbers of the parameters' shapes and types; see `model.transforms.noise.quantile`.

    >>> import jax.numpy as jnp
    >>> noise = normal_like(jax.random.key(0), {"a": jnp.zeros((2, 3)), "b": jnp.zeros(())})
    >>> noise["a"].shape, noise["b"].shape
    ((2, 3), ())
    """
    leaves, structure = jax.tree.flatten(params)
    is_large = [leaf.size >= _LARGE for leaf in leaves]
    shared, *own = jax.random.split(rng_key, 1 + sum(is_large)) if any(is_large) else [rng_key]
    keys, small = iter(own), _slices(shared, [leaf.size for leaf, large in zip(leaves, is_large, strict=True) if not large])
    drawn = [quantile(next(keys), (leaf.size,)) if large else next(small) for leaf, large in zip(leaves, is_large, strict=True)]
    shaped = [noise.reshape(leaf.shape).astype(leaf.dtype) for noise, leaf in zip(drawn, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)  # type: ignore[no-any-return]


def _slices(rng_key: jax.Array, sizes: list[int]) -> Iterator[jax.Array]:
    """So many numbers each, of one draw."""
    flat, ends = quantile(rng_key, (sum(sizes),)), np.cumsum([0, *sizes])
    return (flat[first:last] for first, last in itertools.pairwise(ends))
