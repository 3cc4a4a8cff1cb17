"""Tables as text: aligned for a terminal, in Markdown for a page, in CSV for a file."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from bayesprune.core import shown

Row = Sequence[str]
NOTHING = "-"


def aligned(rows: Sequence[Row], indent: str = "  ") -> str:
    """Rows as columns of text, the first to the left and the others to the right.

    >>> print(aligned([("accuracy", "0.9"), ("nll", "10.25")], indent=""))
    accuracy   0.9
    nll      10.25
    """
    return "\n".join((indent + " ".join(cells)).rstrip() for cells in _padded(rows))


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table; the first row is its head, and every column but the first is of numbers.

    >>> print(markdown([("run", "nll"), ("first", "0.1")]))
    | run   | nll |
    | ----- | --: |
    | first | 0.1 |
    """
    head, *body = _padded(rows, least=3)
    rule = ["-" * len(head[0]), *("-" * (len(cell) - 1) + ":" for cell in head[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *body])


def csv_text(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Lines with commas; None is empty.

    >>> csv_text(["run", "nll"], [["first", 0.1], ["second, again", None]])
    'run,nll\\nfirst,0.1\\n"second, again",\\n'
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([head, *rows])
    return buffer.getvalue()


def number(value: float | None) -> str:
    """Four digits; a dash for what is not known."""
    return NOTHING if value is None else f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share as `core.shown.percent` says it; a dash where there is none."""
    return NOTHING if share is None else shown.percent(share)


def _padded(rows: Sequence[Row], least: int = 0) -> list[list[str]]:
    widths = [max(least, *(len(cell) for cell in column)) for column in zip(*rows, strict=True)]
    return [[row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows]
