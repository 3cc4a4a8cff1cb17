"""Errors as one line for a reader of a terminal."""

from bayesprune.train.diverged import DivergedError
from bayesprune.train.unsaved import UnsavedError

EXPECTED = (ValueError, TypeError, OSError, ImportError, FloatingPointError)


# What a remedy of the library's is on the command line.
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
    flags = [flag for remedy, flag in FLAGS.items() if remedy in text]
    text += f" Here: {', '.join(flags)}." if flags else ""
    return " ".join(text.split()) or type(error).__name__
