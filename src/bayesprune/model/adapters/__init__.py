"""Linen, nnx and Equinox modules behind one pure face: ``params`` a flat dict by dotted path, ``state`` what else changes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flax import linen, nnx

from bayesprune.core.checks import got
from bayesprune.model.adapters.net import Net, check_predicts
from bayesprune.model.adapters.of_equinox import is_equinox, of_equinox
from bayesprune.model.adapters.of_flax import of_linen, of_nnx
from bayesprune.model.inputs import Inputs

__all__ = ["Net", "adapt", "check_predicts"]


def adapt(module: object, inputs: Inputs, apply_kwargs: Mapping[str, Any] | Any = MappingProxyType({})) -> Net:
    """Wrap a module that is called on ``inputs``, and by the names in ``apply_kwargs``; or say which kinds are known.

    A `Net`, of functions that another library or no library has made, is taken as it is.

    Raises:
        TypeError: ``module`` is no linen, nnx or Equinox module, or cannot be called with these arguments.
        ValueError: its call has no such keyword; any, with a `Net`.
    """
    if isinstance(module, Net):
        if apply_kwargs:
            raise ValueError(
                f"apply_kwargs are for a module's call, got {dict(apply_kwargs)} with a Net: set them in its apply."
            )
        return module
    known = isinstance(module, linen.Module | nnx.Module) or is_equinox(module)
    if known and not callable(module[0] if isinstance(module, tuple) else module):
        raise TypeError(
            f"net {got(module)} has no __call__: write one that goes from a batch to the outputs, such as a module that holds "
            "this one and calls its methods."
        )
    if isinstance(module, linen.Module):
        return of_linen(module, inputs, apply_kwargs)
    if isinstance(module, nnx.Module):
        return of_nnx(module, inputs, apply_kwargs)
    if is_equinox(module):
        return of_equinox(module, inputs, apply_kwargs)
    raise TypeError(
        f"net must be a Flax linen, Flax nnx or Equinox module, got {got(module)}: "
        "pass an instance such as bp.nets.MLP(hidden=(64,), num_outputs=10), two functions as a bayesprune.model.adapters.Net, "
        "or write a bp.Program(model, guide)."
    )
