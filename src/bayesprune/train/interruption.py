"""Ctrl-C and SIGTERM in a fit that keeps checkpoints: it ends between two steps, saved, and says how to go on."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any


class InterruptedFit(KeyboardInterrupt):
    """A signal ended the fit after its state was saved. ``signum``: which; ``step``: where; ``exit_code``: 128 + signum."""

    def __init__(self, message: str, signum: int, step: int) -> None:
        super().__init__(message)
        self.signum, self.step = signum, step

    @property
    def exit_code(self) -> int:
        return 128 + self.signum


class NoInterruption:
    """Signals do what they did before the fit."""

    asked = False

    def __enter__(self) -> "NoInterruption":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def end(self, step: int, num_steps: int) -> BaseException:
        return KeyboardInterrupt()


class Interruption:
    """Within it, the first SIGINT or SIGTERM is remembered, ``asked``; a second one does what it did before the fit.

    ``folder``: where the state is saved before `end` is raised. In a thread other than the main one, to which Python hands no
    signals, nothing changes.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder, self._signum = folder, 0
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        return bool(self._signum)

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                # One that is ignored, as under nohup, stays ignored; one that was not set by Python cannot be put back.
                if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                    self._before[signum] = signal.signal(signum, self._remember)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before = {}

    def end(self, step: int, num_steps: int) -> InterruptedFit:
        """The exception to raise once step ``step`` is saved."""
        return InterruptedFit(
            f"{signal.Signals(self._signum).name} ended the fit at step {step} of {num_steps}. Its state is saved in "
            f"{os.fspath(self._folder)}: the same call goes on from there.",
            self._signum,
            step,
        )

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        self._signum = signum
        self.__exit__(None, None, None)


def interruption(folder: str | os.PathLike[str] | None) -> Interruption | NoInterruption:
    """The one that fits a fit with checkpoints in ``folder``, or without any."""
    return NoInterruption() if folder is None else Interruption(folder)


class Terminated(KeyboardInterrupt):
    """SIGTERM ends the work as Ctrl-C does; only the exit code differs."""

    exit_code = 128 + signal.SIGTERM


@contextlib.contextmanager
def sigterm_like_ctrl_c() -> Iterator[None]:
    """Within it, SIGTERM raises `Terminated`; then it does again what it did before."""

    def end(signum: int, frame: Any) -> None:
        raise Terminated("terminated.")

    if threading.current_thread() is not threading.main_thread():  # Python hands signals to the main one alone
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
