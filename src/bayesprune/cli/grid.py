"""The runs of a sweep: every combination of the varied settings, once for each seed."""

import itertools
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesprune.cli import build, settings
from bayesprune.cli.find import KINDS
from bayesprune.cli.flags import class_of, parse
from bayesprune.cli.knobs import hints
from bayesprune.core.checks import unknown_name

RESERVED = ("seed", "out")  # of a sweep itself


@dataclass(frozen=True)
class PlannedRun:
    """One run: the varied settings, the seed, the flags of the run, and its folder."""

    varied: tuple[tuple[str, str], ...]
    seed: int
    words: tuple[str, ...]
    folder: Path

    @property
    def key(self) -> str:
        """``name=value`` of all that differs between the cells."""
        return " ".join(f"{name}={value}" for name, value in (*self.varied, ("seed", self.seed)))


def grid(vary: Mapping[str, Sequence[str]], seeds: Sequence[int], words: Sequence[str], out: Path) -> list[PlannedRun]:
    """All cells, each checked as a run of its own would be: its flags, and the run that its folder holds.

    Raises `ValueError` for a setting that is varied and given, or that a cell does not have.
    """
    there = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in words if word.startswith("--")}
    for name in (*vary, *RESERVED):
        if name.replace("-", "_") in there:
            why = "the sweep sets it" if name in RESERVED else "it is varied"
            raise ValueError(f"--{name} is among the flags of the run, and {why}: leave it out there.")
    made = [
        _cell(tuple(zip(vary, values, strict=True)), seed, words, out)
        for values in itertools.product(*vary.values())
        for seed in seeds
    ]
    if len({cell.folder for cell in made}) < len(made):
        raise ValueError("two cells of the sweep are the same: give every value, and every seed, once.")
    for cell in made:
        chosen = build.resolve(parse(cell.words))
        build.make_method(chosen)
        settings.check(chosen, cell.folder)
    return made


def _cell(varied: tuple[tuple[str, str], ...], seed: int, words: Sequence[str], out: Path) -> PlannedRun:
    chosen = [word for name, value in varied if name in KINDS for word in (f"--{name}", value)]
    kinds = _kinds(class_of([*words, *chosen])[0])
    flags = [word for name, value in varied for word in _flag(name, value, kinds)]
    named = ",".join(f"{name}={value}" for name, value in (*varied, ("seed", seed)))
    folder = out / re.sub(r"[^\w.=,+-]+", "-", named)
    return PlannedRun(varied, seed, (*words, *flags, "--seed", str(seed), "--out", str(folder)), folder)


def _kinds(cls: type) -> dict[str, Any]:
    """Every setting by the name of its flag, knobs as "bmr.alpha0", with the type of its value."""
    found: dict[str, Any] = {}
    for name, hint in hints(cls).items():
        inner = hints(hint) if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__") else {}
        found |= {f"{name}.{knob}": kind for knob, kind in inner.items()} or {name: hint}
    return found


def _flag(name: str, value: str, kinds: Mapping[str, Any]) -> list[str]:
    """The words that set a setting; of several numbers they are separated by commas."""
    plain = name.replace("-", "_")
    if plain not in kinds:
        raise unknown_name("setting to vary", name, kinds)
    if kinds[plain] is bool:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} is varied over true and false, got {value!r}.")
        return [f"--{name}" if value.lower() == "true" else f"--{'.'.join(_negated(name))}"]
    several = typing.get_origin(kinds[plain]) is tuple
    return [f"--{name}", *(value.split(",") if several else [value])]


def _negated(name: str) -> list[str]:
    *owner, last = name.split(".")
    return [*owner, f"no-{last}"]
