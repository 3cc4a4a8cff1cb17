"""A progress bar over chunks of training steps, in a terminal or a notebook, and the silence in its place."""

import sys
from collections.abc import Callable
from typing import Any, SupportsFloat

from tqdm.auto import tqdm

from bayesprune.core.checks import check_integer
from bayesprune.report.health import Health

Figure = SupportsFloat | None


class NoProgress:
    """The progress of a training loop, as a context manager: this one says nothing, and waits for no device."""

    def advance(self, num_steps: int, loss: Figure = None, density: Figure = None, connected: Figure = None) -> None:
        """Count ``num_steps`` more. Does not read its arguments here, which would wait for the device."""

    def judge(self, diagnose: Callable[[], Health]) -> None:
        """Called at the end of the fit; ``diagnose`` computes its health. Does nothing here."""

    def close(self) -> None:
        """End the output."""

    def __enter__(self) -> "NoProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProgressBar(NoProgress):
    """A bar on the standard error with the loss, the density and the steps per second; see `progress`."""

    def __init__(self, total: int, initial: int = 0) -> None:
        self._shown: dict[str, Any] = {}
        self._bar = tqdm(total=total, initial=initial, unit=" steps", file=sys.stderr, dynamic_ncols=True)

    def advance(self, num_steps: int, loss: Figure = None, density: Figure = None, connected: Figure = None) -> None:
        """Count ``num_steps`` more. ``loss``: a scalar in nats; ``density``, ``connected``: the alive fraction, and that on a
        living path. None is not shown."""
        shown: dict[str, Any] = {}
        if loss is not None:
            shown["loss"] = f"{float(loss):.5g}"
        if density is not None:
            shown["density"] = f"{100 * float(density):.3g} %"
        if connected is not None:
            shown["connected"] = f"{100 * float(connected):.3g} %"
        self._shown = shown
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(num_steps)

    def judge(self, diagnose: Callable[[], Health]) -> None:
        """Add the health to the last line: "well", or the names of what was found."""
        found = ", ".join(one.name for one in diagnose().findings)
        self._bar.set_postfix(self._shown | {"health": f"{found}: see fit.diagnose()" if found else "well"}, refresh=False)

    def close(self) -> None:
        """Draw the bar a last time and leave it there. Closing twice is allowed."""
        self._bar.refresh()
        self._bar.close()


def progress(total: int, enabled: bool | None = None, initial: int = 0) -> NoProgress:
    """A progress bar over ``total`` steps, or `NoProgress`.

    ``enabled``: True shows the bar wherever the standard error goes, False never does, None does so in a terminal or a
    notebook only. ``initial``: steps a resumed run has behind it; they are shown, and do not count as speed.

    Raises `ValueError` for a negative or fractional ``total`` or ``initial``.

    >>> with progress(1000, enabled=False) as bar:
    ...     bar.advance(100, loss=3.2, density=0.5)
    """
    check_integer(total, "total", minimum=0)
    check_integer(initial, "initial", minimum=0)
    if enabled is None:
        enabled = _in_terminal() or _in_notebook()
    return ProgressBar(total, initial) if enabled else NoProgress()


def _in_terminal() -> bool:
    # A process without a console has no standard error at all.
    return sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    # IPython is asked only where it already runs: a notebook's standard error is no terminal.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
