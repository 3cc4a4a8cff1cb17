"""`bayesprune methods`: what there is, with its knobs and their defaults."""

from bayesprune import data as data_sets
from bayesprune.cli.find import KINDS, methods_of
from bayesprune.cli.flags import presets
from bayesprune.cli.knobs import knobs


def methods() -> None:
    """List methods, priors, nets, courses and data sets, with their knobs."""
    parts = [_listed(f"{kind}s (--{kind} NAME)", KINDS[kind]()) for kind in ("method", "prior", "net", "course")]
    parts.insert(1, _listed("methods of samplers (in Python: bp.fit_sgmcmc)", methods_of(sampled=True)))
    named = [f"  {name:<15}{made['about']}" for name, made in presets().items()]
    parts += ["\n".join(["presets (--preset NAME)", *named]), "\n  ".join(["data sets (--dataset NAME)", *data_sets.names()])]
    parts.append("Your own: a file, --data FILE --target COLUMN; a network, --net MODULE:FUNCTION.")
    parts.append("A knob is a flag of `bayesprune run`, after the name of what has it: --bmr.alpha0 2, --mlp.hidden 100 100.")
    print("\n\n".join(parts))


def _listed(title: str, classes: dict[str, type]) -> str:
    lines = [title]
    width = max(15, 2 + max(map(len, classes)))
    for name, cls in classes.items():
        known = [f"{knob.name}={_short(knob.default)}" for knob in knobs(cls)]
        about = (cls.__doc__ or "").partition("\n")[0]
        lines += [f"  {name:<{width}}{about}", *[" " * (width + 2) + "  ".join(known)] * bool(known)]
    return "\n".join(lines)


def _short(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
