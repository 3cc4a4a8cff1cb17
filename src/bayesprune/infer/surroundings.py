"""What a fit is given beside its program, data and method: callbacks, an augmentation, a folder, devices, switches."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from bayesprune.core.checks import check_function, got, unknown_name

ON_INTERRUPT = ("return", "raise")


def as_callbacks(callbacks: Any) -> tuple[Callable[[Any], Any], ...]:
    """Functions of a `Moment`; one alone needs no list."""
    alone = callable(callbacks) or not isinstance(callbacks, Iterable)
    several = (callbacks,) if alone else tuple(callbacks)
    for callback in several:
        if not callable(callback) or isinstance(callback, type):
            raise TypeError(
                f"callbacks must be functions of a bp.Moment, one or a list of them, got {got(callback)}: write "
                "lambda moment: print(moment.step, moment.loss), or leave callbacks out."
            )
    return several


def returns_when_interrupted(on_interrupt: Any) -> bool:
    """Whether Ctrl-C makes a fit return what there is: as it says, and for None at a prompt or in a notebook."""
    if on_interrupt is None:
        return hasattr(sys, "ps1")  # of Python's prompt, IPython's and a notebook's; a script has none
    if not isinstance(on_interrupt, str) or on_interrupt not in ON_INTERRUPT:
        raise unknown_name("on_interrupt", on_interrupt, ON_INTERRUPT)
    return on_interrupt == "return"


def check_surroundings(augment: Any, checkpoint: Any, mesh: Any, **switches: Any) -> None:
    """Refuse what is no function, no path, no mesh; ``switches``: name -> True, False, or None where that is allowed."""
    check_function(augment, "augment", "bp.data.CropFlip()")
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise TypeError(
            f"checkpoint must be the path of a folder, got {got(checkpoint)}: give one such as 'runs/first'; how often is said "
            "by checkpoint_every."
        )
    check_mesh(mesh)
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool_ | None) or (value is None and name != "progress"):
            raise TypeError(f"{name} must be True or False, got {got(value)}.")


def check_mesh(mesh: Any) -> None:
    """Refuse what is neither a mesh of devices nor None."""
    if not isinstance(mesh, jax.sharding.Mesh | None):
        raise TypeError(
            f"mesh must be a jax.sharding.Mesh, got {got(mesh)}: make one of your devices, as by "
            f"jax.make_mesh(({jax.device_count()},), ('data',))."
        )
