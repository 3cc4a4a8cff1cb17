"""Training on what is connected beside training with masks: seconds of the same fit by both storages, and what each step costs.

    python benchmarks/shrunk_training.py run                 # into runs/shrunk_training.jsonl, what is not there
    python benchmarks/tables.py                              # from the results kept here, into the page

An MLP of five layers of 400 on Fashion-MNIST by the standard course with Bayesian model reduction, each cell a process of its
own, with one key. Seconds are of the process's CPU time, compilation with them: on a shared machine wall-clock time is that of
its neighbours too. A step's milliseconds are those of whole chunks, over the first and the last tenth of the steps.
"""

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.short_program import numbers_in, slices_in_use
from bayesprune.train.training import Training


@dataclass(frozen=True)
class Cell:
    storage: str
    steps: int


CELLS = tuple(Cell(storage, steps) for steps in (2_000, 8_000) for storage in ("masked", "compact"))
CELLS += (Cell("auto", 8_000),)


def measured(cell: Cell) -> cells.Record:
    """One fit, in this process."""
    train, test = bp.data.load("fashion_mnist")
    parts = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "input_shape": train.x.shape[1:]}
    bnn = bp.BNN(bp.nets.MLP((400,) * 5, 10), **parts)
    times: list[tuple[int, int, float]] = []  # first step, steps, CPU seconds of a chunk
    chunk = Training._chunk

    def timed(self, state, record, num_steps, begun):  # type: ignore[no-untyped-def]
        first, begin = int(state.carry.step), time.process_time()
        result = chunk(self, state, record, num_steps, begun)
        times.append((first, result[1], time.process_time() - begin))
        return result

    Training._chunk = timed
    begin = time.process_time()
    fit = bp.fit_svi(
        jax.random.key(0), bnn, train, num_steps=cell.steps, batch_size=128, sparsifier=bp.methods.BMR(), storage=cell.storage,
        progress=False,
    )  # fmt: skip
    seconds, memory = time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    judged = bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask, num_samples=50)
    early = [spent / steps for first, steps, spent in times[3:] if first < cell.steps / 10]
    late = [spent / steps for first, steps, spent in times if first >= 0.9 * cell.steps]
    mask = [np.asarray(alive) for alive in fit.mask.values()]
    return {
        "cpu_seconds": seconds,
        "in_steps": sum(spent for *_, spent in times),
        "first_ms": 1e3 * float(np.median(early)),
        "last_ms": 1e3 * float(np.median(late)),
        "shrunk": " ".join(str(int(step)) for step in fit.history.get("shrunk/step", [])),
        "numbers": int(fit.history.get("shrunk/numbers", [sum(np.prod(spec.shape) for spec in bnn.layout)])[-1]),
        "in_use": numbers_in(bnn, slices_in_use(bnn, {site: np.asarray(alive) for site, alive in fit.mask.items()})),
        "memory": memory,
        "density": float(sum(alive.sum() for alive in mask) / sum(alive.size for alive in mask)),
        "accuracy": float(judged["accuracy"]),
        "nll": float(judged["nll"]),
    }


def run(cell: Cell, folder: Path) -> cells.Record:
    """In a process of its own, whose memory nobody else has used."""
    command = [sys.executable, __file__, "one", json.dumps(asdict(cell))]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(made.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def table(found: cells.Found) -> str:
    head = ["storage", "steps", "CPU seconds", "of which steps", "ms a step, first tenth", "last tenth", "shrunk before step"]
    head += [
        "numbers held at the end",
        "in slices that are in use",
        "peak memory, MB",
        "density",
        "accuracy",
        "NLL",
    ]
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        line = [cell.storage, f"{cell.steps:,}"]
        if record is None:
            rows.append([*line, *["missing"] * 11])
            continue
        figures = [f"{record[name]:.0f}" for name in ("cpu_seconds", "in_steps")]
        figures += [f"{record[name]:.1f}" for name in ("first_ms", "last_ms")]
        figures += [str(record["shrunk"] or "-"), f"{record['numbers']:,}", f"{record['in_use']:,}", f"{record['memory']:,.0f}"]
        rows.append([*line, *figures, *(f"{record[name]:.4f}" for name in ("density", "accuracy", "nll"))])
    return cells.table(head, rows, "l" + "r" * 12)


STUDY = cells.Study("shrunk_training", CELLS, run, {"fashion_mnist": table})

if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measured(Cell(**json.loads(sys.argv[2])))))
    else:
        cells.main(STUDY)
