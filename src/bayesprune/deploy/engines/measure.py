"""Which kernel is the quickest on this machine: measured, not guessed."""

import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bayesprune.core.checks import check_integer, unknown_name
from bayesprune.core.types import ArrayTree
from bayesprune.deploy.engines.by_jax import ByBCSR, ByJax
from bayesprune.deploy.engines.engine import Engine, one
from bayesprune.deploy.program.packing import checked, random_rows
from bayesprune.deploy.program.weights import Weighted
from bayesprune.deploy.sparse.kernels import KERNELS, available, check_kernel
from bayesprune.deploy.sparse.segments import source_of
from bayesprune.deploy.sparse.threads import processors

ENGINES = ("kernels", "jax", "bcsr")
TIMED, WARM = 0.1, 3  # seconds in which calls are timed, and calls before that are not


def machine() -> str:
    """This machine, as far as timings are of one like it."""
    return f"{platform.system()} {platform.machine()}, {processors()} processors"


@dataclass(frozen=True)
class Choice:
    """What was quickest, by batch size: ``table`` {"rows": {"operation": kernel, ..., "engine": name, "seconds": medians}}.

    "engine" is "kernels", "jax" or "bcsr" (JAX, sparse matrices in its BCSR format). "seconds" holds the medians that this was
    read from: of each operation by each kernel, and of the whole network by one kernel for all ("all dense", ...), by those
    that are chosen ("kernels"), by "jax", and by "bcsr" where a matrix is sparse. The table is JSON as it is. ``machine``: the
    kind of machine that it was measured on.
    """

    table: Mapping[str, Mapping[str, Any]]
    machine: str = field(default_factory=machine)

    def at(self, rows: int) -> Mapping[str, Any]:
        """The line for so many rows: that of the nearest batch size in logarithm, the smaller of two.

        >>> choice = Choice({"1": {"engine": "kernels"}, "100": {"engine": "jax"}})
        >>> [choice.at(rows)["engine"] for rows in (1, 10, 11, 5000)]
        ['kernels', 'kernels', 'jax', 'jax']
        """
        return self.table[min(self.table, key=lambda size: (abs(math.log(int(size) / max(1, rows))), int(size)))]

    def kernels(self, rows: int) -> dict[int, str]:
        """{operation: kernel} for so many rows, as `Engine` takes them."""
        return {int(key): kernel for key, kernel in self.at(rows).items() if key not in ("engine", "seconds")}

    def holds_here(self) -> bool:
        """Whether it was measured on a machine like this one, with kernels that are installed here."""
        named = {kernel for rows in self.table for kernel in self.kernels(int(rows)).values()}
        return self.machine == machine() and named <= set(available())

    @classmethod
    def read(cls, stated: Any) -> "Choice":
        """From JSON of ``table`` and ``machine``. Raises ``ValueError`` for what is none."""
        choice = cls({str(int(size)): dict(line) for size, line in stated["table"].items()}, str(stated["machine"]))
        for size, line in choice.table.items():
            named = choice.kernels(int(size)).values() if int(size) > 0 else [""]
            if line["engine"] not in ENGINES or not set(named) <= set(KERNELS):
                raise ValueError(f"the measurement for {size} rows names no engine or kernel of ours")
        return choice


def measure(
    compact: Weighted,
    batch_sizes: Sequence[int] = (1, 128),
    *,
    x: ArrayTree | None = None,
    kernels: Sequence[str] | None = None,
    num_repeats: int = 30,
) -> Choice:
    """Time every kernel for every product at every batch size, and whole networks by them and by JAX.

    Contestants take turns, so that a drift of the machine's speed hits them alike. Each is run ``num_repeats`` times, each time
    right after one that does not count, and its median is taken. The times are of this machine with what else it does.
    `Compact.measured` keeps them with the network, which then predicts by what was quickest.

    Args:
        compact: of `bayesprune.compact` or `bayesprune.load`; its network at the posterior mean is run.
        batch_sizes: numbers of rows.
        x: rows to run on, repeated as needed; None: standard normal numbers, or random ones of the type that the network takes.
        kernels: those to try; None: all that are installed.
        num_repeats: how often.

    Raises:
        ValueError: no batch size, or one below 1; an unknown kernel.
        ImportError: "numba" by name, and it is not installed.

    Example:
        >>> import jax, bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP((8,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(4,))
        >>> train = bp.Dataset(np.ones((20, 4), np.float32), np.arange(20) % 3)
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=20)
        >>> small = bp.compact(bnn, fit.params, fit.mask, keep="mean")
        >>> choice = measure(small, (1, 16), kernels=("dense", "csr"), num_repeats=3)
        >>> sorted(choice.table), choice.at(10)["engine"] in ("kernels", "jax", "bcsr")
        (['1', '16'], True)
    """
    if isinstance(batch_sizes, str | int) or not batch_sizes:
        raise ValueError(f"batch_sizes must be a list of numbers of rows, such as [1, 128], got {batch_sizes!r}.")
    for size in batch_sizes:
        check_integer(size, "batch_sizes")
    check_integer(num_repeats, "num_repeats")
    tried = available() if kernels is None else tuple(kernels)
    for kernel in tried:
        check_kernel(kernel)
    if not tried:
        raise unknown_name("kernel", "", available())
    contestants, table = _Contestants(compact, tried, num_repeats), dict[str, Mapping[str, Any]]()
    for size in map(int, batch_sizes):
        rows = random_rows(np.random.default_rng(0), compact.inputs, compact.program.vocabulary, size) if x is None else x
        table[str(size)] = contestants.line(np.resize(checked(compact.inputs, rows), (size, *compact.inputs.row_shape)))
    return Choice(table)


class _Contestants:
    """All that can run the network: JAX alone where it has operations that no engine knows."""

    def __init__(self, compact: Weighted, tried: tuple[str, ...], num_repeats: int) -> None:
        self.compact, self.tried, self.num_repeats = compact, tried, num_repeats
        self.others: dict[str, Callable[[Any], np.ndarray]] = {"jax": ByJax(compact)}
        self.engines: dict[str, Engine] = {}
        if compact.program.opaque or compact.head.opaque:
            return
        weights = compact.law.mean()
        self.engines = {name: Engine(compact.program, compact.head, weights, name) for name in dict.fromkeys(("dense", *tried))}
        if (sparse := ByBCSR(compact)).matrices:
            self.others["bcsr"] = sparse

    def line(self, x: np.ndarray) -> dict[str, Any]:
        """The table's line for these rows."""
        if not self.engines:
            return {"engine": "jax", "seconds": _medians({"jax": partial(self.others["jax"], x)}, self.num_repeats)}
        values, operations = self.engines["dense"].values(x), dict[str, dict[str, float]]()
        for index, segment in self.engines["dense"].segments.items():
            names = [kernel for kernel in self.tried if segment.pattern is not None] or ["dense"]
            calls = {name: partial(one([segment], name), values[source_of(segment, name)]) for name in names}
            operations[str(index)] = _medians(calls, self.num_repeats)
        best = {int(index): min(times, key=times.__getitem__) for index, times in operations.items()}
        mixed = Engine(self.compact.program, self.compact.head, self.compact.law.mean(), best)
        engines = {"kernels": mixed} | {f"all {name}": self.engines[name] for name in self.tried}
        calls = {name: partial(engine, x) for name, engine in (engines | self.others).items()}
        totals = _medians(calls, self.num_repeats)
        quickest = min(engines, key=totals.__getitem__)
        totals["kernels"] = totals[quickest]
        line = {str(index): kernel for index, kernel in engines[quickest].kernels.items()}
        return {**line, "engine": min(set(ENGINES) & set(totals), key=totals.__getitem__), "seconds": {**operations, **totals}}


def _medians(calls: Mapping[str, Callable[[], Any]], num_repeats: int) -> dict[str, float]:
    """Median seconds of each call, taken in turn, each right after one of its own that does not count.

    Right after another's, its numbers are not in the cache, and the threads of the other still wait for work.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(num_repeats):
        for name, call in calls.items():
            call()
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


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
