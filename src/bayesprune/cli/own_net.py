"""A network of the user's own, named as MODULE:FUNCTION; the current folder is importable."""

import contextlib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bayesprune.core.checks import got, unknown_name

MARK = ":"
EXAMPLE = "write `def make_net(num_outputs): return MyNet(num_outputs)`, a Flax or Equinox module"


@dataclass(frozen=True)
class OwnNet:
    """Its class among the nets: it has no knobs."""


def check_named(name: str, named: str | None, where: str) -> None:
    """Refuse a network of the user's own that a file names, unless the user has ``named`` it too: to import it runs its code.

    Any other network may be ``named`` as well, by its own name. ``where``: what names it, in words.
    """
    if named not in (None, name):
        raise ValueError(f"{where} is of net={name}, and --net says {named}: give --net {name}, or leave it out.")
    if MARK in name and named is None:
        raise ValueError(
            f"{where} is of net={name}, a function in Python, and to import its module runs its code: if you trust it, say so "
            f"by --net {name}."
        )


def load(name: str) -> Callable[..., Any]:
    """The function, or class, of a name.

    Raises `ValueError` for a module that cannot be imported, and a name in it that is not there or no function.
    """
    module_name, _, attribute = name.partition(MARK)
    if not module_name or not attribute:
        raise ValueError(f"net={name} must be a name of `bayesprune methods`, or MODULE:FUNCTION, such as my_module:make_net.")
    with _importable_here():
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # the user's own code may fail in any way at all
            raise ValueError(f"net={name}: {_why(error, module_name)}") from error
    if not hasattr(module, attribute):
        public = [one for one, value in vars(module).items() if callable(value) and not one.startswith("_")]
        raise unknown_name(f"function in {module_name}", attribute, public, f"It is to make the network: {EXAMPLE}.")
    found = getattr(module, attribute)
    if not (isinstance(found, type | functools.partial) or inspect.isroutine(found)):
        raise ValueError(f"net={name} is {got(found)}, no function that makes a network: {EXAMPLE}.")
    return found


def make(name: str, num_outputs: int, input_shape: tuple[int, ...]) -> Any:
    """The network; its function is given ``num_outputs`` and ``input_shape`` where it takes them by these names.

    A function of one argument of another name is given the number of outputs.
    """
    function, known = load(name), {"num_outputs": num_outputs, "input_shape": input_shape}
    parameters = inspect.signature(function).parameters
    given = {one: value for one, value in known.items() if one in parameters}
    asked = [one for one, p in parameters.items() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    rest = [one for one in asked if one not in given]
    if not given and len(rest) == 1:
        given, rest = {rest.pop(): num_outputs}, []
    if rest:
        raise ValueError(
            f"net={name} asks for {', '.join(rest)}, and is given num_outputs and input_shape alone: give it a default."
        )
    with _importable_here():
        try:
            positional = any(parameters[one].kind is inspect.Parameter.POSITIONAL_ONLY for one in given)
            made = function(*given.values()) if positional else function(**given)
        except Exception as error:
            raise ValueError(f"net={name} failed when it was called with {given}: {type(error).__name__}: {error}") from error
    if not any(kind.__module__.split(".")[0] in ("flax", "equinox") for kind in type(made).__mro__):
        raise ValueError(f"net={name} gave {got(made)}, no network: {EXAMPLE}.")
    return made


@contextlib.contextmanager
def _importable_here() -> Iterator[None]:
    here = os.getcwd()
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(here)


def _why(error: Exception, module_name: str) -> str:
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return f"importing {module_name} failed, {type(error).__name__}: {error}"
    if f"{module_name}.".startswith(f"{error.name}."):
        return f"there is no module {error.name!r} in {os.getcwd()}, nor installed: run this where {error.name}.py is"
    return f"{module_name} imports {error.name!r}, which is not installed: install it"
