"""`bayesprune sweep`: many runs over seeds and settings, side by side through joblib, and one table of them."""

import argparse
import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bayesprune import cells
from bayesprune.cli import build, results
from bayesprune.cli.errors import EXPECTED, one_line
from bayesprune.cli.flags import parse
from bayesprune.cli.grid import PlannedRun, grid
from bayesprune.cli.run import complete
from bayesprune.core.files import write_atomically
from bayesprune.core.lock import alone_in
from bayesprune.data.tables.reading import needed

# NumPyro has one stack of handlers for all threads of a process: where joblib works by threads, they take turns.
ONE_AT_A_TIME = threading.Lock()
EPILOG = """what follows -- are flags of `bayesprune run`, which every run of the sweep has. Several numbers of one value are
separated by commas (--vary mlp.hidden 100 50,50). Example:
bayesprune sweep --seeds 0 1 2 --vary method bmr snr --jobs 2 -- --steps 900"""


class Parser(argparse.ArgumentParser):
    """One whose errors read as all others do."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"sweep: {message}. Flags of the runs come after --; see bayesprune sweep --help.")


def sweep(words: Sequence[str]) -> None:
    """Run what is not there yet, then write and print the table."""
    cut = list(words).index("--") if "--" in words else len(words)
    asked = _parser().parse_args(words[:cut])
    vary = {name: values for name, *values in asked.vary}
    if len(vary) < len(asked.vary) or not all(vary.values()):
        raise ValueError("sweep: --vary takes a name and its values, each name once: --vary density 0.1 0.05")
    joblib = needed("joblib", "sweeps", "pip install 'bayesprune[cli]'")
    with alone_in(asked.out):
        planned = grid(vary, asked.seeds, words[cut + 1 :], asked.out)
        quiet = joblib.effective_n_jobs(asked.jobs) > 1
        here = os.getcwd()
        failures = joblib.Parallel(n_jobs=asked.jobs)(
            joblib.delayed(_finish)(cell, f"{number} of {len(planned)}", quiet, here)
            for number, cell in enumerate(planned, start=1)
        )
        table = _written(planned, [cell for cell, why in zip(planned, failures, strict=True) if not why], asked.out)
    print(f"\n{table}\n\nwritten:\n  {asked.out / 'sweep.jsonl'}\n  {asked.out / 'sweep.md'}")
    if failed := [(cell, why) for cell, why in zip(planned, failures, strict=True) if why]:
        raise ValueError(f"{len(failed)} of {len(planned)} runs failed, first {failed[0][0].key}: {failed[0][1]}")


def _parser() -> Parser:
    made = Parser(prog="bayesprune sweep", description=__doc__, epilog=EPILOG, allow_abbrev=False)
    made.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED", help="a run of each cell for each of these")
    vary = "a setting and its values; with several of these, every combination"
    made.add_argument("--vary", nargs="+", action="append", default=[], metavar=("NAME", "VALUE"), help=vary)
    made.add_argument(
        "--jobs", type=int, help="runs at once, -1: one for each core; if left out, as joblib is set, 1 by itself"
    )
    made.add_argument("--out", type=Path, default=Path("runs/sweep"), help="folder of the runs' folders and of the table")
    return made


def _finish(cell: PlannedRun, number: str, quiet: bool, folder: str) -> str:
    """Bring one run to its end, in whatever process; why it could not be, or nothing."""
    if os.getcwd() != folder:  # a process that is used again keeps its folder
        os.chdir(folder)
    begin = time.perf_counter()
    try:
        with ONE_AT_A_TIME, alone_in(cell.folder):
            chosen = build.resolve(parse(cell.words))
            done = complete(chosen, cell.folder, tell=lambda _: None, progress=False if quiet else None)
    except EXPECTED as error:
        why = one_line(error)
        print(f"{number}: {cell.key}: {why}", flush=True)
        return why
    how = f"{time.perf_counter() - begin:.0f} s" if done else "there already"
    print(f"{number}: {cell.key}: {how}", flush=True)
    return ""


def _written(planned: Sequence[PlannedRun], done: Sequence[PlannedRun], out: Path) -> str:
    """Write a line of JSON for each finished run, and the table, which is given back."""
    records = {cell: _record(cell) for cell in done}
    lines = [json.dumps(cells.plain(record), allow_nan=False, ensure_ascii=False) for record in records.values()]
    write_atomically(out / "sweep.jsonl", "".join(f"{line}\n" for line in lines).encode())
    table = tables(planned, records)
    write_atomically(out / "sweep.md", f"{table}\n".encode())
    return table


def _record(cell: PlannedRun) -> dict[str, Any]:
    done = results.read_metrics(cell.folder)
    used = done["sparsity"].get("connected")
    figures = done["metrics"] | {"alive": done["sparsity"]["prunable"]["density"]}
    figures |= {"connected": used["prunable"]["density"]} if used else {}
    about = {"steps": done["num_steps"], "seconds": done["train_seconds"], "folder": str(cell.folder)}
    return {"cell": cell.key, **dict(cell.varied), "seed": cell.seed, **about, "figures": figures, "versions": done["versions"]}


def tables(planned: Sequence[PlannedRun], records: dict[PlannedRun, dict[str, Any]]) -> str:
    """Mean ± standard deviation over the seeds of every combination, then every run, in markdown."""
    names = [name for name, _ in planned[0].varied]
    figures = list(dict.fromkeys(name for record in records.values() for name in record["figures"]))
    means: list[list[str]] = []
    singles: list[list[str]] = []
    for varied in dict.fromkeys(cell.varied for cell in planned):
        of = [cell for cell in planned if cell.varied == varied]
        have = [cell for cell in of if cell in records]
        values = [[records[cell]["figures"].get(name) for cell in have] for name in figures]
        spreads = [cells.mean_and_spread(np.array([one for one in column if one is not None])) for column in values]
        means.append([*dict(varied).values(), cells.count(have, of), *spreads])
        for place, cell in enumerate(have):
            singles.append([*dict(varied).values(), str(cell.seed), *(_number(column[place]) for column in values)])
    align = "l" * len(names) + "r" * (1 + len(figures))
    first = cells.table([*names, "seeds", *figures], means, align)
    return f"{first}\n\nEvery run:\n\n{cells.table([*names, 'seed', *figures], singles, align)}"


def _number(value: float | None) -> str:
    return cells.MISSING if value is None else f"{value:.4f}"
