"""The rows of a run: a data set by name, or a user's own file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesprune import data as data_sets
from bayesprune.cli import likelihood
from bayesprune.cli.run_settings import RunSettings
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue
from bayesprune.data.hold_out import hold_out
from bayesprune.data.tables import own
from bayesprune.data.tables.own import Schema, load_own

NOTE = "data"  # of the files of a run


class Data(NamedTuple):
    """What is trained on, what the results are of and which part that is; ``target_scale``: one unit of a real y, in raw units.

    ``watched``: what is evaluated on the way, and may choose the step. ``schema``: what a user's own file was found to be.
    """

    train: Dataset
    test: Dataset
    part: str
    target_scale: float
    watched: Dataset
    schema: Schema | None = None

    @property
    def task(self) -> "RowsTask":
        """What a network for these data has to do."""
        shape = self.train.x.shape[1:]
        if self.schema is not None:
            return task_of(self.schema)
        if is_real(self.train):
            return RowsTask(shape, "numbers", 1 if np.ndim(self.train.y) == 1 else np.shape(self.train.y)[1])
        return RowsTask(shape, "classes", int(max(np.max(part.y) for part in (self.train, self.test, self.watched))) + 1)


class RowsTask(NamedTuple):
    """The shape of a row, the kind of its target, and how many classes there are, or targets in a row.

    ``rate``, ``exposure``: of counts, their mean, and whether their exposures are beside them.
    """

    shape: tuple[int, ...]
    kind: str
    size: int
    rate: float | None = None
    exposure: bool = False


def task_of(schema: Schema) -> RowsTask:
    """What a network for such a file has to do."""
    target = schema.target
    return RowsTask(schema.shape, target.kind, len(target.classes) or 1, target.rate, bool(target.exposure))


def load_data(settings: RunSettings) -> Data:
    """The data set, or the user's own file, cut where part of the training rows is kept back."""
    train, test, unit, schema = _own(settings) if settings.data else _named(settings)
    if not settings.validation:
        return Data(train, test, "test", unit, test, schema)
    fitted, held = hold_out(train, settings.validation)
    judged, part = (test, "test") if settings.choose == "best" else (held, "validation")
    return Data(fitted, judged, part, unit, held, schema)


def watched(data: Data) -> str:
    """The rows that are evaluated on the way, in words."""
    part = "test" if data.watched is data.test and data.part == "test" else "validation"
    return f"the {part} set ({len(data.watched.y):,} rows)"


def _own(settings: RunSettings) -> tuple[Dataset, Dataset, float, Schema]:
    assert settings.data
    kind = likelihood.kind_of(settings.likelihood)
    chosen: dict[str, Any] = {name: getattr(settings, name) for name in ("features", "drop", "exposure", "test_share")}
    found = load_own(Path(settings.data), settings.target, kind=kind, seed=settings.split, **chosen)
    if settings.likelihood == "ordinal" and not found.schema.target.ordered:
        raise ValueError(
            f"likelihood=ordinal needs classes in order, and those of {found.schema.target.name!r} are texts: number them."
        )
    return found.train, found.test, found.schema.target.scale, found.schema


def _named(settings: RunSettings) -> tuple[Dataset, Dataset, float, None]:
    simulated = settings.dataset in catalogue.SIMULATIONS
    options: dict[str, Any] = {"split": settings.split, "pad": settings.pad, "seed": settings.seed if simulated else 0}
    train, test = data_sets.load(settings.dataset, settings.data_dir, **options)
    unit = 1.0
    if is_real(train):
        raw, _ = data_sets.load(settings.dataset, settings.data_dir, standardise=False, **options)
        unit = float(np.std(raw.y) / np.std(train.y))
    return train, test, unit, None


def described(data: Data, settings: RunSettings) -> str:
    """What a user's own file was found to be, and what follows for the likelihood."""
    assert data.schema is not None
    kind = data.schema.target.kind
    name = likelihood.chosen(settings.likelihood, kind)
    others = [likelihood.names(other)[0] for other in likelihood.KINDS if other in data.schema.target.others]
    open_to_choice = settings.likelihood == likelihood.AUTO and others
    how = f" (other readings of the target: --likelihood {' or '.join(others)})" if open_to_choice else ""
    return f"{own.described(data.schema, (len(data.train.y), len(data.test.y)))}\n  likelihood: {name}{how}"


def notes(data: Data) -> dict[str, Any]:
    """What the files of a run say of a user's own file; nothing of a data set by name."""
    return {} if data.schema is None else {NOTE: own.to_json(data.schema)}


def schema_in(found: Mapping[str, Any]) -> Schema | None:
    """The schema among the notes of a run's file; None where the run is of a data set by name."""
    return own.from_json(found[NOTE]) if found.get(NOTE) else None


def check_noted(path: str | None, found: Mapping[str, Any]) -> None:
    """Refuse a file of data that a run's settings name, and its other files do not know: it may be any file of the reader's."""
    if path and schema_in(found) is None:
        raise ValueError(
            f"the settings of the run name the file {path}, and its other files know of none: run anew with --data."
        )


def check_unchanged(path: str, found: Mapping[str, Any]) -> None:
    """Refuse a user's own file that is not what it was when the run was made."""
    check_noted(path, found)
    then = schema_in(found)
    if then is not None and not (Path(path).is_file() and own.digest_of(Path(path)) == then.digest):
        raise ValueError(
            f"{path} has changed, or gone, since this run was made: put the file of then back, judge on other rows with "
            "bayesprune evaluate --data FILE, or run anew with another --out."
        )


def is_real(data: Dataset) -> bool:
    """Whether the targets are real numbers rather than class labels."""
    return np.issubdtype(np.asarray(data.y).dtype, np.floating)


def chosen_by(data: Data) -> str:
    """The figure by which one step is better than another."""
    return "nll" if is_real(data.train) else "accuracy"
