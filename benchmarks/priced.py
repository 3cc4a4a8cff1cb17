"""What `bp.price` says before a fit, beside what the fit then takes: seconds, memory, bytes on disk.

    python benchmarks/priced.py run                        # what is not in runs/priced.jsonl yet
    python benchmarks/priced.py table                      # from the results kept here

A cell asks the price, trains the fit in the same process, and saves it. Seconds are of the wall, without compilation, which the
fit finds done. Memory is what the process had resident at its highest during the fit, above what it had before: Linux's VmHWM,
set back by /proc/self/clear_refs once the allocator has given back what it could (elsewhere there is none, and the cell fails).
Runs on a busy machine: the ratio of seconds has its ups and downs in it.
"""

import ctypes
import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from course import NETS, NUMBERS

import bayesprune as bp
from bayesprune import cells

EVALUATED = {"eval_samples": 20}


@dataclass(frozen=True)
class Cell:
    """One fit; ``method``: "none", "bmr" or "snr"; ``evaluations``: how often the test rows are looked at."""

    data: str
    net: str
    method: str
    steps: int
    evaluations: int


FITS = (  # data, net, steps
    ("concrete", "mlp50", 3_000),
    ("digits", "mlp100x2", 3_000),
    ("fashion_mnist", "mlp200x2", 1_000),
    ("fashion_mnist", "mlp400x5", 400),
    ("fashion_mnist", "lenet5", 400),
)
CELLS = (
    *(
        Cell(data, net, method, steps, evaluations)
        for data, net, steps in FITS
        for method, evaluations in (("none", 0), ("bmr", 0), ("snr", 4))
    ),
    Cell("mnist", "mlp200x2", "bmr", 2_000, 4),
    Cell("naval_propulsion_plant", "mlp50", "bmr", 5_000, 0),
    Cell("power_plant", "mlp50", "none", 5_000, 10),
    Cell("wine_quality_red", "mlp50", "snr", 10_000, 0),
    Cell("yacht", "mlp50", "bmr", 1_000, 0),
)
METHODS: dict[str, Any] = {"none": {}, "bmr": {"sparsifier": bp.methods.BMR()}, "snr": {"sparsifier": bp.methods.SNR(0.2)}}


def run(cell: Cell, folder: Path) -> cells.Record:
    """The price, and what it was the price of."""
    numbers = cell.data in NUMBERS
    train, test = bp.data.load(cell.data, pad=32 if cell.net == "lenet5" else 0, standardise=not numbers)
    if numbers:
        train, test = bp.data.standardise(train, test, targets=True)
    likelihood = bp.likelihoods.Normal() if numbers else bp.likelihoods.Categorical()
    bnn = bp.BNN(NETS[cell.net], prior=bp.priors.Flat(), likelihood=likelihood, input_shape=train.x.shape[1:])
    settings = {"num_steps": cell.steps, "batch_size": 128, "progress": False} | METHODS[cell.method]
    if cell.evaluations:
        settings |= EVALUATED | {"eval_data": test, "eval_every": cell.steps // cell.evaluations}
    begin = time.perf_counter()
    told = bp.price(jax.random.key(0), bnn, train, **settings)
    asked = time.perf_counter() - begin
    before = _rest()
    begin = time.perf_counter()
    fit = bp.fit_svi(jax.random.key(0), bnn, train, **settings)
    jax.block_until_ready(fit.params)
    taken, peak = time.perf_counter() - begin, _status("VmHWM")
    folder.mkdir(parents=True, exist_ok=True)
    fit.save(folder / "fit.safetensors")
    return {
        "price_seconds": asked,
        "told_seconds": told.seconds - told.compile_seconds,
        "told_compile_seconds": told.compile_seconds,
        "fit_seconds": taken,
        "told_bytes": told.memory_bytes,
        "fit_bytes": peak - before,
        "told_file_bytes": told.file_bytes,
        "saved_bytes": (folder / "fit.safetensors").stat().st_size,
    }


def _rest() -> int:
    """Bytes resident once what is free has been given back; the peak counts from here."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def ratios(found: cells.Found) -> str:
    """A row for each fit: what was said, and that over what was found."""
    rows = []
    for cell in CELLS:
        row = [cell.data, cell.net, cell.method, f"{cell.steps:,}", str(cell.evaluations)]
        record = found.get(cell)
        if record is None:
            rows.append([*row, *[cells.MISSING] * 8])
            continue
        pairs = (
            ("told_seconds", "fit_seconds", 1.0, 1),
            ("told_bytes", "fit_bytes", 1e6, 1),
            ("told_file_bytes", "saved_bytes", 1e6, 3),
        )
        for told, taken, unit, digits in pairs:
            row += [f"{record[told] / unit:.{digits}f}", f"{record[told] / record[taken]:.2f}"]
        rows.append([*row, f"{record['told_compile_seconds']:.1f}", f"{record['price_seconds']:.1f}"])
    head = [
        "data",
        "net",
        "method",
        "steps",
        "evaluations",
        "seconds",
        "said / taken",
        "MB at once",
        "said / taken",
        "MB on disk",
    ]
    return cells.table([*head, "said / taken", "compiling, s", "asking, s"], rows, "lll" + "r" * 10)


STUDY = cells.Study("priced", CELLS, run, {"ratios": ratios})

if __name__ == "__main__":
    cells.main(STUDY)
