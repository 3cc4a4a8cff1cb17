"""`bayesprune methods`: what there is, with its knobs and their defaults."""

from bayesprune import data as data_sets
from bayesprune.cli.find import KINDS, one_line
from bayesprune.cli.knobs import knobs
from bayesprune.cli.presets import PRESETS


def methods() -> None:
    """List methods, priors, nets and data sets, with their knobs."""
    parts = [_listed(kind) for kind in ("method", "prior", "net")]
    parts.append("presets (--preset NAME)\n" + "\n".join(f"  {name:<15}{one_line(make)}" for name, make in PRESETS.items()))
    parts.append("data sets (--dataset NAME)\n  " + "\n  ".join(data_sets.names()))
    parts.append(
        "A knob is a flag of `bayesprune run`, after the name of what it belongs to: --bmr.alpha0 2, --mlp.hidden 100 100."
    )
    print("\n\n".join(parts))


def _listed(kind: str) -> str:
    lines = [f"{kind}s (--{kind} NAME)"]
    for name, cls in KINDS[kind]().items():
        known = [f"{knob.name}={_short(knob.default)}" for knob in knobs(cls)]
        lines += [f"  {name:<15}{one_line(cls)}", *[" " * 17 + "  ".join(known)] * bool(known)]
    return "\n".join(lines)


def _short(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
