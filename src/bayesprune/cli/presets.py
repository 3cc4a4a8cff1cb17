"""Presets: settings of published experiments, from ``presets.toml``, as defaults; every flag that is given goes before."""

import functools
import math
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from bayesprune.core.checks import check_name

Values = dict[str, Any]  # field of the settings -> value; for the knobs of one of `find.KINDS`, a dict of those that differ
NO_SETTING = ("about", "like", "epochs", "rows")


@functools.cache
def known() -> dict[str, Values]:
    """The presets by name, as the file has them."""
    return tomllib.loads(resources.files("bayesprune.cli").joinpath("presets.toml").read_text(encoding="utf-8"))


def values(name: str | None, given: Mapping[str, Any]) -> Values:
    """A preset's settings, none for None; ``given``: those of "steps", "batch_size", "validation" and "choose_on" that were.

    >>> [values("ssvi-cifar", given)["steps"] for given in ({}, {"batch_size": 256})]
    [70400, 35200]
    >>> values("ssvi-cifar", {"steps": 90})["every"]
    3
    """
    if name is None:
        return {}
    check_name("preset", name, known())
    of = known().get(known()[name].get("like", ""), {}) | known()[name] | {"preset": name}
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
