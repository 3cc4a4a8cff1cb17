"""A network as pure functions, run under every axis of devices that it names."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.keys import abstract_key
from bayesprune.core.traced import needs_first
from bayesprune.core.types import PyTree

Params = dict[str, Any]
State = dict[str, Any]


@dataclass(frozen=True)
class Net:
    """A network as two pure functions.

    ``init(rng_key) -> (params, state)``; ``apply(params, state, x, train, rng_key) -> (outputs, new state)``. ``state`` is a
    dict, empty for most nets; batch statistics live in it. ``rng_key`` may be None where the net draws nothing.
    ``own(params, state)``: both in the form that the module's own library calls it with. ``random_start``: whether
    ``init`` draws the parameters by its key, and a module holds none of its own. ``may_draw``: whether it has a source
    of noise of its own even where ``rng_key`` is None, which is then the same at every call.
    """

    init: Callable[[jax.Array], tuple[Params, State]]
    apply: Callable[..., tuple[Any, State]]
    own: Callable[[Params, State], Any]
    may_draw: bool = False
    random_start: bool = False


def check_predicts(net: Net, params: Params, state: State, rows: PyTree) -> None:
    """Refuse a net whose outputs in prediction depend on noise: of one and the same draw at every call."""
    outputs = lambda key, *rest: net.apply(*rest, False, key)[0]  # noqa: E731
    if net.may_draw and needs_first(outputs, abstract_key(), params, state, rows):
        raise draws_in_prediction("its outputs depend on the key")


def draws_in_prediction(how: str) -> TypeError:
    """The error for a net that draws where it should only predict."""
    return TypeError(
        f"net draws random numbers where it predicts ({how}): let it draw in training alone, as by an argument train= of its "
        "call, or in nnx an attribute deterministic."
    )


def changes_in_prediction(how: str) -> TypeError:
    """The error for a net that updates its state, such as statistics of batches, where it should only predict."""
    return TypeError(
        f"net updates its state where it predicts ({how}): let it do so in training alone, by an argument train=False of its "
        "call that its BatchNorm follows, use_running_average=not train, and that apply_kwargs= leaves alone."
    )


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
