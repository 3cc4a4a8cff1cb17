"""`bayesprune sweep`: many runs over seeds and settings, side by side through joblib, and one table of them."""

import argparse
import itertools
import json
import os
import re
import time
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bayesprune import cells
from bayesprune.cli import build, results, settings
from bayesprune.cli.errors import EXPECTED, one_line
from bayesprune.cli.find import KINDS
from bayesprune.cli.flags import class_of, parse
from bayesprune.cli.knobs import hints
from bayesprune.cli.run import complete
from bayesprune.core.checks import unknown_name
from bayesprune.core.files import write_atomically
from bayesprune.core.formats import jsonable
from bayesprune.core.lock import alone_in
from bayesprune.core.tracing import ONE_AT_A_TIME
from bayesprune.data.tables.reading import needed

RESERVED = ("seed", "out")  # of a sweep itself


@dataclass(frozen=True)
class PlannedRun:
    """One run: the varied settings, the seed, the flags of the run, and its folder."""

    varied: tuple[tuple[str, str], ...]
    seed: int
    words: tuple[str, ...]
    folder: Path

    @property
    def key(self) -> str:
        """``name=value`` of all that differs between the cells."""
        return " ".join(f"{name}={value}" for name, value in (*self.varied, ("seed", self.seed)))


def grid(vary: Mapping[str, Sequence[str]], seeds: Sequence[int], words: Sequence[str], out: Path) -> list[PlannedRun]:
    """All cells, each checked as a run of its own would be: its flags, and the run that its folder holds.

    Raises `ValueError` for a setting that is varied and given, or that a cell does not have.
    """
    if own := {name.replace("-", "_") for name in vary}.intersection(RESERVED):
        raise ValueError(
            f"--vary {' and '.join(sorted(own))} would vary what the sweep sets: give --seeds 0 1 2, or --out FOLDER."
        )
    there = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in words if word.startswith("--")}
    for name in (*vary, *RESERVED):
        if name.replace("-", "_") in there:
            why = "the sweep sets it" if name in RESERVED else "it is varied"
            raise ValueError(f"--{name} is among the flags of the run, and {why}: leave it out there.")
    made = [
        _cell(tuple(zip(vary, values, strict=True)), seed, words, out)
        for values in itertools.product(*vary.values())
        for seed in seeds
    ]
    if len({cell.folder for cell in made}) < len(made):
        raise ValueError("two cells of the sweep are the same: give every value, and every seed, once.")
    for cell in made:
        chosen = build.resolve(parse(cell.words))
        build.make_method(chosen)
        settings.check(chosen, cell.folder)
    return made


def _cell(varied: tuple[tuple[str, str], ...], seed: int, words: Sequence[str], out: Path) -> PlannedRun:
    chosen = [word for name, value in varied if name in KINDS for word in (f"--{name}", value)]
    kinds = _kinds(class_of([*words, *chosen])[0])
    flags = [word for name, value in varied for word in _flag(name, value, kinds)]
    named = ",".join(f"{name}={value}" for name, value in (*varied, ("seed", seed)))
    folder = out / re.sub(r"[^\w.=,+-]+", "-", named)
    return PlannedRun(varied, seed, (*words, *flags, "--seed", str(seed), "--out", str(folder)), folder)


def _kinds(cls: type) -> dict[str, Any]:
    """Every setting by the name of its flag, knobs as "bmr.alpha0", with the type of its value."""
    found: dict[str, Any] = {}
    for name, hint in hints(cls).items():
        inner = hints(hint) if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__") else {}
        found |= {f"{name}.{knob}": kind for knob, kind in inner.items()} or {name: hint}
    return found


def _flag(name: str, value: str, kinds: Mapping[str, Any]) -> list[str]:
    """The words that set a setting; of several numbers they are separated by commas."""
    plain = name.replace("-", "_")
    if plain not in kinds:
        raise unknown_name("setting to vary", name, kinds)
    if kinds[plain] is bool:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} is varied over true and false, got {value!r}.")
        owner, dot, last = name.rpartition(".")
        return [f"--{name}" if value.lower() == "true" else f"--{owner}{dot}no-{last}"]
    several = typing.get_origin(kinds[plain]) is tuple
    return [f"--{name}", *(value.split(",") if several else [value])]


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
    if len({name.replace("-", "_") for name in vary}) < len(asked.vary) or not all(vary.values()):
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
    lines = [json.dumps(jsonable(record), allow_nan=False, ensure_ascii=False) for record in records.values()]
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
        # A figure that is no number is None in a run's record: without its seed the mean would be of the others.
        spreads = [
            cells.mean_and_spread(() if column.count(None) == len(column) else np.array(column, float)) for column in values
        ]
        means.append([*dict(varied).values(), cells.count(have, of), *spreads])
        for place, cell in enumerate(have):
            singles.append([*dict(varied).values(), str(cell.seed), *(_number(column[place]) for column in values)])
    align = "l" * len(names) + "r" * (1 + len(figures))
    first = cells.table([*names, "seeds", *figures], means, align)
    return f"{first}\n\nEvery run:\n\n{cells.table([*names, 'seed', *figures], singles, align)}"


def _number(value: float | None) -> str:
    return cells.MISSING if value is None else f"{value:.4f}"
