"""A study: its cells, the function that runs one, a line of JSON for each that is finished, and the tables made of these.

A line is added in one write, and lines are read with an eye for such as were cut short.
"""

import datetime
import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from bayesprune.cells.settings import Cell, key, settings
from bayesprune.core.files import DamagedFileError, reading
from bayesprune.core.formats import jsonable

REMEDY = "Delete its line, or the file, and run the cells again."
Record = dict[str, Any]
Found = Mapping[Cell, Record]  # the study's own cells that are finished, in the study's order


def append(path: Path, record: Record) -> None:
    """Add one line, in a single write that is forced to disk.

    What a killed writer left of its own line is closed off by a line break, so that `read_records` can see it for what it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(jsonable(record), allow_nan=False, ensure_ascii=False).encode() + b"\n"
    with open(path, "a+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        if file.write(line) != len(line):
            raise OSError(f"{path}: the last record was written in part. Remedy: free some disk space and run again.")
        os.fsync(file.fileno())


def read_records(path: Path, shared: bool = False) -> dict[str, Record]:
    """Key of a cell -> its record. A line that is no record is left out with a warning: its cell counts as missing.

    Raises `DamagedFileError` where two lines have the same cell, for nothing says which of them holds. Of a ``shared`` file,
    to which several machines add, the first of them does: two that began a cell at the same time have done the same.
    """
    records: dict[str, Record] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        record = _record(line)
        if record is None:
            warnings.warn(f"{path}, line {number} is cut short or damaged and was left out: its cell is missing.", stacklevel=2)
        elif record["cell"] in records and shared:
            continue
        elif record["cell"] in records:
            raise DamagedFileError(
                f"{path}, line {number}: {record['cell']!r} is there twice. Remedy: delete one of the two lines."
            )
        else:
            records[record["cell"]] = record
    return records


def _record(line: bytes) -> Record | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # also where bytes are no text, or brackets nest without end
        return None
    return found if isinstance(found, dict) and isinstance(found.get("cell"), str) else None


@dataclass(frozen=True)
class Study:
    """``run(cell, folder)`` gives a flat record; ``folder`` is the cell's own, for checkpoints, and need not exist yet.

    ``shared``: several machines add to its file, see `read_records`.
    """

    name: str
    cells: tuple[Cell, ...]
    run: Callable[[Cell, Path], Record]
    tables: Mapping[str, Callable[[Found], str]]
    draw: Callable[[Found, Path], None] | None = None
    shared: bool = False


def found(study: Study, out: Path, cells: tuple[Cell, ...] = ()) -> Found:
    """What the study's file in ``out`` holds of ``cells``, by default the study's own; other records are no part of it.

    Raises `DamagedFileError` for a record with other settings than its cell.
    """
    path = records_of(study, out)
    records = read_records(path, study.shared)
    have = {cell: records[key(cell)] for cell in cells or study.cells if key(cell) in records}
    for cell, record in have.items():
        wrong = [name for name, value in jsonable(settings(cell)).items() if name in record and record[name] != value]
        if wrong:
            raise DamagedFileError(f"{path}: the record of {key(cell)!r} has {wrong[0]}={str(record[wrong[0]])[:60]}. {REMEDY}")
    return have


def records_of(study: Study, out: Path) -> Path:
    """The study's file."""
    return out / f"{study.name}.jsonl"


def tables(study: Study, out: Path) -> str:
    """All tables in markdown, and how many cells they lack. Raises `DamagedFileError` for records that make none."""
    have = found(study, out)
    missing = [key(cell) for cell in study.cells if cell not in have]
    note = [f"{len(missing)} of {len(study.cells)} cells are missing, {missing[0]!r} first."] if missing else []
    with reading(records_of(study, out), "file of records", REMEDY):
        return "\n\n".join([make(have) for make in study.tables.values()] + note)


def finish(study: Study, cell: Cell, out: Path, scratch: Path) -> bool:
    """Run a cell and add its record to the study's file; False if it was there."""
    path = records_of(study, out)
    if key(cell) in read_records(path, study.shared):
        return False
    stamp, begin = provenance(), time.perf_counter()
    result = study.run(cell, scratch / study.name / key(cell).replace(" ", ","))
    append(path, stamped(cell, result, stamp | {"seconds": time.perf_counter() - begin}))
    return True


def stamped(cell: Cell, result: Record, stamp: Mapping[str, Any]) -> Record:
    """One flat record of settings, results and origin; names must differ."""
    parts = ({"cell": key(cell)}, settings(cell), result, stamp)
    names = [name for part in parts for name in part]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"a record has its settings, results and origin side by side: {', '.join(twice)} would be there twice."
        )
    return {name: value for part in parts for name, value in part.items()}


PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]


def provenance() -> dict[str, Any]:
    """``dirty``: whether sources or benchmarks differ from the commit. Without git both are ``None``."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return {
        "commit": commit,
        "dirty": None if changed is None else changed != "",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("jax", "numpyro", "bayesprune")},
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    }


def _git(*words: str) -> str | None:
    if PACKAGE.parent.name != "src":  # installed: a repository around it is another one
        return None
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
