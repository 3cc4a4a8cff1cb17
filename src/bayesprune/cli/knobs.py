"""Knobs of nets, methods and priors: the fields of their dataclasses as plain values that a flag, or a JSON file, can hold.

Numbers, words and lists of them are kept as they are. Anything else is written as in Python: a schedule as
``Cubic(0.05, 0, 20)`` (of `bayesprune.schedules`), a function of `jax.nn` or a floating type by its name, as ``relu`` or
``bfloat16``.
"""

import ast
import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import docstring_parser
import jax
from tyro import conf

from bayesprune.core import schedules
from bayesprune.core.checks import unknown_name

GIVEN = ("num_outputs", "parent", "name")  # set by the data, or by Flax
# A net needs its sizes; these suit the small data sets that a first run takes.
DEFAULTS: dict[tuple[str, str], Any] = {("MLP", "hidden"): (64, 256)}
FLOATS = ("bfloat16", "float16", "float32")  # types to compute in
_PLAIN = (bool, int, float, str, types.NoneType)


class Knob(NamedTuple):
    """One field: its name, the type and default of its flag, what it is, and whether the flag has it as written in Python."""

    name: str
    kind: Any
    default: Any
    about: str
    written: bool


def knobs(cls: type) -> list[Knob]:
    """The knobs of a dataclass in order, each with a default: its own, or that of `DEFAULTS`.

    >>> from bayesprune.methods.magnitude import Magnitude
    >>> [(knob.name, knob.kind, knob.default) for knob in knobs(Magnitude)]
    [('density', <class 'str'>, '0.1'), ('scope', <class 'str'>, 'global')]
    """
    told = docstring_parser.parse(cls.__doc__ or "").params
    about = {name.strip(): " ".join((entry.description or "").split()) for entry in told for name in entry.arg_name.split(",")}
    hints, found = typing.get_type_hints(cls), []
    for field in dataclasses.fields(cls):
        if field.name in GIVEN or not field.init:
            continue
        default = DEFAULTS.get((cls.__name__, field.name), field.default)
        kind = _plain(hints[field.name])
        found.append(
            Knob(field.name, kind or str, default if kind else to_text(default), about.get(field.name, ""), kind is None)
        )
    return found


def flags(cls: type) -> type | None:
    """A dataclass of the knobs as flags; None where there are none."""
    columns = [
        (k.name, Annotated[k.kind, conf.arg(help=k.about or None)], dataclasses.field(default=k.default)) for k in knobs(cls)
    ]
    return dataclasses.make_dataclass(cls.__name__, columns, frozen=True, kw_only=True) if columns else None


def build(cls: type, values: Mapping[str, Any], **given: Any) -> Any:
    """An object of ``cls`` from the plain values of its `knobs`, and from ``given`` fields."""
    arguments = {}
    for knob in knobs(cls):
        value = from_text(values[knob.name], knob.name) if knob.written else values[knob.name]
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
        if isinstance(node, ast.Name):
            return node.id if node.id in FLOATS else _named(f"function for {name}", node.id, jax.nn, callable)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            schedule = _named("schedule", node.func.id, schedules, dataclasses.is_dataclass)
            keywords = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
            return schedule(*(ast.literal_eval(part) for part in node.args), **keywords)
        return ast.literal_eval(node)
    except SyntaxError:
        raise ValueError(
            f"{name} must be a number, a schedule such as 'Cubic(0.05, 0, 20)', or a name, got {text!r}."
        ) from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={text!r}: {error}") from error


def _named(kind: str, name: str, module: Any, wanted: Any) -> Any:
    """The public thing of a name in a module."""
    known = {key: value for key, value in vars(module).items() if not key.startswith("_") and wanted(value)}
    if name not in known:
        raise unknown_name(kind, name, known)
    return known[name]


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
