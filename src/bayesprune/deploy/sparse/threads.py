"""Work in parts, one for each processor: for functions that let go of Python's lock."""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MUCH = 1 << 20  # multiplications for each thread: they take a few times as long as it takes to wake one


def workers(multiplications: int) -> int:
    """In how many parts work of this size is done soonest, where the processors are free."""
    return max(1, min(processors(), multiplications // MUCH))


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="bayesprune")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has the pool, but none of its threads


def in_parts(function: Callable[[int, int], object], size: int, grain: int, most: int) -> None:
    """Call ``function(begin, end)`` on parts of ``range(size)``, at most ``most`` of them, at multiples of ``grain``.

    >>> parts = []
    >>> in_parts(lambda begin, end: parts.append((begin, end)), 100, 32, 2)
    >>> sorted(parts)
    [(0, 64), (64, 100)]
    """
    grains = -(-size // grain)
    count = max(1, min(most, grains))
    ends = [min(size, grain * -(-grains * part // count)) for part in range(count + 1)]
    waiting = [_pool(count - 1).submit(function, *ends[part : part + 2]) for part in range(1, count)] if count > 1 else []
    function(ends[0], ends[1])
    for part in waiting:
        part.result()
