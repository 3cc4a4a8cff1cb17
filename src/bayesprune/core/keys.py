"""Random keys: what is one, its numbers, and keys one after another in a program that is short."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
from jax.typing import ArrayLike

_BLOCK = 8


def is_key(leaf: object) -> bool:
    """Whether it is a typed random key, or an array of them.

    >>> is_key(jax.random.key(0)), is_key(jax.random.PRNGKey(0)), is_key("key")
    (True, False, False)
    """
    return jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)


def abstract_key() -> Any:
    """A key without a value, for what is traced and never run.

    >>> is_key(abstract_key())
    True
    """
    return jax.eval_shape(lambda: jax.random.key(0))


def key_numbers(leaf: ArrayLike) -> Any:
    """The numbers of a random key; anything else as it is.

    >>> key_numbers(jax.random.key(7)).tolist(), key_numbers(2.0)
    ([0, 7], 2.0)
    """
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def chain(rng_key: jax.Array, number: int) -> Iterator[tuple[jax.Array, ...]]:
    """What splitting a key in ``number`` hands out in turn: the first part is split next, the others are handed out.

    The keys are those of `jax.random.split` called once for each, to the bit. On CPU eight splits are made at once, in one loop
    of the compiled program: each split by itself is a loop of ten kernels, and a network of a hundred parameters had XLA
    compile a thousand of them. So a key may be made in one trace and handed out in a later one: a part of a
    program that is traced by itself (`jax.checkpoint`) and asks for keys leaks a tracer, as under NumPyro's `seed`, where
    eight end within it; give it a chain of its own.

    Example:
        >>> keys = chain(jax.random.key(0), 3)
        >>> first, second = next(keys), next(keys)
        >>> on, *rest = jax.random.split(jax.random.key(0), 3)
        >>> (jax.random.split(on, 3)[1:] == jax.numpy.stack(second)).all().item()
        True
    """
    split = _split(number)
    while True:
        if jax.default_backend() == "cpu":
            rng_key, parts = jax.lax.scan(split, rng_key, None, length=_BLOCK)
            # All at once: an array of keys is taken apart in the trace that made it, or not at all.
            yield from list(map(tuple, parts))
        else:  # a loop of small kernels is slow elsewhere
            rng_key, part = split(rng_key, None)
            yield tuple(part)


@functools.cache  # one function a number, by which `jax.lax.scan` knows what it compiled
def _split(number: int) -> Callable[[jax.Array, None], tuple[jax.Array, jax.Array]]:
    def split(key: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        parts = jax.random.split(key, number)
        return parts[0], parts[1:]

    return split


@jax.tree_util.register_static
@dataclass(frozen=True)
class NoKey:
    """A missing key: code that draws by it gets an error, code that does not may pass it on.

    Also through `jax.jit`, as a pytree without leaves. ``why``: the end of the error, what draws and what to do.

    >>> jax.random.normal(NoKey("give rng_key="), (2,))
    Traceback (most recent call last):
    ValueError: rng_key is needed, as numbers are drawn: give rng_key=
    """

    why: str

    @property
    def dtype(self) -> Any:
        raise ValueError(f"rng_key is needed, as numbers are drawn: {self.why}")

    shape = ndim = aval = __jax_array__ = dtype


if TYPE_CHECKING:
    Key: TypeAlias = jax.Array
else:  # what checks types at run time meets the other as well
    Key = jax.Array | NoKey
