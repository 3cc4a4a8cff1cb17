"""Ctrl-C and SIGTERM in a fit: it ends between two steps, saved or returned, and says how to go on."""

import contextlib
import os
import signal
import threading
import warnings
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


class Interruption:
    """Within it, the first signal that the fit handles is remembered, see ``signum``; a second one does what it did before.

    With a ``folder``, where the state is saved before `end` is raised, these are SIGINT and SIGTERM. ``returns``: SIGINT ends
    the fit with what there is in place of an exception. Without either SIGINT raises at once, as Python does, and is
    remembered too: an exception in a callback of the garbage collector or of a destructor is dropped by Python, and the fit
    would go on. In a thread other than the main one, to which Python hands no signals, nothing changes.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, returns: bool = False) -> None:
        self._folder, self._returns = folder, returns
        self.signum = 0  # which signal was remembered; 0: none
        self._before: dict[int, Any] = {}

    def hear(self, signum: int) -> None:
        """Remember a signal that another process of the fit was sent, if it is one."""
        if signum and not self.signum:
            self._remember(signum, None)

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            if self._waits:
                listened = {signal.SIGINT, *((signal.SIGTERM,) if self._folder is not None else ())}
            else:  # a handler of the user's own says itself what is to come
                listened = {signal.SIGINT} if signal.getsignal(signal.SIGINT) is signal.default_int_handler else set()
            for signum in listened:
                # One that is ignored, as under nohup, stays ignored; one that was not set by Python cannot be put back.
                if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                    self._before[signum] = signal.signal(signum, self._remember)
        return self

    @property
    def _waits(self) -> bool:
        """Whether the fit ends between two steps, not in the midst of one."""
        return self._folder is not None or self._returns

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before = {}

    def end(self, step: int, num_steps: int) -> None:
        """To be called once step ``step`` is saved: raises `InterruptedFit`, or warns where the fit returns what there is.

        Where nothing was to be saved it raises KeyboardInterrupt: the first one was dropped on its way.
        """
        message = f"{signal.Signals(self.signum).name} ended the fit at step {step} of {num_steps}."
        if not self._waits:
            raise KeyboardInterrupt(message)
        if self._folder is not None:
            message += f" Its state is saved in {os.fspath(self._folder)}: the same call goes on from there."
        if not self._returns or self.signum != signal.SIGINT:
            raise InterruptedFit(message, self.signum, step)
        message += " It is returned as it is; with on_interrupt='raise' a loop of fits would end too."
        warnings.warn(message, UserWarning, stacklevel=5)  # the caller of `fit_svi`

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        self.signum = signum
        self.__exit__(None, None, None)
        if frame is not None and not self._waits:  # without a frame it is another process's, which `end` raises in step
            signal.default_int_handler(signum, frame)


class Terminated(KeyboardInterrupt):
    """SIGTERM ends the work as Ctrl-C does; only the exit code differs."""

    exit_code = 128 + signal.SIGTERM


@contextlib.contextmanager
def sigterm_like_ctrl_c() -> Iterator[None]:
    """Within it, SIGTERM raises `Terminated`; then it does again what it did before."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise Terminated("terminated.")

    if threading.current_thread() is not threading.main_thread():  # Python hands signals to the main one alone
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
