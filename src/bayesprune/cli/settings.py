"""``settings.json``, the settings of a run in its folder: written, compared when the run goes on, and read back."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bayesprune.cli import course, fitted, own_net
from bayesprune.cli.find import KINDS
from bayesprune.cli.knobs import as_kind, hints, table
from bayesprune.cli.run_settings import RunSettings, check_values, settings_class
from bayesprune.core.checks import check_name
from bayesprune.core.formats import jsonable, read_record, write_record
from bayesprune.train.checkpoints import check_same_settings

FILE = "settings.json"
# Where things lie does not change what a run is; the rest has to agree when one goes on.
FREE = ("out", "data_dir", "config", "log")
PLACES = ("data",)  # kept, to be found again; the rows themselves have to agree
GONE = ("density",)  # by then in the method's own knobs


def to_json(settings: RunSettings) -> dict[str, Any]:
    """All that has to agree when a run goes on, in JSON's types."""
    return jsonable({name: value for name, value in dataclasses.asdict(settings).items() if name not in FREE + GONE})


def claim(settings: RunSettings, folder: Path) -> None:
    """Write ``settings.json``, having checked that the folder's own, if there is one, says the same but for fewer steps.

    Raises as `check` does, and `OSError` for a folder that cannot be written to.
    """
    path = folder / FILE
    check(settings, folder)
    if not path.is_file() or _read(path)["steps"] < settings.steps:
        write_record(path, to_json(settings))


def check(settings: RunSettings, folder: Path) -> None:
    """Check that the folder holds no run, this very one, or one of fewer steps that may go on to these.

    Raises `ValueError` naming every setting that differs.
    """
    fitted.refuse(folder)
    path = folder / FILE
    if not path.is_file():
        return
    before, now = _read(path) | {name: getattr(settings, name) for name in PLACES}, to_json(settings)
    if (steps := before["steps"]) < settings.steps:
        before["steps"] = settings.steps
    check_same_settings(before, now, folder)
    if steps < settings.steps and (over := course.laid_out(settings)):
        raise ValueError(
            f"{folder} holds a run of {steps} steps with {over}, which is laid out over its steps: it cannot be lengthened. "
            "Give another --out; a run with --course plain can be, where no --schedule or --kl-warmup is laid out."
        )


def periods(folder: Path, names: Iterable[str], steps: int) -> dict[str, int]:
    """What the run in a folder has of the settings ``names``; nothing where there is none, or one that is beyond ``steps``."""
    path = folder / FILE
    found = _read(path) if path.is_file() else {"steps": steps + 1}
    return {name: found[name] for name in names if name in found and found["steps"] <= steps}


def load(folder: Path, net: str | None = None, **free: Any) -> RunSettings:
    """The settings of the run in ``folder``; ``free``: those of `FREE`, which no folder has.

    ``net``: its network, named again: of the user's own it is code, which a folder alone does not get to run.

    Raises `FileNotFoundError` where there is no run, `ValueError` for settings that this release does not know, and for a
    network of the user's own that ``net`` does not name.
    """
    fitted.refuse(folder)
    path = folder / FILE
    if not path.is_file():
        raise FileNotFoundError(2, f"no run in {folder}: it has no {FILE}. Make one with bayesprune run --out {folder}")
    values = _read(path)
    chosen = {kind: as_kind(values[kind], str, f"{path}: {kind}") for kind in KINDS}
    own_net.check_named(chosen["net"], net, f"the run in {folder}")
    cls = settings_class(**chosen)
    kinds = {name: hint for name, hint in hints(cls).items() if name not in FREE}
    try:
        made = cls(**{name: _as_setting(name, value, kinds) for name, value in values.items() if name not in GONE}, **free)
        check_values(made)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not fit this release of bayesprune ({error}): run it again in another folder."
        ) from error
    return made


def _as_setting(name: str, value: object, kinds: Mapping[str, Any]) -> Any:
    check_name("setting", name, kinds)
    if dataclasses.is_dataclass(kind := kinds[name]) and isinstance(kind, type):
        return kind(**table(value, kind, name))
    return as_kind(value, kind, name)


def _read(path: Path) -> dict[str, Any]:
    remedy = "Delete it, and give the same bayesprune run command again: it goes on from its checkpoints."
    return read_record(path, "file of settings", remedy, needed=(*KINDS, "steps"))
