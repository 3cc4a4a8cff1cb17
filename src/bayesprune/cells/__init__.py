"""One harness for all studies: cells of settings, a function that runs one, and a line of JSON for each that is finished."""

from bayesprune.cells.command import finish_all, main
from bayesprune.cells.markdown import MISSING, count, flat, mean_and_error, mean_and_range, mean_and_spread, table
from bayesprune.cells.settings import change, key, select, settings, with_seeds
from bayesprune.cells.study import REMEDY, Found, Record, Study, append, found, read_records, tables

__all__ = [
    "MISSING",
    "REMEDY",
    "Found",
    "Record",
    "Study",
    "append",
    "change",
    "count",
    "finish_all",
    "flat",
    "found",
    "key",
    "main",
    "mean_and_error",
    "mean_and_range",
    "mean_and_spread",
    "read_records",
    "select",
    "settings",
    "table",
    "tables",
    "with_seeds",
]
