"""The command line that every study has."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bayesprune.cells.settings import Cell, change, key, select, settings, with_seeds
from bayesprune.cells.study import REMEDY, Study, finish, found, records_of, tables
from bayesprune.core.files import DamagedFileError, reading

RUNS = Path("runs")


def main(study: Study, words: Sequence[str] | None = None) -> None:
    """Do what the command line asks; cells that it gets wrong, and files that are damaged, end with a sentence."""
    arguments = parser(study).parse_args(words)
    try:
        cells = chosen(study, arguments)
    except ValueError as error:
        raise SystemExit(f"{Path(sys.argv[0]).name}: {error}") from error
    try:
        if arguments.action == "table":
            print(tables(study, arguments.out or kept()))
        elif arguments.action == "draw":
            draw(study, arguments.out or kept())
        else:
            run_cells(study, cells, arguments.out or RUNS)
    except (DamagedFileError, IsADirectoryError, PermissionError) as error:
        raise SystemExit(f"{Path(sys.argv[0]).name}: {error}") from error


def kept() -> Path:
    """Where records are kept for good: ``results/`` beside the script that is run, else where runs put them."""
    beside = Path(sys.argv[0]).resolve().parent / "results"
    return beside if beside.is_dir() else RUNS


def parser(study: Study) -> argparse.ArgumentParser:
    """run, table, draw; which cells, and where their records are."""
    fields = f"names: {', '.join(settings(study.cells[0]))}"
    about = sys.modules[study.run.__module__].__doc__
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("action", choices=("run", "table", "draw")[: 3 if study.draw else 2])
    made.add_argument(
        "--only", nargs="+", default=[], metavar="NAME=VALUE[,VALUE]", help=f"cells with these settings; {fields}"
    )
    made.add_argument("--seeds", nargs="+", type=int, default=[], metavar="SEED", help="these seeds in place of the study's")
    made.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="change a setting; its records are in no table"
    )
    made.add_argument(
        "--out",
        type=Path,
        help=f"folder of {study.name}.jsonl (run: runs, finished cells are skipped; otherwise: the results kept here)",
    )
    return made


def chosen(study: Study, arguments: argparse.Namespace) -> list[Cell]:
    """The study's cells, selected and changed by the flags, which a table of all that is finished would not heed."""
    if arguments.action != "run" and (arguments.only or arguments.seeds or arguments.set):
        raise ValueError(f"{arguments.action} shows all finished cells: --only, --seeds and --set go with run; leave them out.")
    cells = select(study.cells, arguments.only)
    if not cells:
        raise ValueError(f"--only {' '.join(arguments.only)} leaves none of the {len(study.cells)} cells.")
    cells = with_seeds(cells, arguments.seeds) if arguments.seeds else cells
    return list(dict.fromkeys(change(cell, arguments.set) for cell in cells))


def run_cells(study: Study, cells: Sequence[Cell], out: Path) -> None:
    """Run what is not there yet, and show the tables."""
    finish_all(study, cells, out, RUNS)
    print(f"\nRecords: {out / study.name}.jsonl\n\n{tables(study, out)}")


def finish_all(study: Study, cells: Sequence[Cell], out: Path, scratch: Path) -> None:
    """Run what is not there yet, one after the other, and say so."""
    for number, cell in enumerate(cells, start=1):
        begin = time.perf_counter()
        done = f"{time.perf_counter() - begin:.0f} s" if finish(study, cell, out, scratch) else "there already"
        print(f"{time.strftime('%H:%M:%S')} {number} of {len(cells)}: {key(cell)}: {done}", flush=True)


def draw(study: Study, out: Path) -> None:
    """Write the study's figures beside its records."""
    assert study.draw is not None
    have = found(study, out)
    with reading(records_of(study, out), "file of records", REMEDY):
        study.draw(have, out / study.name)
