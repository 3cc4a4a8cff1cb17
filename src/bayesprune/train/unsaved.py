"""The end of a fit whose checkpoint could not be written: what was trained is not lost with it."""

from bayesprune.train.result import FitResult


class UnsavedError(OSError):
    """A checkpoint could not be written. ``fit``: the `FitResult` as it stands; ``why``: the system's cause and its remedy.

    >>> print(UnsavedError(28, "cannot write runs/a: No space left on device. Remedy: free some disk space.", None))
    [Errno 28] cannot write runs/a: No space left on device. Remedy: free some disk space. What was trained is in this ...
    """

    def __init__(self, errno: int | None, why: str, fit: FitResult) -> None:
        super().__init__(
            errno or 0,
            f"{why} What was trained is in this error's `fit`: error.fit.save(PATH) keeps it on another disk, and "
            "fit_svi(init=error.fit) goes on from it.",
        )
        self.why, self.fit = why, fit
