"""How code of others is run: NumPyro's by one thread, for its stack of handlers belongs to none; all as it was written.

And not in a forked process: JAX keeps threads, a fork copies none of them, and what waits for one waits for ever.
"""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")
# Re-entrant: what is being traced may trace.
_LOCK = threading.RLock()
# Of whole runs, where joblib works by threads: a lock of its own, for within a run several threads trace.
ONE_AT_A_TIME = threading.Lock()
_JAX = "jax._src.xla_bridge"  # JAX says nowhere else whether it has begun to compute, and asking for devices would begin it
_broken = False


def _in_child() -> None:
    global _broken
    bridge = sys.modules.get(_JAX)
    _broken = _broken or bool(bridge is not None and bridge.backends_are_initialized())


if hasattr(os, "register_at_fork"):  # Windows forks nothing
    os.register_at_fork(after_in_child=_in_child)


def check_process() -> None:
    """Refuse a process that was forked from one in which JAX had computed: `RuntimeError`, in place of a wait for ever."""
    if _broken:
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads a fork does not copy: it would wait for ever. "
            "Start workers that begin anew: joblib.parallel_config(backend='loky'), or multiprocessing's 'spawn' or "
            "'forkserver'; or fork before JAX computes anything."
        )


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
