"""What follows a fit of an estimator, and may end it."""

from typing import Protocol, runtime_checkable

from bayesprune.train.result import Moment


class GivenUpError(Exception):
    """A fit was ended, and nothing is to be made of it."""


@runtime_checkable
class Watch(Protocol):
    """A callback of `fit_svi`, which is to be called every so many steps, and says afterwards whether it has ended the fit."""

    every: int

    def __call__(self, moment: Moment) -> bool:
        """Whether to end the fit here."""

    def check(self) -> None:
        """Raise `GivenUpError` if it has."""
