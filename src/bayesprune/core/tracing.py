"""Tracing by one thread at a time: NumPyro keeps its handlers on one stack, which belongs to no thread."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
