"""What a fit's losses say at its end: that nothing was learnt from the inputs, or that the loss still falls."""

import contextlib
import math
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeGuard

import jax
import numpy as np

from bayesprune.core.send import send
from bayesprune.core.types import PyTree
from bayesprune.report.health import advise
from bayesprune.train.result import FitResult
from bayesprune.train.state import Recipe

_HELD_BACK: ContextVar[list[str] | None] = ContextVar("held_back_at_the_end_of_fits", default=None)


def baseline(likelihood: object, y: PyTree) -> float | None:
    """-log likelihood of all targets, nats, by the best prediction that knows no inputs: (21.11), (21.12), (21.13).

    By the likelihood's own ``baseline(y)``. None where it has none (`StudentT`, `Beta`, `Custom`), or none in closed form, and
    where all targets are the same. ``y``: as the likelihood takes it.

    >>> from bayesprune.model.likelihoods import Beta, Categorical
    >>> print(round(baseline(Categorical(), np.array([0, 1, 2, 3])), 4), baseline(Beta(), np.array([0.1, 0.2])))
    5.5452 None
    """
    of_targets = getattr(likelihood, "baseline", None)
    return of_targets(np.asarray(y)) if callable(of_targets) else None


def has_bound(program: object) -> bool:
    """Whether losses are bounds of the evidence: points have none, under an improper prior it has a constant nobody knows."""
    proper = not getattr(getattr(program, "prior", None), "improper", False)
    return proper and bool(getattr(getattr(program, "family", None), "spread", True))


def in_memory(y: object) -> TypeGuard[np.ndarray | jax.Array]:
    """Whether targets are an array that can be read at no cost, not a file's."""
    return isinstance(y, np.ndarray | jax.Array) and not isinstance(y, np.memmap)


@contextlib.contextmanager
def held_back() -> Iterator[list[str]]:
    """Within it no fit of this thread warns at its end, or of the scale of its data; the list has what ends would have said.

    For who scales data and judges fits by what they predict: of a few hundred rows the bound of a network that predicts others
    well is often worse than the best constants', and outliers are far from unit scale however it is done.
    """
    said: list[str] = []
    before = _HELD_BACK.set(said)
    try:
        yield said
    finally:
        _HELD_BACK.reset(before)


def is_held_back() -> bool:
    """Whether fits of this thread are within `held_back`."""
    return _HELD_BACK.get() is not None


def warn_at_end(fit: FitResult, recipe: Recipe, data: object) -> None:
    """Warn of what `advise` has to say of a fit that went to its end.

    A baseline needs targets in memory and a bound of weight 1: a cold posterior minimises another.
    """
    if fit.interrupted or "halted/step" in fit.history:
        return
    y, likelihood = getattr(data, "y", None), getattr(recipe.program, "likelihood", None)
    with jax.transfer_guard("allow"):  # one number, by a function that may be anybody's
        full = math.isclose(float(recipe.kl_weight(send(len(fit.losses), np.int32))), 1.0)
    known = likelihood is not None and has_bound(recipe.program) and full and in_memory(y)
    message = advise(fit.losses, baseline(likelihood, y) if known else None, 1 if y is None else len(y))
    if message and (said := _HELD_BACK.get()) is not None:
        said.append(message)
    elif message:
        warnings.warn(message, UserWarning, stacklevel=3)
