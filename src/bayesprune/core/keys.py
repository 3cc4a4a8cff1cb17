"""Random keys one after another, in a program that is short."""

from collections.abc import Iterator

import jax

_BLOCK = 8


def chain(rng_key: jax.Array, number: int) -> Iterator[tuple[jax.Array, ...]]:
    """What splitting a key in ``number`` hands out in turn: the first part is split next, the others are handed out.

    The keys are those of `jax.random.split` called once for each, to the bit. On CPU eight splits are made at once, in one loop
    of the compiled program: each split by itself is a loop of ten kernels, and a network of a hundred parameters had XLA
    compile a thousand of them.

    Example:
        >>> keys = chain(jax.random.key(0), 3)
        >>> first, second = next(keys), next(keys)
        >>> on, *rest = jax.random.split(jax.random.key(0), 3)
        >>> (jax.random.split(on, 3)[1:] == jax.numpy.stack(second)).all().item()
        True
    """

    def split(key: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        parts = jax.random.split(key, number)
        return parts[0], parts[1:]

    while True:
        if jax.default_backend() == "cpu":
            rng_key, parts = jax.lax.scan(split, rng_key, None, length=_BLOCK)
            yield from map(tuple, parts)
        else:  # a loop of small kernels is slow elsewhere
            rng_key, part = split(rng_key, None)
            yield tuple(part)
