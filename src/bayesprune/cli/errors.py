"""Errors as one line for a reader of a terminal."""

import re

from bayesprune.train.diverged import DivergedError, UnsavedError

EXPECTED = (ValueError, TypeError, OSError, ImportError, FloatingPointError)

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
