"""How a text file of columns is written: what separates its values, and the names in its first line."""

import contextlib
import csv
import itertools
from collections.abc import Sequence
from pathlib import Path

from bayesprune.core.files import DamagedFileError

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
