"""How a net is called: its rows first, then the keyword arguments that it has."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayesprune.core.checks import check_name
from bayesprune.core.types import ArrayTree
from bayesprune.model.inputs import Inputs

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
