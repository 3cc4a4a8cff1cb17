"""Nets that sum over a named axis of devices, as batch norms do: here one program sees all rows, and the axis has size one."""

import re
from collections.abc import Callable
from typing import Any

import jax


def missing_axis(error: NameError) -> str | None:
    """The axis that JAX did not find.

    >>> missing_axis(NameError("Found an unbound axis name: batch. To fix this, please call psum under `jax.shard_map`."))
    'batch'
    """
    found = re.search(r"unbound axis name: (\w+)", str(error))
    return found.group(1) if found else None


def with_axes(run: Callable[[], Any]) -> Any:
    """``run()``, under every axis that it names, each of size one.

    >>> with_axes(lambda: jax.lax.pmean(jax.numpy.arange(3.0), "batch")).tolist()
    [0.0, 1.0, 2.0]
    """
    try:
        return run()
    except NameError as error:
        name = missing_axis(error)
        if name is None:
            raise
    return with_axes(lambda: jax.vmap(run, in_axes=(), out_axes=None, axis_name=name, axis_size=1)())
