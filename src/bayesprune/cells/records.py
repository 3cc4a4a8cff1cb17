"""The file of a study: a line of JSON for each finished cell, added in one write, read with an eye for lines cut short."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

from bayesprune.core.files import DamagedFileError
from bayesprune.core.formats import jsonable

Record = dict[str, Any]


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
