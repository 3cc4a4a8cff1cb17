"""By which engine a compact network predicts, and what "auto" loses to the best: densities, rows, draws.

    python benchmarks/engines.py run                         # into runs/engines.jsonl, if it is not there
    python benchmarks/engines.py run --only net=gru
    python benchmarks/engines.py table                       # from the results kept here

An MLP of 400-400 units and a GRU of 64 on the digits' shape, LeNet-5 on 28 x 28; of every matrix a share of weights is alive at
random, biases are. "digits" is the MLP after a default fit by BMR, of so many steps. A cell of the grid is so many rows and so
many drawn networks, 0: the network at the posterior mean; `predict`, and `predict_draws`. Rows times networks are at most
10,000: beyond, all engines go block by block. Contestants take turns; the least of their times, of one processor, in seconds
that it computed, which other work on the machine disturbs least.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from nets_at_random import RowsInTurn

import bayesprune as bp
from bayesprune import cells
from bayesprune.deploy.engines.draws_engine import DrawsEngine

ROWS, DRAWS, MOST = (1, 100, 10_000), (0, 1, 100), 10_000
NETS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (lambda: bp.nets.MLP((400, 400), 10), (8, 8, 1)),
    "lenet5": (lambda: bp.nets.LeNet5(10), (28, 28, 1)),
    "gru": (lambda: RowsInTurn(64), (8, 8, 1)),
    "digits": (lambda: bp.nets.MLP((400, 400), 10), (8, 8, 1)),
}
KEY = jax.random.key(1)
AT_LEAST, AT_MOST = 5, 60  # turns of the contestants


@dataclass(frozen=True)
class Cell:
    """``density``: of each matrix, at random; of "digits" nothing: it is what a fit of so many ``steps`` leaves."""

    net: str
    density: float = 0.0
    steps: int = 0


CELLS = (
    *(Cell(net, density) for net in ("mlp", "lenet5", "gru") for density in (0.05, 0.5)),
    Cell("digits", steps=1_000),
)


def network(cell: Cell) -> tuple[bp.BNN, dict[str, Any], dict[str, Any], bp.Dataset]:
    """With its parameters, its mask and rows."""
    make, shape = NETS[cell.net]
    prior = bp.priors.Flat() if cell.steps else bp.priors.Gaussian()
    bnn = bp.BNN(make(), prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=shape)
    if cell.steps:
        train, test = bp.data.load("digits")
        how = {"num_steps": cell.steps, "batch_size": 128, "sparsifier": bp.methods.BMR(), "progress": False}
        fit = bp.fit_svi(jax.random.key(0), bnn, train, **how)
        return bnn, fit.params, fit.mask, test
    rng = np.random.default_rng(0)
    data = bp.Dataset(rng.standard_normal((128, *shape)).astype(np.float32), rng.integers(0, 10, 128).astype(np.int32))
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, batch_size=128, course=bp.courses.Plain(), progress=False)
    mask = {str(s.path): rng.random(s.shape) < (cell.density if len(s.shape) > 1 else 1.1) for s in bnn.layout if s.prunable}
    return bnn, fit.params, mask, data


def contestants(small: bp.Compact, engine: DrawsEngine, x: np.ndarray, draws: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is asked, and by whom it can be had."""
    by = lambda function: {name: lambda name=name: function(name) for name in ("auto", "jax", "kernels")}  # noqa: E731
    if not draws:
        yield "mean", by(lambda engine: small.predict(x, engine=engine))
        return
    yield "draws", by(lambda engine: small.predict_draws(KEY, x, draws, engine=engine))
    found = by(lambda engine: small.predict(x, rng_key=KEY, num_samples=draws, engine=engine))
    found["weights"] = lambda: engine.predict(KEY, x, draws)
    if len(x) <= 100 and engine.may_be_local:
        found["local"] = lambda: engine.predict(KEY, x, draws, "local")
    yield "predict", found


def least(calls: dict[str, Callable[[], Any]], room: float = 0.4) -> dict[str, float]:
    """Seconds of each, in turns, each turn in an order of its own: whoever comes next finds the caches as the one before left
    them. More turns while there is time."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    begin, rng = time.perf_counter(), np.random.default_rng(0)
    for turn in range(AT_MOST):
        for name in rng.permutation(list(calls)):
            before = time.process_time()
            calls[name]()
            times[name].append(time.process_time() - before)
        if turn + 1 >= AT_LEAST and time.perf_counter() - begin > room:
            break
    return {name: min(values) for name, values in times.items()}


def run(cell: Cell, folder: Path) -> cells.Record:
    """Milliseconds of every contestant in every cell of the grid."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    bnn, params, mask, data = network(cell)
    small = bp.compact(bnn, params, mask)
    engine, grid, rng = DrawsEngine(small), dict[str, Any](), np.random.default_rng(0)
    for rows in ROWS:
        x = data.x[rng.integers(0, len(data.x), rows)]
        for draws in DRAWS:
            if rows * draws > MOST:
                continue
            for what, calls in contestants(small, engine, x, draws):
                times = {name: 1e3 * seconds for name, seconds in least(calls).items()}
                grid[f"{what} {rows} {draws}"] = {name: float(f"{value:.3g}") for name, value in times.items()}
    made: cells.Record = {"alive": small.cost.alive, "numbers": small.cost.numbers, **cells.flat(grid)}
    if cell.steps:
        x = data.x[:1]
        given = least(
            {"bp": lambda: bp.predict(KEY, bnn, params, x, mask=mask), "small": lambda: small.predict(x, rng_key=KEY)}
        )
        made |= {"predict_ms": 1e3 * given["bp"], "small_ms": 1e3 * given["small"], "times": given["bp"] / given["small"]}
    return made


def grid_of(record: cells.Record) -> dict[str, dict[str, float]]:
    """By what is asked, rows and draws, the milliseconds of each contestant."""
    grid: dict[str, dict[str, float]] = {}
    for name, value in record.items():
        if "/" in name:
            grid.setdefault(name.split("/")[0], {})[name.split("/")[1]] = value
    return grid


def name_of(cell: Cell) -> str:
    return f"digits, {cell.steps:,} steps" if cell.steps else f"{cell.net}, {100 * cell.density:g} %"


def lost(times: dict[str, float]) -> float:
    """How much longer "auto" takes than the best."""
    return times["auto"] / min(times.values())


# ---- tables
def table_of(head: list[str], align: str, line: Callable[[Cell, cells.Record], list[str]], records: cells.Found) -> str:
    """A line for each network, or that it is missing."""
    missing = ["missing"] * (len(head) - 1)
    rows = [[name_of(cell), *(line(cell, records[cell]) if cell in records else missing)] for cell in CELLS]
    return cells.table(head, rows, align)


def by_net(records: cells.Found) -> str:
    """A line for each network: how far "auto" is from the best."""

    def line(cell: Cell, record: cells.Record) -> list[str]:
        ratios = {what: lost(times) for what, times in grid_of(record).items()}
        worst = max(ratios, key=ratios.__getitem__)
        within = sum(ratio <= 1.2 for ratio in ratios.values())
        (what, count, draws), middle = worst.split(), np.median(list(ratios.values()))
        where = f"`{'predict_draws' if what == 'draws' else 'predict'}`, {int(count):,} rows, {int(draws):,} draws"
        figures = [record["alive"], len(ratios), within, f"{middle:.2f}", f"{ratios[worst]:.2f}"]
        return [f"{figures[0]:,}", *map(str, figures[1:]), where]

    head = ["network", "numbers that are not zero", "cells", "within 1.2 of the best", "median", "worst", "where"]
    return table_of(head, "lrrrrrl", line, records)


def times_table(records: cells.Found) -> str:
    """Milliseconds for one row and for a hundred, 100 draws."""
    each = ["auto", "JAX", "weights", "sums"]
    head = [
        "network",
        *(f"{one}, {count} row{'s' * (count > 1)}" for count in (1, 100) for one in each),
        "`bp.predict` / auto, 1 row",
    ]

    def line(cell: Cell, record: cells.Record) -> list[str]:
        times: list[str] = []
        for count in (1, 100):
            found = grid_of(record)[f"predict {count} 100"]
            times += [f"{found[by]:.3g}" if by in found else "" for by in ("auto", "jax", "weights", "local")]
        return [*times, f"{record['times']:.0f}" if cell.steps else ""]

    return table_of(head, "l" + "r" * 9, line, records)


STUDY = cells.Study("engines", CELLS, run, {"grid": by_net, "times": times_table})

if __name__ == "__main__":
    cells.main(STUDY)
