"""Texts that are no names: numbers that something keeps from being read as such, and dates."""

import re
from collections.abc import Collection

import numpy as np

from bayesprune.data.tables.reading import are_codes, is_number

MOST = 0.75  # of the different values: where more of them are numbers, or dates, the column is one of these
_BESIDE = re.compile(r"[\s,$€£%]")  # in or beside a number
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_MONTH, _YEAR_FIRST, _YEAR_LAST = (
    r"\d{4}-(0[1-9]|1[0-2])",
    r"\d{4}(?P<first>[-/.])\d{1,2}(?P=first)\d{1,2}",
    r"\d{1,2}(?P<last>[-/.])\d{1,2}(?P=last)\d{4}",
)
_DATE = re.compile(rf"({_MONTH}|{_YEAR_FIRST}|{_YEAR_LAST})([T ].*)?")


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
    return sum(form.fullmatch(text) is not None for text in texts) > MOST * len(texts)
