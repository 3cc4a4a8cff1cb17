"""`bayesprune methods`: what there is, with its knobs and their defaults."""

from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from bayesprune import data as data_sets
from bayesprune.cli.find import KINDS, one_line
from bayesprune.cli.knobs import REQUIRED, knobs
from bayesprune.cli.presets import PRESETS
from bayesprune.cli.settings import NET_DEFAULTS


@dataclass(frozen=True)
class Flags:
    """List methods, priors, nets and data sets, with their knobs."""


def main(words: Sequence[str]) -> None:
    """Print the lists."""
    tyro.cli(Flags, args=list(words), prog="bayesprune methods", description=Flags.__doc__)
    parts = [_listed(kind) for kind in ("method", "prior", "net")]
    presets = (f"  {name:<15}{one_line(make)}" for name, make in PRESETS.items())
    parts.append("presets (--preset NAME)\n" + "\n".join(presets))
    parts.append("data sets (--dataset NAME)\n  " + "\n  ".join(data_sets.names()))
    parts.append(
        "A knob is a flag of `bayesprune run`, after the name of what it belongs to: --bmr.alpha0 2, --mlp.hidden 100 100."
    )
    print("\n\n".join(parts))


def _listed(kind: str) -> str:
    lines = [f"{kind}s (--{kind} NAME)"]
    for name, cls in KINDS[kind]().items():
        lines.append(f"  {name:<15}{one_line(cls)}")
        rows = knobs(cls, NET_DEFAULTS.get(name, {}))
        known = [knob.name if knob.default is REQUIRED else f"{knob.name}={_short(knob.default)}" for knob in rows]
        lines.extend([" " * 17 + "  ".join(known)] if known else [])
    return "\n".join(lines)


def _short(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
