"""Columns of inputs: what each is found to be, and its numbers for a network; and texts that are no names, but numbers that
something keeps from being read as such, or dates."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayesprune.core.checks import check_name, unknown_name
from bayesprune.core.given import GivenFrame
from bayesprune.core.numbers import is_constant
from bayesprune.data.scaling import fit_scaling
from bayesprune.data.tables.reading import NAMELESS, are_codes, floats, is_number

MOST = 100  # categories of a column
UNSEEN = "correct it, delete that row, or train anew on a file that has it."
CODES = "Codes that are no quantities are categories where each has a letter, as in 'c12', or some a zero in front."
MOSTLY = 0.75  # of the different values: where more of them are numbers, or dates, the column is one of these
_BESIDE = re.compile(r"[\s,$€£%]")  # in or beside a number
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_MONTH, _YEAR_FIRST, _YEAR_LAST = (
    r"\d{4}-(0[1-9]|1[0-2])",
    r"\d{4}(?P<first>[-/.])\d{1,2}(?P=first)\d{1,2}",
    r"\d{1,2}(?P<last>[-/.])\d{1,2}(?P=last)\d{4}",
)
_DATE = re.compile(rf"({_MONTH}|{_YEAR_FIRST}|{_YEAR_LAST})([T ].*)?")


@dataclass(frozen=True)
class Column:
    """One column of a table: a number, standardised by the training rows, or a category, one column of 0 or 1 for each value.

    ``loc``, ``scale``: of a number, (value - loc) / scale is what the network takes. A constant is left out.
    """

    name: str
    kind: Literal["number", "category", "constant"]
    categories: tuple[str, ...] = ()
    loc: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """How many inputs of the network it makes."""
        return {"number": 1, "category": len(self.categories), "constant": 0}[self.kind]

    def encode(self, values: np.ndarray, where: str) -> np.ndarray:
        """(rows, width) float32; ``where`` the values are, for an error."""
        if self.kind == "constant":
            return np.zeros((len(values), 0), np.float32)
        if self.kind == "number":
            return (((_numbers(values, self.name, where) - self.loc) / self.scale)[:, None]).astype(np.float32)
        places = positions(as_texts(values), self.categories, f"category in column {self.name!r}", where)
        return np.eye(len(self.categories), dtype=np.float32)[places]


def choose(names: Sequence[str], target: str, features: Sequence[str], drop: Sequence[str]) -> list[str]:
    """The columns to use as inputs: those of ``features``, or all but the target and ``drop``."""
    if features and drop:
        raise ValueError("features and drop are both given: name the columns to take, or those to leave out.")
    for name in (*features, *drop):
        check_name("column", name, names)
    if twice := [name for name in dict.fromkeys(features) if list(features).count(name) > 1]:
        raise ValueError(f"features holds {twice[0]!r} more than once: name each column once.")
    for name, given in (("features", features), ("drop", drop)):
        if target in given:
            raise ValueError(f"{name} holds the target, {target!r}: leave it out.")
    chosen = [name for name in features or names if name != target and name not in drop]
    if not chosen:
        raise ValueError(f"no column is left to predict {target!r} from.")
    if nameless := [name for name in chosen if name.startswith(NAMELESS)]:
        raise ValueError(
            f"a column without a name, perhaps the row numbers that were written with the table: give it one, or leave it out, "
            f"drop={nameless[0]!r}."
        )
    return chosen


def check_whole(frame: GivenFrame, names: Iterable[str], otherwise: str = "") -> None:
    """Refuse missing values, by column; every column at once. ``otherwise``: what else there is to do about them."""
    missing = {name: np.flatnonzero(frame[name].isna()) for name in names}
    if gaps := {name: rows for name, rows in missing.items() if len(rows)}:
        where = ", ".join(
            f"{name} ({len(rows)} of {len(frame):,} rows, the first in row {rows[0] + 1})" for name, rows in gaps.items()
        )
        remedies = f"fill them in, delete those rows, or {otherwise}" if otherwise else "fill them in, or delete those rows"
        raise ValueError(f"values are missing in {where}: {remedies}.")


def infer(name: str, values: np.ndarray, train: np.ndarray, declared: bool = False) -> Column:
    """What a column without missing values is; ``train``: the numbers of the training rows.

    ``declared``: whether the file itself says that it has categories. Raises `ValueError` for dates, infinite numbers, numbers
    written as text, and texts of too many values to be categories.
    """
    if values.dtype.kind in "biuf" and not declared:
        _numbers(values, name, "")
        scaling, constant = fit_scaling(values[train]), bool(is_constant(values[train]))
        return Column(name, "constant" if constant else "number", (), float(scaling.loc), float(scaling.scale))
    texts = as_texts(values)
    known = tuple(sorted(set(texts)))
    if len(set(texts[train])) == 1:
        return Column(name, "constant")
    if not declared:
        check_names(f"column {name!r}", values, known, f"or leave it out, drop={name!r}. {CODES}")
    if len(known) > MOST or 2 * len(known) > max(len(texts), 20):
        raise ValueError(
            f"column {name!r} {'has' if declared else 'is text of'} {len(known):,} different values, such as {known[0]!r}: too "
            f"many for categories. Leave it out, drop={name!r}, or unite rare ones.{zeros_in_front(known)}"
        )
    return Column(name, "category", known)


def as_texts(values: np.ndarray) -> np.ndarray:
    """A column's values as texts; whole numbers without a point, so that 1 and 1.0 are the same."""
    if values.dtype.kind == "f" and np.all(np.isfinite(values) & (values == np.round(values))):
        return np.array([str(int(value)) for value in values], dtype=object)  # int64 ends at 9.2e18
    return np.array([str(value) for value in values], dtype=object)


def positions(texts: np.ndarray, known: Sequence[str], what: str, where: str) -> np.ndarray:
    """Each text's place among the known ones."""
    places = {text: place for place, text in enumerate(known)}
    for row, text in enumerate(texts, start=1):
        if text not in places:
            raise unknown_name(what, text, known, f"It is in row {row} of {where}, and training saw none of it: {UNSEEN}")
    return np.array([places[text] for text in texts], np.int32)


def _numbers(values: np.ndarray, name: str, where: str) -> np.ndarray:
    try:
        numbers = floats(values)
    except (TypeError, ValueError):
        row, odd = next((row, value) for row, value in enumerate(values, start=1) if not is_number(str(value)))
        raise ValueError(
            f"column {name!r} of {where} has {str(odd)!r} in row {row}, where training had numbers: write numbers with a point "
            "and nothing beside them."
        ) from None
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers))) + 1
        place, otherwise = (f" of {where}", "delete that row") if where else ("", f"leave the column out, drop={name!r}")
        raise ValueError(f"column {name!r} is infinite in row {row}{place}: correct it, or {otherwise}.")
    return numbers


def check_names(what: str, values: np.ndarray, texts: Collection[str], remedy: str) -> None:
    """Refuse ``values`` that are dates, and the different ``texts`` of values that are mostly numbers, but codes, or dates.

    ``what``: such as "column 'age'"; ``remedy``: beside writing them otherwise. Raises `ValueError`.

    >>> check_names("column 'age'", np.array(["31", "40", "58", "62", "?"]), ["31", "40", "58", "62", "?"], "or drop it.")
    Traceback (most recent call last):
    ...
    ValueError: column 'age' would be numbers but for texts such as '?': write numbers with a point and ... or drop it.
    """
    if values.dtype.kind in "mM":
        raise ValueError(f"{what} holds {values.dtype}: write them as numbers, {remedy}")
    if odd := a_date(texts):
        raise ValueError(f"{what} holds dates, such as {odd!r}: write them as numbers, {remedy}")
    if not are_codes(texts) and _mostly(_NUMBER, [_BESIDE.sub("", text) for text in texts]):
        odd = next((text for text in texts if not is_number(text)), next(iter(texts)))
        raise ValueError(
            f"{what} would be numbers but for texts such as {odd!r}: write numbers with a point and nothing beside them, and "
            f"missing values empty, {remedy}"
        )


def zeros_in_front(texts: Collection[str]) -> str:
    """What an error says further of texts that were taken for codes, of which there are too many."""
    return " If they mean amounts: numbers are written without zeros in front." if are_codes(texts) else ""


def beside_a_number(texts: Collection[str]) -> str:
    """One of the different ``texts`` that a comma, unit or blank keeps from being a number, where most are numbers; else none.

    >>> beside_a_number(["0,5", "1,5", "2"]), beside_a_number(["$12", "7", "?"]), beside_a_number(["1", "2"])
    ('0,5', '', '')
    """
    bare = {text: _BESIDE.sub("", text) for text in texts}
    if not _mostly(_NUMBER, list(bare.values())):
        return ""
    return next((text for text, rest in bare.items() if not is_number(text) and _NUMBER.fullmatch(rest)), "")


def a_date(texts: Collection[str]) -> str:
    """One of the different ``texts``, where most of them are dates; else none.

    >>> a_date(["2024-03-01", "2024-03-02", "?", "2023-12-31 08:00", "1.2.2024"]), a_date(["a", "2024-03-01"])
    ('2024-03-01', '')
    """
    return next(filter(_DATE.fullmatch, texts)) if _mostly(_DATE, texts) else ""


def _mostly(form: re.Pattern[str], texts: Collection[str]) -> bool:
    return sum(form.fullmatch(text) is not None for text in texts) > MOSTLY * len(texts)
