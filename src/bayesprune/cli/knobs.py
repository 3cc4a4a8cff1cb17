"""Knobs of nets, methods and priors: the fields of their dataclasses as plain values that a flag, or a JSON file, can hold.

Numbers, words and lists of them are kept as they are. Anything else is written as in Python; see `core.written`.
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import docstring_parser
from tyro import conf

from bayesprune.core.written import from_text, plain_type, to_text

GIVEN = ("num_outputs", "parent", "name")  # set by the data, or by Flax
# A net needs its sizes; these suit the small data sets that a first run takes.
DEFAULTS: dict[tuple[str, str], Any] = {("MLP", "hidden"): (64, 256)}


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
        kind = plain_type(hints[field.name])
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
