"""Files of named columns, read by pandas; it comes with the extra ``cli``."""

import importlib
import warnings
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bayesprune.core.files import DamagedFileError, reading

TEXTS, PARQUET, ARRAYS = (".csv", ".tsv"), (".parquet",), (".npz",)
SEPARATORS = ",;\t"
NAMELESS = "Unnamed: "  # what pandas calls a column without a name begins so


def check_kind(path: Path) -> None:
    """Refuse a file that is not there, or of no kind that is read here."""
    if not path.is_file():
        raise FileNotFoundError(2, f"no file of data at {path}: give a .csv, .tsv, .parquet or .npz file")
    if path.suffix.lower() not in TEXTS + PARQUET + ARRAYS:
        raise ValueError(f"{path} is no file that can be read here: write it as .csv, .tsv, .parquet or .npz.")


def read_frame(path: Path, text: Collection[str] = ()) -> Any:
    """The table of a csv, tsv or parquet file, as a `pandas.DataFrame`; columns named in ``text`` are not taken for numbers.

    Raises `ValueError` for a file without names or rows, `ImportError` for one that nothing installed can read.
    """
    pandas = needed("pandas", f"{path.suffix} files", "pip install 'bayesprune[cli]', or give an .npz file")
    if path.suffix.lower() in PARQUET:
        needed("pyarrow", "parquet files", "pip install pyarrow, or write a .csv file")
    with reading(path, "table", "Write it in UTF-8 with a first line of names, and as many values in every line."):
        if path.suffix.lower() in PARQUET:
            frame = pandas.read_parquet(path)
        else:
            with open(path, encoding="utf-8") as file:
                line = file.readline()
            separator = max(SEPARATORS, key=line.count)
            frame = _of_text(pandas, path, separator, dict.fromkeys(text, str))
    frame.columns = [str(name) for name in frame.columns]
    if all(is_number(name.split(".")[0]) for name in frame.columns):
        raise ValueError(f"{path} begins with numbers where the names of its columns should be: add a first line of names.")
    if not len(frame):
        raise ValueError(f"{path} has no rows, only names.")
    return frame


def _of_text(pandas: ModuleType, path: Path, separator: str, kinds: dict[str, type]) -> Any:
    """A text file's table, without blanks after commas, and without the empty column that a last comma makes."""
    how = {"index_col": False, "skipinitialspace": True, "low_memory": False, "encoding": "utf-8"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            frame = pandas.read_csv(path, sep=separator, dtype=kinds, **how)
        except pandas.errors.ParserWarning:  # all it can tell of here; the last values would be left out
            raise DamagedFileError(
                f"{path} has fewer names in its first line than values in the others. Perhaps it was written with row numbers "
                "that have no name, as R's write.table does: write it without them (row.names = FALSE), or give them a name."
            ) from None
    return frame[[name for name in frame if not (str(name).startswith(NAMELESS) and frame[name].isna().all())]]


def values_of(frame: Any, name: str) -> np.ndarray:
    """A column without missing values as NumPy has it: numbers, bits and dates as such, all else as objects."""
    series = frame[name]
    plain = {"b": bool, "i": np.int64, "u": np.int64, "f": np.float64}.get(series.dtype.kind)
    return series.to_numpy() if series.dtype.kind in "mM" else series.to_numpy(plain or object)


def is_declared(frame: Any, name: str) -> bool:
    """Whether the file has a column as one of categories, which texts cannot say."""
    return frame[name].dtype.name == "category"


def needed(library: str, what: str, remedy: str) -> Any:
    """A library that is not always there."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"{what} need {library}, which is not installed: {remedy}.") from error


def is_number(text: str) -> bool:
    """Whether a text is a number.

    >>> is_number("1e3"), is_number("1,5")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
