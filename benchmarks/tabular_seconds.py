"""CPU seconds of the estimators' default fit to 2,000 rows of 20 columns: cold, with a cache of compiled programs, and warm.

    taskset -c 0 python benchmarks/tabular_seconds.py run    # into runs/tabular_seconds.jsonl, what is not there
    python benchmarks/tabular_seconds.py run --set data=parity  # another table, or preset=fast; in no table of the page
    python benchmarks/tables.py                              # from the results kept here, into the page

Two smooth tables, and two of steps; scores are of 2,000 new rows. "cold": the first fit of a process that has compiled nothing;
"cached": the same where ``JAX_COMPILATION_CACHE_DIR`` is a folder that one like it has filled, with programs of a tenth of
a second or more; "warm": a second fit in the process, of another draw. All without imports; seconds of the processor, of all
threads, on one core: on two, those that wait for each other spin for a third more. "programs": that the first fit compiles.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells
from sklearn import datasets

ROWS, NEW, COLUMNS = 2000, 2000, 20


@dataclass(frozen=True)
class Cell:
    """``preset``: of the estimator."""

    data: str
    preset: str = "default"


def steps(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The simulation of kinds_of_tables, ten columns more."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (ROWS + NEW, COLUMNS))
    y = 2.0 * (x[:, 0] > 0.3) - 3.0 * (x[:, 1] > 0.6) + np.floor(5 * x[:, 2]) % 2 + 1.5 * (x[:, 0] > 0.7) * (x[:, 1] > 0.35)
    return x, y + 0.3 * rng.standard_normal(len(x))


def parity(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether an even number of three signs is positive."""
    x = np.random.default_rng(seed).standard_normal((ROWS + NEW, COLUMNS))
    return x, (np.prod(np.sign(x[:, :3]), axis=1) > 0).astype(int)


DATA = {
    "friedman1": lambda seed: datasets.make_friedman1(ROWS + NEW, COLUMNS, noise=1.0, random_state=seed),
    "clusters": lambda seed: datasets.make_classification(
        ROWS + NEW, COLUMNS, n_informative=6, n_redundant=4, n_classes=3, random_state=seed
    ),
    "steps": steps,
    "parity": parity,
}
MEASURED = ("friedman1", "clusters")
CELLS = tuple(map(Cell, MEASURED))


def measured(cell: Cell, fits: int) -> cells.Record:
    """So many fits in a process that has compiled nothing."""
    kinds = bp.BayesianSparseRegressor, bp.BayesianSparseClassifier
    found: cells.Record = {}
    programs: list[float] = []

    def listen(name: str, seconds: float, **_: object) -> None:
        if name.endswith("backend_compile_duration"):
            programs.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    for seed, state in enumerate(("first", "second")[:fits]):
        x, y = DATA[cell.data](seed)
        kind = kinds[int(np.issubdtype(y.dtype, np.integer))]
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = kind(random_state=0, presets=cell.preset).fit(x[:ROWS], y[:ROWS])
        found |= {state: time.process_time() - begin, f"{state}_form": model.form_, f"{state}_programs": len(programs)}
        found |= {f"{state}_score": float(model.score(x[ROWS:], y[ROWS:]))}
        found |= {f"{state}_log_density": float(np.mean(model.log_density(x[ROWS:], y[ROWS:])))}
        programs.clear()
    return found


def run(cell: Cell, folder: Path) -> cells.Record:
    """A process without a cache, then one that finds what another has filled it with."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}

    def once(environment: dict[str, str], fits: int) -> cells.Record:
        command = [sys.executable, __file__, "one", json.dumps(asdict(cell)), str(fits)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        return dict(json.loads(done.stdout.splitlines()[-1]))

    found = once(bare, 2)
    with tempfile.TemporaryDirectory() as cache:
        kept = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        once(bare | kept, 1)
        cached = once(bare | kept, 1)
    return found | {"cached": cached["first"]}


def table(found: cells.Found) -> str:
    """Seconds and scores of the first fit."""
    head = ["table", "preset", "form", "cold, s", "cached, s", "warm, s", "programs", "score", "nats a row"]
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        if record is None:
            rows.append([cell.data, cell.preset, *[cells.MISSING] * 7])
            continue
        seconds = [f"{record[name]:.1f}" for name in ("first", "cached", "second")]
        rest = [str(record["first_programs"])]
        scores = [f"{record['first_score']:.3f}", f"{record['first_log_density']:.3f}"]
        rows.append([cell.data, cell.preset, record["first_form"], *seconds, *rest, *scores])
    return cells.table(head, rows, "lll" + "r" * 6)


STUDY = cells.Study("tabular_seconds", CELLS, run, {"seconds": table})

if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measured(Cell(**json.loads(sys.argv[2])), int(sys.argv[3]))))
    else:
        cells.main(STUDY)
