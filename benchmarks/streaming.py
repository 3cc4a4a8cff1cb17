"""What reading data as they are needed costs: a step of LeNet-5 from each kind of source, memory against the size of a file.

    python benchmarks/streaming.py run                       # into runs/streaming.jsonl, if it is not there
    python benchmarks/streaming.py run --only part=memory
    python benchmarks/tables.py                              # from the results kept here, into the page

Steps: variational LeNet-5, batches of 128 made-up images of 32 x 32. Every source takes its turn in each round: a fit of its
own by `fit_svi`, whose first stretch of ``steps`` steps, with its compilation, is left out. A figure is the median over
stretches and rounds, and its ratio to the same images in the device's memory: of the time that passed, and of the time that all
threads of the process computed, that which reads included, which other work on the machine disturbs less.

Memory: a fit that reads every row of a sparse file of so many gigabytes once, in a process of its own: the largest resident set
(Linux's VmHWM), beside that of a process that fits the first two batches of that file.
"""

import itertools
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells

SIDE = 32
LARGE = 4096  # rows of a batch where a whole file is read


@dataclass(frozen=True)
class Cell:
    """``part``: "step", all sources side by side, or "memory", one ``kind`` of data, "file" or "arrays", of ``megabytes``."""

    part: str
    rows: int = 0
    batch: int = 0
    steps: int = 0
    stretches: int = 0
    rounds: int = 0
    kind: str = ""
    megabytes: int = 0


FILES = tuple(Cell("memory", kind="file", megabytes=size) for size in (1_000, 10_000))
STEP = Cell("step", rows=20_000, batch=128, steps=64, stretches=2, rounds=2)
CELLS = (STEP, *FILES, Cell("memory", kind="arrays", megabytes=1_000))


def build() -> bp.BNN:
    return bp.BNN(
        bp.nets.LeNet5(num_outputs=10),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(SIDE, SIDE, 1),
    )


class Pairs:
    """Single rows of two arrays."""

    def __init__(self, data: bp.Dataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data.y)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        return self.data.x[row], self.data.y[row]


def sources(rows: int, batch: int, folder: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Name -> the same images in that form, and what `fit_svi` is told of them."""
    rng = np.random.default_rng(0)
    data = bp.Dataset(rng.normal(size=(rows, SIDE, SIDE, 1)).astype(np.float32), rng.integers(0, 10, rows).astype(np.int32))
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", data.x)
    listed = [(data.x[first : first + batch], data.y[first : first + batch]) for first in range(0, rows, batch)]
    pairs = grain.MapDataset.source(np.arange(rows)).seed(0).shuffle().map(lambda row: (data.x[row], data.y[row]))
    told = {"num_rows": rows}
    return {
        "arrays on the device": (data, {"batch_size": batch}),
        "memory-mapped file": (bp.Dataset(np.load(folder / "x.npy", mmap_mode="r"), data.y), {"batch_size": batch}),
        "single rows": (Pairs(data), {"batch_size": batch}),
        "list of batches": (listed, told),
        "Grain": (pairs.repeat(None, reseed_each_epoch=True).batch(batch), told),
    }


NAMES = ("arrays on the device", "memory-mapped file", "single rows", "list of batches", "Grain")


def seconds(bnn: bp.BNN, cell: Cell, data: Any, told: dict[str, Any]) -> list[np.ndarray]:
    """Of a step, in every stretch but the first: those that passed, and those that were computed."""
    ends: list[np.ndarray] = []
    bp.fit_svi(
        jax.random.key(0),
        bnn,
        data,
        num_steps=(1 + cell.stretches) * cell.steps,
        course=bp.courses.Plain(rate=1e-3),
        callbacks=lambda moment: ends.append(np.array([time.perf_counter(), time.process_time()])),
        callback_every=cell.steps,
        progress=False,
        **told,
    )
    return [(end - begin) / cell.steps for begin, end in itertools.pairwise(ends)]


def step(cell: Cell, folder: Path) -> cells.Record:
    bnn, found = build(), sources(cell.rows, cell.batch, folder)
    times: dict[str, list[np.ndarray]] = {name: [] for name in found}
    for _ in range(cell.rounds):
        for name, (data, told) in found.items():
            times[name] += seconds(bnn, cell, data, told)
    (folder / "x.npy").unlink()
    medians = {name: np.median(values, axis=0) for name, values in times.items()}
    whole = medians["arrays on the device"]
    return cells.flat({name: figures(median, whole, times[name]) for name, median in medians.items()})


def figures(median: np.ndarray, whole: np.ndarray, values: list[np.ndarray]) -> dict[str, float]:
    """``whole``: the medians of arrays on the device."""
    passed = [float(value[0]) for value in values]
    ratio, computed_ratio = (float(part) for part in median / whole)
    return {
        "seconds": float(median[0]),
        "lowest": min(passed),
        "highest": max(passed),
        "ratio": ratio,
        "computed": float(median[1]),
        "computed_ratio": computed_ratio,
    }


READS = """
import jax, numpy as np, bayesprune as bp
x = {opened}
data = bp.Dataset(x, np.zeros(len(x), np.int32))
bnn = bp.BNN(bp.nets.MLP((4,), 2), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=x.shape[1:])
steps = {steps} or len(x) // {batch}
plain = bp.courses.Plain()
bp.fit_svi(jax.random.key(0), bnn, data, num_steps=steps, batch_size={batch}, course=plain, progress=False)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak(code: str, **names: object) -> int:
    """kB of a process that runs this code."""
    done = subprocess.run([sys.executable, "-c", code.format(**names)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def memory(cell: Cell, folder: Path) -> cells.Record:
    rows = max(LARGE, cell.megabytes * 10**6 // (SIDE * SIDE * 4) // LARGE * LARGE)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.float32, (rows, SIDE, SIDE, 1))  # nothing is written but its head
    opened = f"np.load({str(path)!r}, mmap_mode={'r' if cell.kind == 'file' else None!r})"
    try:
        few, all_rows = (peak(READS, opened=opened, batch=LARGE, steps=steps) for steps in (2, 0))
    finally:
        path.unlink()
    return {"rows_read": rows, "file_bytes": rows * SIDE * SIDE * 4, "few_kb": few, "peak_kb": all_rows}


def run(cell: Cell, folder: Path) -> cells.Record:
    return {"step": step, "memory": memory}[cell.part](cell, folder)


def steps_table(found: cells.Found) -> str:
    head = ["data", "ms a step", "lowest to highest", "ratio", "ms computed a step", "ratio"]
    record = found.get(STEP)
    if record is None:
        return cells.table(head, [[name, *["missing"] * 5] for name in NAMES], "lrrrrr")
    rows = []
    for name in NAMES:
        ms = {what: f"{1e3 * record[f'{name}/{what}']:.1f}" for what in ("seconds", "lowest", "highest", "computed")}
        ratio, computed = (f"{record[f'{name}/{what}']:.3f}" for what in ("ratio", "computed_ratio"))
        rows.append([name, ms["seconds"], f"{ms['lowest']} to {ms['highest']}", ratio, ms["computed"], computed])
    return cells.table(head, rows, "lrrrrr")


def memory_table(found: cells.Found) -> str:
    head = ["data", "rows", "GB", "largest, two batches, MB", "largest, all rows once, MB"]
    rows = []
    for cell in CELLS[1:]:
        record = found.get(cell)
        name = {"file": "memory-mapped file", "arrays": "arrays on the device"}[cell.kind]
        sizes = ["missing"] * 4
        if record is not None:
            sizes = [f"{record['rows_read']:,}", f"{record['file_bytes'] / 1e9:.2f}"]
            sizes += [f"{record[part] / 1e3:,.0f}" for part in ("few_kb", "peak_kb")]
        rows.append([name, *sizes])
    return cells.table(head, rows, "lrrrr")


STUDY = cells.Study("streaming", CELLS, run, {"steps": steps_table, "memory": memory_table})

if __name__ == "__main__":
    cells.main(STUDY)
