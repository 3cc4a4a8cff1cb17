"""Seconds of a call: as many calls as go into a tenth of a second, after some that are not counted."""

import statistics
import time
from collections.abc import Callable
from typing import Any

TIMED, WARM = 0.1, 3  # seconds in which calls are timed, and calls before that are not


def milliseconds(call: Callable[[], Any]) -> tuple[float, float]:
    """The median of calls, and the distance between their quartiles, in milliseconds."""
    quarters = statistics.quantiles(times(call), n=4)
    return 1e3 * quarters[1], 1e3 * (quarters[2] - quarters[0])


def times(call: Callable[[], Any]) -> list[float]:
    """Seconds of each call."""
    for _ in range(WARM):
        call()
    found, end = list[float](), time.perf_counter() + TIMED
    while len(found) < WARM or time.perf_counter() < end:
        before = time.perf_counter()
        call()
        found.append(time.perf_counter() - before)
    return found
