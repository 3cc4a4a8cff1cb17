"""`bayesprune fit`: a run on a table of one's own, named first."""

from collections.abc import Sequence

from bayesprune.cli.run import run


def fit(words: Sequence[str]) -> None:
    """`bayesprune fit FILE --target COLUMN ...` is `bayesprune run --data FILE --target COLUMN ...`."""
    if not words:
        raise ValueError("fit needs a file of rows: bayesprune fit table.csv --target COLUMN.")
    first, *rest = words
    run(words if first.startswith("-") else ["--data", first, *rest])
