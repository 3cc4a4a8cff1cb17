"""From the words of `bayesprune run`, its file of settings and its preset, to its settings.

Presets are settings of published experiments, from ``presets.toml``, as defaults; every flag that is given goes before.
"""

import argparse
import contextlib
import dataclasses
import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import tyro

from bayesprune.cli import own_net
from bayesprune.cli.errors import flags_in_one_line
from bayesprune.cli.find import KINDS, choose
from bayesprune.cli.knobs import as_kind, flags, hints, knobs, table
from bayesprune.cli.run_settings import RunSettings, field_name, settings_class
from bayesprune.core.checks import check_name, unknown_name
from bayesprune.core.files import reading
from bayesprune.core.formats import read_record
from bayesprune.prune.keep_all import KeepAll

Values = dict[str, Any]  # field of the settings -> value; for the knobs of one of `find.KINDS`, a dict of those that differ
NO_SETTING = ("about", "like", "epochs", "rows")

DESCRIPTION = """Train a network, prune it on the way, and write metrics.json, posterior.safetensors, history.npz and figures.

The same command goes on where a run was stopped; a finished one only has its figures drawn again. With --dry-run nothing is
written: it says what the run costs in seconds, memory and bytes on disk. The flags of the method, the
prior, the net and the course follow the choice: --method snr --help shows those of snr. A schedule is written as in Python:
--density "Cubic(0.05, 0, 20)" is gradual pruning over twenty prunings."""


def parse(words: Sequence[str]) -> RunSettings:
    """Flags to settings. Which flags there are follows from --net, --method, --prior and --course: these come first."""
    cls, values = class_of(words)
    if given(words, f"{field_name('method', _names(words, values))}.density"):
        values.pop("density", None)  # the flag goes before the file's plain density
    default: Any = _filled(cls, values) if values else tyro.MISSING_NONPROP
    with flags_in_one_line("run"):
        made = tyro.cli(cls, args=list(words), prog="bayesprune run", description=DESCRIPTION, default=default)
    return made if made.density is None else _with_density(made, words)


def class_of(words: Sequence[str]) -> tuple[type[RunSettings], Values]:
    """The settings that a run of these flags has, and their values from a file or a preset."""
    found = given(words, "config", "preset", *KINDS, "steps", "batch_size", "validation", "choose_on", "density")
    for name in ("steps", "batch_size"):
        text = found.pop(name, "")
        if text.isdigit() and int(text):  # what is no number tyro refuses, and 0 the check of all numbers
            found[name] = int(text)
    with contextlib.suppress(ValueError):
        found["validation"] = float(found.pop("validation", ""))
    of_file = in_file(Path(found["config"])) if "config" in found else {}
    if "net" in of_file and "net" not in found:
        own_net.check_named(of_file["net"], None, found["config"])
    preset = of_preset(found.get("preset") or of_file.get("preset"), of_file | found)
    values = _over(preset, of_file)
    return settings_class(**_names(words, values)), values


def _names(words: Sequence[str], values: Values) -> dict[str, str]:
    """The net, the method, the prior and the course that flags, or else ``values``, choose, in their one spelling."""
    found = given(words, *KINDS)
    return {kind: choose(kind, found.get(kind) or values.get(kind) or getattr(RunSettings, kind)).name for kind in KINDS}


def _over(under: Values, values: Values) -> Values:
    """One set of values over another, table by table."""
    tables = {name: under[name] | value for name, value in values.items() if isinstance(value, dict) and name in under}
    return under | values | tables


def given(words: Sequence[str], *names: str) -> dict[str, Any]:
    """Those of the flags that are among the words, by name; either spelling, with hyphens or underscores."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in names:
        finder.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), dest=name)
    try:
        found, _ = finder.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise ValueError(f"{error}. bayesprune run --help shows all flags.") from None
    return {name: value for name, value in vars(found).items() if value is not None}


def _filled(cls: type[RunSettings], preset: Values) -> RunSettings:
    """The settings with a preset's in their place; knobs of what was not chosen are left out."""
    made: Any = cls()
    for name, value in preset.items():
        if isinstance(value, dict):
            value = dataclasses.replace(getattr(made, name), **value) if hasattr(made, name) else None
        made = made if value is None else dataclasses.replace(made, **{name: value})
    return made


def _with_density(made: Any, words: Sequence[str]) -> RunSettings:
    """The plain --density handed on to the method, whose own knob it is.

    Raises `ValueError` for a method without a density, for a text where it takes a number, and beside another --METHOD.density.
    """
    method = choose("method", made.method)
    kinds = {knob.name: knob.kind for knob in knobs(method.cls)}
    if "density" not in kinds:
        able = [name for name, cls in KINDS["method"]().items() if any(knob.name == "density" for knob in knobs(cls))]
        why = "prunes nothing" if method.cls is KeepAll else "has no density to set, it finds its own"
        raise ValueError(
            f"density={made.density}: method {method.name} {why}. Leave --density out, or choose one of {', '.join(able)}."
        )
    density: Any = made.density
    if kinds["density"] is float:
        try:
            density = float(density)
        except ValueError:
            raise ValueError(f"density must be a number for method {method.name}, got {density!r}.") from None
    field = field_name("method", {"method": method.name})
    flag = f"{field}.density"
    own = given(words, flag).get(flag)
    if own is not None and own != made.density and getattr(made, field).density != density:
        raise ValueError(f"density={made.density} and {flag}={own} differ, and are the same setting: leave one of them out.")
    return dataclasses.replace(made, density=None, **{field: dataclasses.replace(getattr(made, field), density=density)})


def in_file(path: Path) -> dict[str, Any]:
    """The settings in a file, TOML or the settings.json of a run, by name, checked.

    The knobs of a net, method, prior or course are a dictionary under its name.

    Tables of those that are not chosen may be there, for a flag may choose them.

    Raises `ValueError` for a name that is no setting, with the nearest ones, and for a value of the wrong kind.
    """
    kinds, tables = {name: hint for name, hint in hints(RunSettings).items() if name != "config"}, _tables()
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


@functools.cache
def presets() -> dict[str, Values]:
    """The presets by name, as the file has them."""
    return tomllib.loads(resources.files("bayesprune.cli").joinpath("presets.toml").read_text(encoding="utf-8"))


def of_preset(name: str | None, given: Mapping[str, Any]) -> Values:
    """A preset's settings, none for None; ``given``: those of "steps", "batch_size", "validation" and "choose_on" that were.

    >>> [of_preset("ssvi-cifar", given)["steps"] for given in ({}, {"batch_size": 256})]
    [70400, 35200]
    >>> of_preset("ssvi-cifar", {"steps": 90})["every"]
    3
    """
    if name is None:
        return {}
    check_name("preset", name, presets())
    of = presets().get(presets()[name].get("like", ""), {}) | presets()[name] | {"preset": name}
    if given.get("choose_on") == "test":  # which takes no rows from the training
        of["validation"] = 0.0
    if 0.0 <= given.get("validation", -1.0) < 1.0:  # another share leaves the epochs as they are; one that is none is refused
        of["validation"] = given["validation"]
    of |= {key: given[key] for key in ("steps", "batch_size") if key in given}
    if "steps" not in of:
        of["steps"] = of["epochs"] * math.ceil(of["rows"] * (1 - of["validation"]) / of["batch_size"])
    of |= {key: min(of[key], -(-of["steps"] // 30)) for key in ("every", "eval_every") if key in of}
    return {key: _frozen(value) for key, value in of.items() if key not in NO_SETTING}


def _frozen(value: object) -> Any:
    """A table's lists as tuples, as settings have them."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in value.items()} if isinstance(value, dict) else value


def _tables() -> dict[str, type]:
    """Every net, method, prior and course, as its table is called."""
    found: dict[str, type] = {}
    for kind, known in KINDS.items():
        for name, cls in known().items():
            plain = field_name(kind, {"method": "", kind: name})
            found.setdefault(plain, cls)
            if kind == "prior":  # one that is named like the method has a longer name
                found[f"{plain}_prior"] = cls
    return found
