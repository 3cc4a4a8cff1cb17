"""Errors as one line for a reader of a terminal."""

import contextlib
import io
import itertools
import re
from collections.abc import Iterator

from bayesprune.train.result import DivergedError, UnsavedError

EXPECTED = (ValueError, TypeError, OSError, ImportError, FloatingPointError)

_COLOURS, _RULES = re.compile(r"\x1b\[[\d;]*m"), set("╭╮╰╯─-")  # of tyro's boxes; "-" where a terminal has no UTF-8

# What an argument that a message of the library's names is on the command line.
ARGUMENTS = {r"\bdrop=(?=['\"])": "--drop ", r"\(drop\)": "(--drop)", r"\bkind='classes'": "--likelihood categorical"}
ARGUMENTS |= {r"\bexposure=(?=['\"])": "--exposure "}
# What a remedy of the library's is there.
FLAGS = {
    "priors.DiracSlab or priors.GaussianSlab": "--prior dirac-slab or gaussian-slab",
    "Train without a sparsifier": "--method none",
    "posterior='matrix_normal'": "--posterior matrix-normal",
}


def one_line(error: BaseException) -> str:
    """What an error says, on one line."""
    if isinstance(error, DivergedError):
        what = str(error).partition(". The parameters before")[0]
        return f"{what}. Start again in another folder with a smaller --learning-rate."
    if isinstance(error, UnsavedError):
        return f"{error.why} Until then the same command starts again from the checkpoint before, if there is one."
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror + (f": {error.filename}" if error.filename else "")
    for argument, flag in ARGUMENTS.items():
        text = re.sub(argument, flag, text)
    flags = [flag for remedy, flag in FLAGS.items() if remedy in text]
    text += f" Here: {', '.join(flags)}." if flags else ""
    return " ".join(text.split()) or type(error).__name__


@contextlib.contextmanager
def flags_in_one_line(name: str) -> Iterator[None]:
    """What tyro says in a box of a wrong flag of the command ``name``, as a `ValueError` of one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as leave:
        if not leave.code:  # --help
            raise
        raise ValueError(f"{_unboxed(said.getvalue())}. bayesprune {name} --help shows all flags.") from None


def _unboxed(text: str) -> str:
    """What one of tyro's boxes says, without title, borders and colours; of its help the names of the flags that may be meant.

    >>> box = ["╭─ Unrecognized options ─╮", "│ Unrecognized options: --stepss │", "│ ── │", "│ Perhaps you meant: │"]
    >>> _unboxed("\\n".join([*box, "│ --steps INT │", "│ Optimiser steps. │", "╰──╯"]))
    'Unrecognized options: --stepss. Perhaps you meant: --steps'
    """
    rows = [row.strip("│ ") for row in _COLOURS.sub("", text).splitlines()][1:]
    said = []
    for rule, section in itertools.groupby(rows, key=lambda row: set(row) <= _RULES):
        title, *more = section
        if title.startswith("Perhaps"):
            more = [" or ".join(row.split()[0] for row in more if row.startswith("--"))]
        if not rule and not title.startswith(("For full", "Argument help")):
            said.append(" ".join([title, *more]).removesuffix("(required)").rstrip(" ."))
    return ". ".join(said)
