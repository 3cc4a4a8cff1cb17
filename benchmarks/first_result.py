"""CPU seconds to the first result in a new process: importing, a short fit, its evaluation, with nothing compiled before.

    python benchmarks/first_result.py run                    # into runs/first_result.jsonl, what is not there
    python benchmarks/tables.py                              # from the results kept here, into the page

An MLP of one hidden layer of 50 on digits, 60 steps of the standard course, then 20 draws for the test rows. Each figure is the
least of three processes. "fully": every program is compiled with all of XLA's optimisations, as before they were left out of
programs that run seldom (`core.compiling`); "as it is": the library's own choice.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

BEGIN = time.process_time()
import jax  # noqa: E402

import bayesprune as bp  # noqa: E402
from bayesprune import cells  # noqa: E402

IMPORTED = time.process_time() - BEGIN
REPEATS = 3


@dataclass(frozen=True)
class Cell:
    """``method``: "none" or "bmr"; ``compiled``: "fully", or "as it is"."""

    method: str
    compiled: str


CELLS = tuple(Cell(method, compiled) for method in ("none", "bmr") for compiled in ("fully", "as it is"))


def measured(cell: Cell) -> cells.Record:
    """In a process that has compiled nothing."""
    if cell.compiled == "fully":
        from bayesprune.infer import predict
        from bayesprune.train import loop

        loop.quickly = lambda level=0: {}  # type: ignore[attr-defined]
        predict.soundly = dict  # type: ignore[attr-defined]
    programs = []

    def listen(name: str, seconds: float, **_: object) -> None:
        if name.endswith("backend_compile_duration"):
            programs.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    train, test = bp.data.load("digits")
    parts = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "input_shape": train.x.shape[1:]}
    bnn = bp.BNN(bp.nets.MLP((50,), 10), **parts)
    how = {"sparsifier": bp.methods.BMR()} if cell.method == "bmr" else {}
    begin = time.process_time()
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=60, batch_size=128, progress=False, **how)
    jax.block_until_ready(fit.params)
    fitted = time.process_time()
    count = len(programs)
    bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask, num_samples=20)
    return {
        "import_seconds": IMPORTED,
        "fit_seconds": fitted - begin,
        "evaluate_seconds": time.process_time() - fitted,
        "programs_of_fit": count,
        "programs_of_evaluate": len(programs) - count,
    }


def run(cell: Cell, folder: Path) -> cells.Record:
    """The least of several processes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    made = []
    for _ in range(REPEATS):
        command = [sys.executable, __file__, "one", json.dumps(asdict(cell))]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        made.append(json.loads(done.stdout.splitlines()[-1]))
    return {name: min(one[name] for one in made) for name in made[0]}


def table(found: cells.Found) -> str:
    head = ["method", "compiled", "import, s", "`fit_svi`, s", "`evaluate`, s", "programs of the fit", "of the evaluation"]
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        line = [cell.method, cell.compiled]
        if record is None:
            rows.append([*line, *[cells.MISSING] * 5])
            continue
        line += [f"{record[f'{name}_seconds']:.1f}" for name in ("import", "fit", "evaluate")]
        rows.append([*line, str(record["programs_of_fit"]), str(record["programs_of_evaluate"])])
    return cells.table(head, rows, "ll" + "r" * 5)


STUDY = cells.Study("first_result", CELLS, run, {"seconds": table})

if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measured(Cell(**json.loads(sys.argv[2])))))
    else:
        cells.main(STUDY)
