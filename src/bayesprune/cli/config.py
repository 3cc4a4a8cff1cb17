"""A file of settings for `bayesprune run`: TOML, or the settings.json of a run; names as those of the flags."""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesprune.cli.find import KINDS
from bayesprune.cli.knobs import flags
from bayesprune.cli.settings import BEFORE, Settings, field_name
from bayesprune.core.checks import got, unknown_name
from bayesprune.core.files import reading
from bayesprune.core.formats import read_record

NOT_THERE = ("config",)  # names another file


def values(path: Path) -> dict[str, Any]:
    """The settings in a file by name, checked; the knobs of a net, method, prior or course are a dictionary under its name.

    Tables of those that are not chosen may be there, for a flag may choose them.

    Raises `ValueError` for a name that is no setting, with the nearest ones, and for a value of the wrong kind.
    """
    kinds, tables = {name: hint for name, hint in hints(Settings).items() if name not in NOT_THERE}, _tables()
    found: dict[str, Any] = {}
    for key, value in _content(path).items():
        name = key.replace("-", "_")
        if name in tables:
            found[name] = _knobs(value, tables[name], f"{path}: {name}")
        elif name in kinds:
            found[name] = as_kind(value, kinds[name], f"{path}: {name}")
        else:
            raise unknown_name("setting", key, [*kinds, *tables], f"It stands in {path}.")
    if found.get("data"):
        found.pop("dataset", None)  # of a run's own file: it is named like the data
    return found


def as_kind(value: Any, hint: Any, what: str) -> Any:
    """A value as its type hint has it: whole numbers serve as real ones, lists as tuples, numbers as texts.

    >>> as_kind(3, float, "f: x"), as_kind([1, 2], tuple[int, ...], "f: x")
    (3.0, (1, 2))
    """
    fits = [made for one in _each(hint) if (made := _as_one(value, one)) is not None]
    if value is None and types.NoneType in _each(hint):
        return None
    if not fits:
        told = " or ".join(_words(one) for one in _each(hint) if one is not types.NoneType)
        raise ValueError(f"{what} must be {told}, got {got(value)}.")
    return fits[0]


def hints(cls: type) -> dict[str, Any]:
    """The fields of a dataclass, and the types of their values."""
    found = typing.get_type_hints(cls)
    return {field.name: found[field.name] for field in dataclasses.fields(cls)}


def _content(path: Path) -> dict[str, Any]:
    remedy = "Write NAME = VALUE lines in TOML, with the names of the flags, or give the settings.json of a run."
    if not path.is_file():
        raise FileNotFoundError(2, f"no file of settings at {path}: {remedy}")
    if path.suffix.lower() == ".json":
        found = read_record(path, "file of settings", remedy)
        return BEFORE | found if {"net", "prior", "steps"} <= found.keys() else found  # of a run that had no choice yet
    with reading(path, "file of settings", remedy), open(path, "rb") as file:
        return tomllib.load(file)


def _tables() -> dict[str, type]:
    """Every net, method, prior and course, as its table is called."""
    found: dict[str, type] = {}
    for kind, known in KINDS.items():
        for name, cls in known().items():
            plain = field_name("course", {"course": name}) if kind == "course" else name.replace("-", "_")
            found.setdefault(plain, cls)
            if kind == "prior":  # one that is named like the method has a longer name
                found[f"{plain}_prior"] = cls
    return found


def _knobs(value: Any, cls: type, what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a table of knobs, got {got(value)}: write it under [{what.split(': ')[-1]}].")
    made = flags(cls)
    kinds = {} if made is None else hints(made)
    for key in value:
        if key.replace("-", "_") not in kinds:
            raise unknown_name(f"knob in {what}", key, kinds)
    plain = {key.replace("-", "_"): one for key, one in value.items()}
    return {name: as_kind(one, kinds[name], f"{what}.{name}") for name, one in plain.items()}


def _each(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation allows."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _as_one(value: Any, hint: Any) -> Any:
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
