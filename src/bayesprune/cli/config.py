"""A file of settings for `bayesprune run`: TOML, or the settings.json of a run; names as those of the flags."""

import tomllib
from pathlib import Path
from typing import Any

from bayesprune.cli.find import KINDS
from bayesprune.cli.knobs import as_kind, flags, hints, table
from bayesprune.cli.settings import RunSettings, field_name
from bayesprune.core.checks import unknown_name
from bayesprune.core.files import reading
from bayesprune.core.formats import read_record

NOT_THERE = ("config",)  # names another file


def values(path: Path) -> dict[str, Any]:
    """The settings in a file by name, checked; the knobs of a net, method, prior or course are a dictionary under its name.

    Tables of those that are not chosen may be there, for a flag may choose them.

    Raises `ValueError` for a name that is no setting, with the nearest ones, and for a value of the wrong kind.
    """
    kinds, tables = {name: hint for name, hint in hints(RunSettings).items() if name not in NOT_THERE}, _tables()
    found: dict[str, Any] = {}
    for key, value in _content(path).items():
        name = key.replace("-", "_")
        if name in tables:
            found[name] = table(value, flags(tables[name]), f"{path}: {name}")
        elif name in kinds:
            found[name] = as_kind(value, kinds[name], f"{path}: {name}")
        else:
            raise unknown_name("setting", key, [*kinds, *tables], f"It is in {path}.")
    if found.get("data"):
        found.pop("dataset", None)  # of a run's own file: it is named like the data
    return found


def _content(path: Path) -> dict[str, Any]:
    remedy = "Write NAME = VALUE lines in TOML, with the names of the flags, or give the settings.json of a run."
    if not path.is_file():
        raise FileNotFoundError(2, f"no file of settings at {path}: {remedy}")
    if path.suffix.lower() == ".json":
        return read_record(path, "file of settings", remedy)
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
