"""A network as pure functions: how it is called, and that it is run under every axis of devices that it names."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.checks import check_name
from bayesprune.core.keys import abstract_key
from bayesprune.core.traced import needs_first
from bayesprune.core.types import ArrayTree, PyTree
from bayesprune.model.inputs import Inputs

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


# The keywords that say to a net that it trains, whatever the net calls them; some have one for dropout and one for norms.
TRAINING = ("train", "training", "is_training", "enable_dropout")
PREDICTING = ("deterministic", "use_running_average", "inference")
SUPPLIED = ("key", "rngs", "state")  # by the adapters, where a net asks for them


@dataclass(frozen=True)
class Call:
    """The keywords of a net's call: those that say whether it trains, and those that the user has fixed."""

    signature: inspect.Signature
    fixed: dict[str, Any]

    @property
    def names(self) -> Mapping[str, inspect.Parameter]:
        """The net's own parameters."""
        return self.signature.parameters

    def asks_for(self, name: str) -> bool:
        """Whether the net has a parameter of this name that is not fixed."""
        return name in self.names and name not in self.fixed

    def needs(self, name: str) -> bool:
        """Whether it has one without a default."""
        return self.asks_for(name) and self.names[name].default is inspect.Parameter.empty

    def keywords(self, train: bool) -> dict[str, Any]:
        """What the net is called with beside its rows, its key and its state."""
        flags = {name: train for name in TRAINING} | {name: not train for name in PREDICTING}
        mode = {name: value for name, value in flags.items() if name in self.names}
        return ({} if next(iter(mode), None) in self.fixed else mode) | self.fixed  # a first one that is fixed stands for all


def arguments(x: ArrayTree) -> tuple[Any, ...]:
    """What a net is called on: the parts of a tuple each by itself, anything else as it is."""
    return x if type(x) is tuple else (x,)


def call_of(function: Callable[..., Any], inputs: Inputs, fixed: Mapping[str, Any] | Any, bound: bool = True) -> Call:
    """How ``function`` is to be called. ``bound``: whether it has its module already.

    Raises:
        TypeError: it asks for more than is known, or for less.
        ValueError: it has no parameter of a fixed name.
    """
    if not isinstance(fixed, Mapping):
        raise TypeError(f"apply_kwargs must be a dict of constants by name, such as {{'train': False}}, got {fixed!r}.")
    signature = inspect.signature(function)
    if not bound:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    call = Call(signature, dict(fixed))
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in call.names.values()):
        for name in fixed:
            check_name("keyword of the net's call in apply_kwargs", name, call.names)
    rows = arguments(inputs.zeros(1))
    given = call.keywords(False) | {name: None for name in SUPPLIED if call.needs(name)}
    try:
        signature.bind(*rows, **given)
    except TypeError as error:
        raise TypeError(
            f"net cannot be called on {len(rows)} input(s) with {', '.join(given) or 'no keywords'}: {error}. Give the rest as "
            "constants, apply_kwargs={'name': value}."
        ) from None
    return call
