"""`Price`: what a call costs, and how that reads; the clock and the scales that prices are taken with."""

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from bayesprune.core.shown import line
from bayesprune.core.types import PyTree
from bayesprune.train.result import FitResult


@dataclasses.dataclass(frozen=True)
class Price:
    """What a call costs. Seconds are those of this machine as busy as it is now, bytes those of one device and its host.

    ``seconds``: of all: ``compile_seconds``, once, ``start_seconds``, and ``step_seconds``, ``act_seconds`` and
    ``eval_seconds`` for each of ``steps``, ``acts`` and ``evaluations``. A step of `laplace` is a chunk of rows, and its one
    act what follows: the evidence, and draws; a step of `predict` is a network on a chunk of rows. ``memory_bytes``: held at
    once by the training loop, or by an evaluation; ``data_bytes`` of them by arrays of data. ``file_bytes``: of ``fit.save``,
    where no weight has fallen: zeros are left out of it.
    """

    compile_seconds: float
    start_seconds: float
    step_seconds: float
    steps: int
    act_seconds: float = 0.0
    acts: int = 0
    eval_seconds: float = 0.0
    evaluations: int = 0
    memory_bytes: int = 0
    data_bytes: int = 0
    file_bytes: int = 0

    @property
    def seconds(self) -> float:
        """Of the whole run, compilation included."""
        once = self.compile_seconds + self.start_seconds
        return once + self.steps * self.step_seconds + self.acts * self.act_seconds + self.evaluations * self.eval_seconds

    def __repr__(self) -> str:
        on_disk = f", {_bytes(self.file_bytes)} on disk" if self.file_bytes else ""
        return line(
            "Price",
            f"{_seconds(self.seconds)}, {_bytes(self.memory_bytes)} at once{on_disk}: "
            f"compiling {_seconds(self.compile_seconds)}",
            f"{self.steps:,} steps of {_seconds(self.step_seconds)}",
            f"{self.acts:,} act{'s' * (self.acts > 1)} of {_seconds(self.act_seconds)}" if self.acts else "",
            f"{self.evaluations:,} evaluations of {_seconds(self.eval_seconds)}" if self.evaluations else "",
        )


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the wall that a call takes, and what it returns."""
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def of_one_more(seconds: Callable[[int], float], few: int, warm: float, most: int, probe_seconds: float, jump: int) -> float:
    """Seconds of one more of what a call repeats, from calls of more and more of them, at most ``jump`` more than before.

    ``warm``: what ``few`` of them take; ``most``: how many the whole call has.
    """
    tried, taken = few, warm
    while taken < warm + probe_seconds and tried < most:
        tried = min(most, 4 * tried, tried + jump)
        taken = seconds(tried)
    return warm / few if tried == few else max(taken - warm, 0.0) / (tried - few)


def size_of(tree: PyTree) -> int:
    """Bytes of all arrays of a tree."""
    # Rows of a stream are known by their shapes.
    of = lambda leaf: leaf.size * leaf.dtype.itemsize if isinstance(leaf, jax.ShapeDtypeStruct) else leaf.nbytes  # noqa: E731
    return sum(int(of(leaf)) for leaf in jax.tree.leaves(tree))


def fit_bytes(fit: FitResult) -> int:
    """Of the file of ``fit.save``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.safetensors"
        fit.save(path)
        return path.stat().st_size


def _seconds(value: float) -> str:
    """Three digits of seconds, in words that suit.

    >>> _seconds(0.00123), _seconds(2.5), _seconds(185.0), _seconds(8000.0)
    ('1.23 ms', '2.5 s', '3.1 min', '2.2 h')
    """
    if value < 1.0:
        return f"{1000 * value:.3g} ms"
    if value < 120.0:
        return f"{value:.3g} s"
    return f"{value / 60:.1f} min" if value < 7200.0 else f"{value / 3600:.1f} h"


def _bytes(value: float | int) -> str:
    """
    >>> _bytes(512), _bytes(20_480), _bytes(3e9)
    ('512 B', '20.5 kB', '3 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"
