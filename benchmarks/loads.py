"""Heavy loads: the most memory that a process holds, beside what it has to hold by count.

    python benchmarks/loads.py run            # every cell that is not in runs/loads.jsonl yet
    python benchmarks/tables.py               # from the results kept here, into docs/promises.md

Each load (`loads_trials.py`) runs in a process of its own, and once more at the small size, whose peak is Python, JAX and the
compiled programs: taken off from both, what grows with the load is left. Linux's VmHWM; CPU.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bayesprune import cells

VARIES = 30  # MB, by which the same programs take more or less from run to run: what is less has no ratio


@dataclass(frozen=True)
class Cell:
    """``trial``: a function of `loads_trials`. ``size``: of the load; ``small``: what is taken off."""

    trial: str
    size: int
    small: int


SAYS = {
    Cell("rows", 5_000_000, 50_000): "5,000,000 rows of 50 columns: a fit with BMR, its figures over all rows",
    Cell("weights", 50_000_000, 50_000): "50,000,000 weights: ten steps",
    Cell("cut", 50_000_000, 50_000): "50,000,000 weights: ten steps and cuts by BMR",
    Cell("draws", 1_000_000, 10_000): "`predict_draws` of 1,000,000 rows, 100 draws",
    Cell("mean", 1_000_000, 10_000): "`predict` of the same",
    Cell("history", 1_000_000, 10_000): "1,000,000 steps, 1,000 evaluations, 20 checkpoints",
    Cell("fits", 100, 40): "20 different fits, made five times over in one process; taken off: twice over",
}


def measured(trial: str, size: int) -> dict[str, float]:
    """What one process says."""
    script = Path(__file__).with_name("loads_trials.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, trial, str(size)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(cell: Cell, folder: Path) -> cells.Record:
    """Both sizes, one after the other."""
    full, small = measured(cell.trial, cell.size), measured(cell.trial, cell.small)
    return full | {f"small_{name}": value for name, value in small.items()}


def table(found: cells.Found) -> str:
    """One row a load."""
    rows = []
    for cell, says in SAYS.items():
        record = found.get(cell)
        if record is None:
            rows.append([says, *[cells.MISSING] * 5])
            continue
        must, grows = ((record[f"{name}_bytes"] - record[f"small_{name}_bytes"]) / 1e6 for name in ("must", "peak"))
        ratio = f"{grows / must:.2f}" if must > VARIES else "-"
        rows.append(
            [says, f"{record['peak_bytes'] / 1e6:,.0f}", f"{must:,.0f}", f"{grows:,.0f}", ratio, f"{record['cpu_seconds']:.0f}"]
        )
    head = ["load", "peak, MB", "grows by count, MB", "grows measured", "ratio", "CPU, s"]
    return cells.table(head, rows, "lrrrrr")


STUDY = cells.Study("loads", tuple(SAYS), run, {"peaks": table})

if __name__ == "__main__":
    cells.main(STUDY)
