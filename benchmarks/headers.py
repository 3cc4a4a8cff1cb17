"""What a network is as a C99 header: bytes of constants, code and memory, and how far it is from what it was written from.

    python benchmarks/headers.py run                         # into runs/headers.jsonl, if it is not there
    python benchmarks/tables.py                              # from the results kept here, into the page

The digits and a UCI table, fitted by the standard course with Bayesian model reduction on the way. The header is compiled by
``gcc -std=c99 -Os``; code is what `size` calls text, less the constants; figures are of what the compiled function predicts for
all test rows. Microseconds are of one row, of one processor of this machine, the least of five times all rows.
"""

import ctypes
import functools
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells

SOURCE = """#include "net.h"
void predict(const float *x, float *y) { static float work[NET_WORK]; net_predict(x, y, work); }
int memory(void) { return 4 * NET_WORK; }
"""


@dataclass(frozen=True)
class Cell:
    data: str
    steps: int
    values: str


SHOWN = {"digits": "digits, MLP 400-400", "uci/concrete": "concrete, MLP 50"}
CELLS = tuple(Cell(data, 5_000, values) for data in SHOWN for values in ("float32", "posterior"))


@functools.cache
def fitted(data: str, steps: int) -> tuple[bp.Compact, bp.Dataset]:
    train, test = bp.data.load(data)
    classes = data == "digits"
    bnn = bp.BNN(
        bp.nets.MLP((400, 400), 10) if classes else bp.nets.MLP((50,), 1),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical() if classes else bp.likelihoods.Normal(),
        input_shape=train.x.shape[1:],
    )
    how = {"num_steps": steps, "batch_size": 128, "sparsifier": bp.methods.BMR(), "progress": False}
    fit = bp.fit_svi(jax.random.key(0), bnn, train, **how)
    return bp.compact(bnn, fit.params, fit.mask), test


def compiled(folder: Path, outputs: int) -> tuple[Callable[[np.ndarray], np.ndarray], int, int]:
    """A function of rows, bytes of code with constants, and of memory."""
    (folder / "net.c").write_text(SOURCE)
    for what in (["-c", "-o", "net.o"], ["-shared", "-fPIC", "-o", "net.so"]):
        subprocess.run(["gcc", "-std=c99", "-Os", "net.c", *what, "-lm"], cwd=folder, check=True)
    text = subprocess.run(["size", "net.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    library = ctypes.CDLL(str(folder / "net.so"))

    def predict(x: np.ndarray) -> np.ndarray:
        x, made = np.ascontiguousarray(x, np.float32), np.empty((len(x), outputs), np.float32)
        for row, y in zip(x.reshape(len(x), -1), made, strict=True):
            library.predict(row.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
        return made

    return predict, int(text.splitlines()[1].split()[0]), library.memory()


def run(cell: Cell, folder: Path) -> cells.Record:
    small, test = fitted(cell.data, cell.steps)
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        small.save(here / "net.h", values=cell.values)
        header = (here / "net.h").read_text()
        predict, text, memory = compiled(here, 10 if cell.data == "digits" else 1)
        made, times = predict(test.x), []
        for _ in range(5):
            begin = time.process_time()
            predict(test.x)
            times.append(time.process_time() - begin)
        size = len(header)
    constants = int(header.split(" bytes of constants")[0].split()[-1])
    lost = float(header.split("which loses ")[1].split(" nats")[0]) if "which loses" in header else 0.0
    whole = small.predict(test.x)
    result: cells.Record = {
        "alive": small.cost.alive,
        "constants": constants,
        "code": text - constants,
        "memory": memory,
        "header": size,
        "nats": lost,
        "away": float(np.abs(made.reshape(whole.shape) - whole).max()),
        "microseconds": 1e6 * min(times) / len(test.x),
    }
    if cell.data == "digits":
        return result | {f"of_{name}": bp.metrics.summary(p, test.y)["accuracy"] for name, p in (("c", made), ("mean", whole))}
    return result | {
        f"of_{name}": bp.metrics.rmse(p.reshape(-1), test.y.reshape(-1)) for name, p in (("c", made), ("mean", whole))
    }


def table(found: cells.Found) -> str:
    head = ["net", "weights as", "numbers that are not zero", "constants, bytes", "code, bytes", "memory, bytes", "nats lost"]
    head += ["accuracy, or RMSE", "of the posterior mean", "largest difference"]
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        line = [SHOWN[cell.data], {"float32": "float", "posterior": "8 bits"}[cell.values]]
        if record is None:
            rows.append([*line, *["missing"] * 8])
            continue
        sizes = [f"{record[name]:,}" for name in ("alive", "constants", "code", "memory")]
        figures = [f"{record[name]:.4f}" for name in ("of_c", "of_mean")]
        rows.append([*line, *sizes, f"{record['nats']:.3g}", *figures, f"{record['away']:.1g}"])
    return cells.table(head, rows, "ll" + "r" * 8)


STUDY = cells.Study("headers", CELLS, run, {"bytes": table})

if __name__ == "__main__":
    cells.main(STUDY)
