"""`bayesprune methods`: what there is, with its knobs and their defaults."""

from bayesprune import data as data_sets
from bayesprune.cli import presets
from bayesprune.cli.find import KINDS
from bayesprune.cli.knobs import knobs


def methods() -> None:
    """List methods, priors, nets, courses and data sets, with their knobs."""
    parts = [_listed(kind) for kind in ("method", "prior", "net", "course")]
    named = [f"  {name:<15}{made['about']}" for name, made in presets.known().items()]
    parts += ["\n".join(["presets (--preset NAME)", *named]), "\n  ".join(["data sets (--dataset NAME)", *data_sets.names()])]
    parts.append("Your own: a file, --data FILE --target COLUMN; a network, --net MODULE:FUNCTION.")
    parts.append("A knob is a flag of `bayesprune run`, after the name of what has it: --bmr.alpha0 2, --mlp.hidden 100 100.")
    print("\n\n".join(parts))


def _listed(kind: str) -> str:
    lines = [f"{kind}s (--{kind} NAME)"]
    width = max(15, 2 + max(map(len, KINDS[kind]())))
    for name, cls in KINDS[kind]().items():
        known = [f"{knob.name}={_short(knob.default)}" for knob in knobs(cls)]
        about = (cls.__doc__ or "").partition("\n")[0]
        lines += [f"  {name:<{width}}{about}", *[" " * (width + 2) + "  ".join(known)] * bool(known)]
    return "\n".join(lines)


def _short(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
