"""Knobs of nets, methods and priors: the fields of their dataclasses as plain values that a flag, or a JSON file, can hold.

Numbers, words and lists of them are kept as they are. Anything else is written as in Python: a schedule as
``Cubic(0.05, 0, 20)`` (of `bayesprune.schedules`), a function of `jax.nn` or a floating type by its name, as ``relu`` or
``bfloat16``.
"""

import ast
import dataclasses
import functools
import operator
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from bayesprune.core import schedules
from bayesprune.core.checks import unknown_name

GIVEN = ("num_outputs", "parent", "name")  # set by the data, or by Flax
REQUIRED = dataclasses.MISSING
FLOATS = ("bfloat16", "float16", "float32")  # types to compute in
_PLAIN = (bool, int, float, str, types.NoneType)


class Knob(NamedTuple):
    """One field: its name, the type and default of its flag (`REQUIRED` where there is none), and what it is."""

    name: str
    kind: Any
    default: Any
    about: str


def knobs(cls: type, defaults: Mapping[str, Any] = types.MappingProxyType({})) -> list[Knob]:
    """The knobs of a dataclass in order; ``defaults`` go before its own.

    >>> from bayesprune.methods.magnitude import Magnitude
    >>> [(knob.name, knob.kind, knob.default) for knob in knobs(Magnitude)]
    [('density', <class 'str'>, '0.1'), ('scope', <class 'str'>, 'global')]
    """
    about = _about(cls.__doc__ or "")
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        if field.name in GIVEN or not field.init:
            continue
        default = field.default if field.default_factory is REQUIRED else field.default_factory()
        default = defaults.get(field.name, default)
        kind = _plain(hints[field.name])
        if kind is None:
            kind, default = str, default if default is REQUIRED else to_text(default)
        found.append(
            Knob(field.name, kind, tuple(default) if isinstance(default, list) else default, about.get(field.name, ""))
        )
    return found


def build(cls: type, values: Mapping[str, Any], **given: Any) -> Any:
    """An object of ``cls`` from the plain values of its `knobs`, and from ``given`` fields."""
    arguments = {}
    for knob in knobs(cls):
        value = values[knob.name]
        special = _plain(typing.get_type_hints(cls)[knob.name]) is None
        value = from_text(value, knob.name) if special else value
        arguments[knob.name] = tuple(value) if isinstance(value, list) else value
    return cls(**arguments, **given)


def to_text(value: Any) -> str:
    """A value as `from_text` reads it."""
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


def from_text(text: str, name: str) -> Any:
    """A number, None, a schedule, a floating type's name, or a function of `jax.nn`; ``name`` is the knob's, for the error.

    >>> from_text("Cubic(0.05, 0, end=20)", "density")
    Cubic(final_density=0.05, begin=0, end=20)
    >>> from_text("bfloat16", "dtype")
    'bfloat16'
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        node = ast.Constant(...)
    if isinstance(node, ast.Name):
        return node.id if node.id in FLOATS else _function(node.id, name)
    try:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            keywords = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
            return _schedule(node.func.id)(*(ast.literal_eval(part) for part in node.args), **keywords)
        value = ast.literal_eval(node)
        if value is not ...:
            return value
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
    raise ValueError(f"{name} must be a number, a schedule such as 'Cubic(0.05, 0, 20)', or a name, got {text!r}.")


def _schedule(name: str) -> type:
    known = {
        key: value for key, value in vars(schedules).items() if isinstance(value, type) and dataclasses.is_dataclass(value)
    }
    if name not in known:
        raise unknown_name("schedule", name, known)
    return known[name]


def _function(word: str, name: str) -> Any:
    known = [key for key in dir(jax.nn) if not key.startswith("_") and callable(getattr(jax.nn, key))]
    if word not in known:
        raise unknown_name(f"function for {name}", word, known)
    return getattr(jax.nn, word)


def _plain(hint: Any) -> Any:
    """The flag's type for an annotation; None where its values have to be written out."""
    if hint in _PLAIN or typing.get_origin(hint) is typing.Literal:
        return hint
    arguments = [part for part in typing.get_args(hint) if part is not ...]
    if not arguments or any(_plain(part) is None for part in arguments):
        return None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        # Any flag's text is a str, so that the other types have to be tried first.
        return functools.reduce(operator.or_, sorted(arguments, key=lambda part: part is str))
    # `tuple[X, ...]` for an X known only now.
    return types.GenericAlias(tuple, (arguments[0], ...)) if origin in (Sequence, list) else hint if origin is tuple else None


def _about(docstring: str) -> dict[str, str]:
    """The entries of a docstring's "Args:"; one entry may tell of several fields."""
    match = re.search(r"^( *)Args:\n(.*?)(?=^\s*$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if not match:
        return {}
    entries = re.split(rf"^{match[1]}    (?=\S)", match[2], flags=re.MULTILINE)[1:]
    parts = (entry.partition(":") for entry in entries)
    return {name.strip(): " ".join(text.split()) for names, _, text in parts for name in names.split(",")}
