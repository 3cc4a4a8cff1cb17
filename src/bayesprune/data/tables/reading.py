"""Files of named columns, read by pandas; it comes with the extra ``cli``."""

import contextlib
import csv
import importlib
import io
import itertools
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bayesprune.core.files import DamagedFileError, reading
from bayesprune.core.given import GivenColumn, GivenFrame

TEXTS, PARQUET, ARRAYS = (".csv", ".tsv"), (".parquet",), (".npz",)
SHOWN = 8  # names in a line
NAMELESS = "Unnamed: "  # what pandas calls a column without a name begins so
_MAY_BE_CODE = re.compile(rb'(?:^|[\s,;"])0\d')  # somewhere in a text file


def check_kind(path: Path) -> None:
    """Refuse a file that is not there, or of no kind that is read here."""
    if not path.is_file():
        raise FileNotFoundError(2, f"no file of data at {path}: give a .csv, .tsv, .parquet or .npz file")
    if path.suffix.lower() not in TEXTS + PARQUET + ARRAYS:
        raise ValueError(f"{path} is no file that can be read here: write it as .csv, .tsv, .parquet or .npz.")


def read_frame(path: Path, text: Collection[str] | None = None) -> Any:
    """The table of a csv, tsv or parquet file, as a `pandas.DataFrame`.

    ``text``: columns of a text file that are not taken for numbers, whatever they look like; None: those of `are_codes`.
    A column that a parquet file has as one of categories is one of categories here, of whatever type these are. In a file of
    one column a blank line is a missing value, and at the end of the file nothing.

    Raises `ValueError` for a file without names or rows, or of one name for several columns, `ImportError` for one that nothing
    installed can read.
    """
    pandas = needed("pandas", f"{path.suffix} files", "pip install 'bayesprune[cli]', or give an .npz file")
    if path.suffix.lower() in PARQUET:
        for library in ("pyarrow", "pyarrow.parquet"):
            parquet = needed(library, "parquet files", "pip install pyarrow, or write a .csv file")
    with reading(path, "table", "Write it in UTF-8 with a first line of names, and as many values in every line."):
        if path.suffix.lower() in PARQUET:
            frame = _of_parquet(pandas, parquet, path)
        else:
            separator, names = header_of(path)
            check_names_differ(names, path)

            def read(known: Collection[str]) -> Any:
                return _of_text(pandas, path, separator, len(names) == 1, dict.fromkeys(known, str))

            frame = _with_codes(path, read) if text is None else read(text)
    frame.columns = [str(name) for name in frame.columns]
    if all(is_number(name.split(".")[0]) for name in frame.columns):
        raise ValueError(f"{path} begins with numbers where the names of its columns should be: add a first line of names.")
    if not len(frame):
        raise ValueError(f"{path} has no rows, only names.")
    return frame


def read_again(path: Path, file: str, text: Collection[str]) -> Any:
    """`read_frame` of new rows for what was trained on the table ``file``; arrays have no names of columns, and are refused."""
    check_kind(path)
    if path.suffix.lower() in ARRAYS:
        raise ValueError(f"{path} has no names of columns, and training was on those of {file}: give a table.")
    return read_frame(path, text)


def take_columns(frame: GivenFrame, names: Sequence[str], where: str, file: str, remedy: str) -> Any:
    """The columns of a frame by name, in this order; `ValueError` names those that ``file`` had and it has not."""
    if lacking := [name for name in names if name not in frame.columns]:
        has = listed(list(frame.columns))
        raise ValueError(f"{where} lacks {listed(lacking)}, which {file} had, and has {has}: {remedy}.")
    return frame[list(names)]


def listed(names: Sequence[str], most: int = SHOWN) -> str:
    """The first names, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _with_codes(path: Path, read: Callable[[Collection[str]], Any]) -> Any:
    """A text file's table, its codes as they are written; ``read``: the table, with columns of these names as texts."""
    frame = read(())
    if not _MAY_BE_CODE.search(path.read_bytes()):
        return frame
    numbers = [name for name in frame if frame[name].dtype.kind in "iufO"]  # numbers beyond int64 are objects
    texts = read(numbers)
    return frame.assign(**{name: texts[name] for name in numbers if are_codes(texts[name].dropna().unique())})


def _of_text(pandas: ModuleType, path: Path, separator: str, alone: bool, kinds: dict[str, type]) -> Any:
    """A text file's table, without blanks after commas, and without the empty column that a last comma makes.

    ``alone``: whether there is one column, where a missing value may be a blank line.
    """
    how = {"index_col": False, "skipinitialspace": True, "low_memory": False, "encoding": "utf-8"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            whole = _without_ends(path) if alone else path
            frame = pandas.read_csv(whole, sep=separator, dtype=kinds, skip_blank_lines=not alone, **how)
        except pandas.errors.ParserWarning:  # all it can tell of here; the last values would be left out
            raise DamagedFileError(
                f"{path} has fewer names in its first line than values in the others. Perhaps it was written with row numbers "
                "that have no name, as R's write.table does: write it without them (row.names = FALSE), or give them a name."
            ) from None
    return frame[[name for name in frame if not (str(name).startswith(NAMELESS) and frame[name].isna().all())]]


def _without_ends(path: Path) -> io.StringIO:
    """A text file without the blank lines that it begins and ends with."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    full = [place for place, line in enumerate(lines) if line.strip()]
    return io.StringIO("\n".join(lines[full[0] : full[-1] + 1]))


def _of_parquet(pandas: ModuleType, parquet: ModuleType, path: Path) -> Any:
    """A parquet file's table, its categories as such: pyarrow gives back those of texts alone."""
    schema = parquet.read_schema(path)
    check_names_differ(schema.names, path)
    frame = pandas.read_parquet(path)
    notes = {column["field_name"]: column["pandas_type"] for column in (schema.pandas_metadata or {}).get("columns", [])}
    for name in frame.columns:
        if notes.get(str(name)) == "categorical" and frame[name].dtype.kind in "biuf":
            frame[name] = _whole(frame[name]).astype("category")
    return frame


def _whole(series: GivenColumn) -> Any:
    """Whole numbers that gaps have made floats, as whole numbers again."""
    values = series.dropna()
    return series.astype("Int64") if series.dtype.kind == "f" and (values == values.round()).all() else series


def values_of(frame: GivenFrame, name: str) -> np.ndarray:
    """A column without missing values as NumPy has it: numbers, bits and dates as such, all else as objects.

    Of a column of categories these are its categories' own.
    """
    series = frame[name]
    if is_declared(series) and series.cat.categories.dtype.kind in "biuf":
        series = series.astype(series.cat.categories.dtype)
    plain = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64}.get(series.dtype.kind)
    return series.to_numpy() if series.dtype.kind in "mM" else series.to_numpy(plain or object)


def is_declared(column: GivenColumn) -> bool:
    """Whether a column is one of categories by its dtype, which a file of texts cannot say."""
    return bool(column.dtype.name == "category")


def needed(library: str, what: str, remedy: str) -> Any:
    """A library that is not always there."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"{what} need {library}, which is not installed: {remedy}.") from error


def floats(values: np.ndarray) -> np.ndarray:
    """float64; `TypeError` or `ValueError` for what holds no numbers, dates and complex ones too, which NumPy would convert."""
    if values.dtype.kind in "mMc":
        raise TypeError(f"{values.dtype} where numbers are needed")
    return np.asarray(values, dtype=np.float64)


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


SEPARATORS = ",;\t"
FIRST = 50  # lines that a separator is judged by


def header_of(path: Path) -> tuple[str, list[str]]:
    """What separates the values of a file, and the names of its columns as its first line has them.

    It is what cuts most of the first lines into as many values as there are names, two or more; of those that do so alike what
    makes the most. A .tsv file with a tab in its first line is cut by tabs. Without any of them the file has one column.
    """
    lines = {separator: _first_lines(path, separator) for separator in SEPARATORS}
    cuts = {separator: (_agreeing(found), len(found[0])) for separator, found in lines.items() if found and len(found[0]) > 1}
    separator = max(cuts, key=lambda one: cuts[one], default=",")
    if path.suffix.lower() == ".tsv" and ("\t" in cuts or not cuts or not cuts[separator][0]):
        separator = "\t"
    return separator, lines[separator][0] if lines[separator] else []


def check_names_differ(names: Sequence[str], path: Path) -> None:
    """Refuse a name that several columns have: which of them is meant nobody can say.

    >>> check_names_differ(["a", "", "b", "", "a"], Path("my.csv"))
    Traceback (most recent call last):
    ...
    bayesprune.core.files.DamagedFileError: several columns of my.csv have the name 'a': rename them, or leave out all but one.
    """
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise DamagedFileError(f"several columns of {path} have the name {twice[0]!r}: rename them, or leave out all but one.")


def _first_lines(path: Path, separator: str) -> list[list[str]]:
    """The values of the first lines that are not blank, up to one whose quotes do not close."""
    found: list[list[str]] = []
    with open(path, encoding="utf-8-sig", newline="") as file, contextlib.suppress(csv.Error):
        lines = csv.reader(file, delimiter=separator, skipinitialspace=True)
        for line in itertools.islice((line for line in lines if line not in ([], [""])), FIRST):
            found.append(line)
    return found


def _agreeing(lines: list[list[str]]) -> int:
    """How many lines have a value for each name; one more may be empty, behind a last separator."""
    many = len(lines[0])
    return sum(len(line) == many or (len(line) == many + 1 and not line[-1]) for line in lines[1:])


def are_codes(texts: Collection[str]) -> bool:
    """Whether texts are whole numbers without a sign, some of them with a zero in front: as numbers, 01 and 1 are one.

    >>> are_codes(["01", "1", "10"]), are_codes(["0", "10"]), are_codes(["-05", "03"]), are_codes(["01.5", "02"])
    (True, False, False, False)
    """
    bare = [text.strip() for text in texts]
    return all(text.isascii() and text.isdigit() for text in bare) and any(text[0] == "0" and text != "0" for text in bare)
