"""How code of others is run: NumPyro's by one thread, for its stack of handlers belongs to none; all as it was written."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import jax

from bayesprune.core.forks import check_process

P = ParamSpec("P")
T = TypeVar("T")
# Re-entrant: what is being traced may trace.
_LOCK = threading.RLock()


def by_one_thread(fn: Callable[P, T]) -> Callable[P, T]:
    """The function, run by one thread at a time. Of one that is handed to `jax.jit` that is its tracing, not its running.

    >>> @by_one_thread
    ... def double(x):
    ...     return 2 * x
    >>> double(2), double.__name__
    (4, 'double')
    """

    @functools.wraps(fn)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        check_process()  # before the lock, which a fork may have copied as another thread held it
        with _LOCK:
            return fn(*args, **kwargs)

    return alone


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """JAX's standard promotion of types and ranks, whatever the caller holds its own code to.

    >>> with jax.numpy_rank_promotion("raise"), as_written():
    ...     (jax.numpy.ones((2, 1)) + jax.numpy.ones(2)).shape
    (2, 2)
    """
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
