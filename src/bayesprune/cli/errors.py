"""Errors as one line for a reader of a terminal."""

from bayesprune.train.diverged import DivergedError
from bayesprune.train.unsaved import UnsavedError

EXPECTED = (ValueError, TypeError, OSError, ImportError, FloatingPointError)


def one_line(error: BaseException) -> str:
    """What an error says, on one line."""
    if isinstance(error, DivergedError):
        return (
            f"the loss stopped being finite at step {error.step}, first seen at {error.site!r}. Start again in another folder "
            "with a smaller --learning-rate."
        )
    if isinstance(error, UnsavedError):
        return f"{error.why} Until then the same command starts again from the checkpoint before, if there is one."
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror + (f": {error.filename}" if error.filename else "")
    return " ".join(text.split()) or type(error).__name__
