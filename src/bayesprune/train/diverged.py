"""How a fit ends in an error that keeps what was trained: it is no longer finite, or cannot be saved."""

from collections.abc import Collection
from typing import Any

from bayesprune.train.result import FitResult


class DivergedError(FloatingPointError):
    """A loss or a state is not finite. ``step``: where; ``site``: what; ``params``: the last finite ones, to go on from."""

    def __init__(self, message: str, step: int, site: str, params: dict[str, Any]) -> None:
        super().__init__(message)
        self.step, self.site, self.params = step, site, params


def diverged(step: int, what: str, lost: Collection[str], finite: dict[str, Any]) -> DivergedError:
    """The error, with the last ``finite`` parameters.

    ``what``: "the loss", or "" where that was finite; ``lost``: the ways to arrays that are not finite any more, in a dict of
    "params", those "free" of their constraints, "state" and "optimizer".
    """
    site = _first(lost)
    what = what or ("the optimizer's state" if site.startswith("optimizer") else "the parameters")
    return DivergedError(
        f"{what} stopped being finite at step {step}, first seen at {site!r}. The parameters before that are in this error's "
        "`params`; start again from them (init_params=error.params) with a smaller learning rate (a sampler: step_size), with "
        "gradient clipping (optax.chain(optax.clip_by_global_norm(1.0), ...)), or look for extreme values in the data.",
        step,
        site,
        finite,
    )


def _first(lost: Collection[str]) -> str:
    """The first parameter that is not finite, else a part of the state; else the observed site: its likelihood overflowed.

    >>> _first(["['optimizer'][0].nu", "['params']['w_auto_loc']"]), _first(["['state']['nn']"]), _first([])
    ('w_auto_loc', "state['nn']", 'obs')
    """
    for part in ("params", "free", "state", "optimizer"):
        ways = sorted(way.removeprefix(f"['{part}']") for way in lost if way.startswith(f"['{part}']"))
        if ways:
            return ways[0].strip("[]'") if part in ("params", "free") else part + ways[0]
    return "obs"


class UnsavedError(OSError):
    """A checkpoint could not be written. ``fit``: the `FitResult` as it is; ``why``: the system's cause and its remedy.

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
