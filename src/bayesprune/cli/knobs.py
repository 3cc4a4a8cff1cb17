"""Knobs of nets, methods, priors and courses: as flags, built from plain values, and read from files.

In files whole numbers serve as real ones, and lists as tuples.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import docstring_parser
from tyro import conf

from bayesprune.core.checks import got, unknown_name
from bayesprune.core.written import from_text, plain_type, to_text

GIVEN = ("num_outputs", "parent", "name")  # set by the data, or by Flax
# A net needs its sizes; these suit the small data sets that a first run takes.
DEFAULTS: dict[tuple[str, str], Any] = {("MLP", "hidden"): (64, 256), ("WideMLP", "hidden"): (64, 256)}


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
    said = docstring_parser.parse(cls.__doc__ or "").params
    about = {name.strip(): " ".join((entry.description or "").split()) for entry in said for name in entry.arg_name.split(",")}
    kinds, found = typing.get_type_hints(cls), []
    for field in dataclasses.fields(cls):
        if field.name in GIVEN or not field.init:
            continue
        default = DEFAULTS.get((cls.__name__, field.name), field.default)
        kind = plain_type(kinds[field.name])
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


def as_kind(value: object, hint: object, what: str) -> Any:
    """A value as its type hint has it: whole numbers serve as real ones, lists as tuples, numbers as texts.

    >>> as_kind(3, float, "f: x"), as_kind([1, 2], tuple[int, ...], "f: x")
    (3.0, (1, 2))
    """
    fits = [made for one in _each(hint) if (made := _as_one(value, one)) is not None]
    if value is None and types.NoneType in _each(hint):
        return None
    if not fits:
        wanted = " or ".join(_words(one) for one in _each(hint) if one is not types.NoneType)
        raise ValueError(f"{what} must be {wanted}, got {got(value)}.")
    return fits[0]


def hints(cls: type) -> dict[str, Any]:
    """The fields of a dataclass, and the types of their values."""
    found = typing.get_type_hints(cls)
    return {field.name: found[field.name] for field in dataclasses.fields(cls)}


def table(value: object, made: type | None, what: str) -> dict[str, Any]:
    """The knobs of a table in a file, checked; ``made``: the dataclass of them as flags, None where there are none."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a table of knobs, got {got(value)}: write it under [{what.split(': ')[-1]}].")
    kinds = {} if made is None else hints(made)
    for key in value:
        if key.replace("-", "_") not in kinds:
            raise unknown_name(f"knob in {what}", key, kinds)
    plain = {key.replace("-", "_"): one for key, one in value.items()}
    return {name: as_kind(one, kinds[name], f"{what}.{name}") for name, one in plain.items()}


def _each(hint: object) -> tuple[Any, ...]:
    """The types that an annotation allows."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _as_one(value: object, hint: Any) -> Any:
    """The value as this type has it, or None where it cannot be that."""
    if typing.get_origin(hint) is tuple:
        (kind, *_) = typing.get_args(hint)
        made = [_as_one(one, kind) for one in value] if isinstance(value, list | tuple) else [None]
        return None if any(one is None for one in made) else tuple(made)
    if hint is bool or isinstance(value, bool):
        return value if hint is bool and isinstance(value, bool) else None
    if hint is float and isinstance(value, int | float):
        return float(value)
    if (hint in (str, Path) and isinstance(value, str)) or (hint is str and isinstance(value, int | float)):
        return hint(value)
    return value if hint is int and isinstance(value, int) else None


def _words(hint: Any) -> str:
    if typing.get_origin(hint) is tuple:
        return f"a list, each {_words(typing.get_args(hint)[0])}"
    return {bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}.get(hint, "a text")
