"""A user's own file as training and test rows, and its columns, kept with a run, so that new files are read as that one was."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesprune.core.checks import unknown_name
from bayesprune.core.formats import read_arrays
from bayesprune.core.given import GivenFrame
from bayesprune.core.types import Dataset
from bayesprune.data.hold_out import hold_out
from bayesprune.data.scaling import fit_scaling
from bayesprune.data.tables import reading
from bayesprune.data.tables.columns import Column, check_whole, choose, infer
from bayesprune.data.tables.reading import ARRAYS, listed, values_of
from bayesprune.data.tables.target import Target, check_column, infer_target

Y = "y"  # the target of arrays


@dataclass(frozen=True)
class Schema:
    """The columns of a table, or the channels (last axis) of the array x, with what is predicted.

    ``shape``: of one row as the network takes it; ``named``: whether the columns are a table's; ``digest``: of the file.
    """

    file: str
    digest: str
    named: bool
    shape: tuple[int, ...]
    columns: tuple[Column, ...]
    target: Target

    @property
    def used(self) -> list[Column]:
        """The columns that make inputs."""
        return [column for column in self.columns if column.width]

    def frame_inputs(self, frame: GivenFrame, where: str) -> np.ndarray:
        """(rows, inputs) float32 of a table with these columns, in any order, among others."""
        names = [column.name for column in self.used]
        frame = reading.take_columns(frame, names, where, self.file, "add what is missing, or run anew without it")
        check_whole(frame, names, "run anew without these columns")
        return np.concatenate([column.encode(values_of(frame, column.name), where) for column in self.used], axis=1)

    def array_inputs(self, x: np.ndarray, where: str) -> np.ndarray:
        """(rows, ...) float32 of an array of such rows."""
        x = np.asarray(x)
        if x.shape[1:] != self.shape:
            raise ValueError(f"x of {where} has rows of shape {x.shape[1:]}, and the network takes {self.shape}.")
        if x.dtype.kind not in "biuf" or not np.isfinite(x).all():
            raise ValueError(f"x of {where} must hold finite numbers.")
        loc, scale = (np.array([getattr(column, name) for column in self.columns]) for name in ("loc", "scale"))
        return ((x - loc) / scale).astype(np.float32)

    def rows(self, path: Path) -> np.ndarray:
        """The inputs of a new file, which needs no target."""
        if self.named:
            return self.frame_inputs(self._frame(path), str(path))
        reading.check_kind(path)
        return self.array_inputs(self._array(path, "x"), str(path))

    def dataset(self, path: Path) -> Dataset:
        """The inputs and targets of a new file."""
        x = self.rows(path)
        if not self.named:
            return Dataset(x, self.target.encode(one_column(self._array(path, "y"), path), str(path)))
        frame = self._frame(path)
        needed = {self.target.name: "the target"} | ({self.target.exposure: "the exposure"} if self.target.exposure else {})
        for name, role in needed.items():
            if name not in frame.columns:
                raise ValueError(f"{path} lacks {name}, {role}: add it, or predict these rows, which needs no target.")
        check_whole(frame, list(needed), "predict them, which needs no target")
        values, *exposures = (values_of(frame, name) for name in needed)
        return Dataset(x, self.target.encode(values, str(path), *exposures))

    def _frame(self, path: Path) -> Any:
        texts = [column.name for column in self.columns if column.kind == "category"]
        return reading.read_again(path, self.file, [*texts, *[self.target.name] * self.target.text])

    def _array(self, path: Path, name: str) -> np.ndarray:
        if path.suffix.lower() not in ARRAYS:
            raise ValueError(
                f"{path} is a table, and the network was trained on the arrays of {self.file}: give an .npz file with an array "
                f"{name}."
            )
        return arrays(path, (name,))[name]


def from_json(content: Mapping[str, Any]) -> Schema:
    """A schema as `core.formats.jsonable` wrote it."""
    columns = [Column(**one | {"categories": tuple(one["categories"])}) for one in content["columns"]]
    target = target_from_json(content["target"])
    return Schema(**dict(content) | {"columns": tuple(columns), "target": target, "shape": tuple(content["shape"])})


def target_from_json(content: Mapping[str, Any]) -> Target:
    """A target as `core.formats.jsonable` wrote it."""
    return Target(**dict(content) | {name: tuple(content.get(name, ())) for name in ("classes", "others")})


def to_json(schema: Schema) -> dict[str, Any]:
    """What `from_json` reads back."""
    return dataclasses.asdict(schema)


def described(schema: Schema, rows: Sequence[int]) -> str:
    """What was found, in a few lines; ``rows``: to train on, and to judge on."""
    of = {kind: [c for c in schema.columns if c.kind == kind] for kind in ("number", "category", "constant")}
    target = schema.target
    lines = [f"{schema.file}: {rows[0]:,} rows to train on, {rows[1]:,} to judge on"]
    if schema.named:
        lines += [f"  numbers, standardised: {listed([c.name for c in of['number']])}"] * bool(of["number"])
        categories = [f"{c.name} ({listed(c.categories, 4)})" for c in of["category"]]
        lines += [f"  categories, an input for each value: {listed(categories)}"] * bool(categories)
        lines += [f"  constant, left out: {listed([c.name for c in of['constant']])}"] * bool(of["constant"])
    else:
        lines.append(f"  x: rows of shape {schema.shape}, standardised along the last axis")
    classes = f": {listed(target.classes)}" if target.classes else {"numbers": ", standardised"}.get(target.kind, "")
    over = f", {target.exposure} being their exposure" if target.exposure else ""
    return "\n".join([*lines, f"  target {target.name}: {target.kind}{classes}{over}"])


def digest_of(path: Path) -> str:
    """A checksum of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def one_column(y: np.ndarray, path: Path) -> np.ndarray:
    """Targets of shape (rows,) from these, or from (rows, 1)."""
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y of {path} has {y.shape[1]} columns, and a run predicts one: save one of them as y (of one-hot classes "
            "y.argmax(1)), or fit all at once in Python, by bp.fit_svi."
        )
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def arrays(path: Path, wanted: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, those ``wanted`` among them."""
    return read_arrays(path, "file of arrays", f"Write it by numpy.savez with {' and '.join(wanted)}.", wanted)


class OwnTable(NamedTuple):
    """Rows to train on and to judge on, as the network takes them, and what the file was found to be."""

    train: Dataset
    test: Dataset
    schema: Schema


def load_own(
    path: Path,
    target: str | None,
    *,
    kind: str | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    exposure: str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
) -> OwnTable:
    """The rows of a csv, tsv, parquet or npz file; scaled by the training rows alone.

    Args:
        path: a table with named columns, or an .npz file with arrays x and y, and perhaps x_test and y_test.
        target: the column to predict; of arrays it is y.
        kind: what the target is, of `target.KINDS`; None: as its values look.
        features, drop: columns to take as inputs, or to leave out.
        exposure: the column that says over how much the counts of each row were taken, which is no input then.
        test_share: of the rows, held back to judge on.
        seed: draws them.

    Raises:
        ValueError: anything in the file that cannot be trained on, by name, with the remedy.
        FileNotFoundError: no such file.
    """
    reading.check_kind(path)
    if path.suffix.lower() in ARRAYS:
        if target not in (None, Y) or features or drop or exposure:
            raise ValueError(f"{path} holds arrays without names: leave target, features, drop and exposure out.")
        return _of_arrays(path, kind, test_share, seed)
    frame = reading.read_frame(path)
    if target is None or target not in frame.columns:
        raise no_target(path, target, list(frame.columns))
    over = [] if exposure is None else [exposure]
    for name in over:
        check_column(name, target, tuple(features), kind)
        if name not in frame.columns:
            raise unknown_name("column", name, list(frame.columns), f"It was to be the exposure of {path}.")
    names = [name for name in choose(list(frame.columns), target, features, drop) if name not in over]
    check_whole(frame, [target, *over])
    check_whole(frame, names, "leave columns out (drop)")
    train, test = parts(len(frame), test_share, seed)
    columns = tuple(infer(name, values_of(frame, name), train, reading.is_declared(frame[name])) for name in names)
    kind = kind or ("classes" if reading.is_declared(frame[target]) else None)
    exposures = None if exposure is None else values_of(frame, exposure)
    predicted = infer_target(target, values_of(frame, target), train, kind, exposure or "", exposures)
    width = sum(column.width for column in columns)
    if not width:
        raise ValueError(f"every column of {path} is constant: there is nothing to predict {target!r} from.")
    schema = Schema(path.name, digest_of(path), True, (width,), columns, predicted)
    x, y = schema.frame_inputs(frame, str(path)), predicted.encode(values_of(frame, target), str(path), exposures)
    return OwnTable(Dataset(x[train], y[train]), Dataset(x[test], y[test]), schema)


def _of_arrays(path: Path, kind: str | None, share: float, seed: int) -> OwnTable:
    found = arrays(path, ("x", "y"))
    found |= {name: one_column(found[name], path) for name in ("y", "y_test") if name in found}
    x, y, rows = found["x"], found["y"], len(found["x"])
    if x.ndim < 2 or x.dtype.kind not in "biuf" or y.ndim != 1 or len(y) != rows or not rows:
        raise ValueError(
            f"{path} must hold numbers x (rows, ...) and y (rows,), got x {x.shape} of {x.dtype} and y {y.shape}: reshape them."
        )
    if ("x_test" in found) != ("y_test" in found):
        raise ValueError(f"{path} has one of x_test and y_test: give both, or neither.")
    train, test = parts(rows, share, seed)
    if "x_test" in found:
        train, test = np.arange(rows), rows + np.arange(len(found["x_test"]))
        if found["x_test"].shape[1:] != x.shape[1:] or len(found["x_test"]) != len(found["y_test"]):
            raise ValueError(
                f"{path}: x_test {found['x_test'].shape} and y_test {found['y_test'].shape} do not go with x {x.shape}."
            )
        x, y = np.concatenate([x, found["x_test"]]), np.concatenate([y, found["y_test"]])
    predicted = infer_target(Y, y, train, kind)
    scaling = fit_scaling(x[train].reshape(-1, x.shape[-1]))
    channels = zip(np.asarray(scaling.loc).tolist(), np.asarray(scaling.scale).tolist(), strict=True)
    columns = tuple(Column(str(place), "number", (), loc, scale) for place, (loc, scale) in enumerate(channels))
    schema = Schema(path.name, digest_of(path), False, x.shape[1:], columns, predicted)
    made, labels = schema.array_inputs(x, str(path)), predicted.encode(y, str(path))
    return OwnTable(Dataset(made[train], labels[train]), Dataset(made[test], labels[test]), schema)


def parts(rows: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to train on, and of those to judge on."""
    order = np.arange(rows)
    parts = hold_out(Dataset(order, order), share, seed)
    return tuple(np.asarray(part.x) for part in parts)  # type: ignore[return-value]


def no_target(path: Path, target: str | None, names: list[str]) -> ValueError:
    """The error where the column to predict is none of the file's."""
    if target is None:
        return ValueError(f"target is needed: which column of {path} is to be predicted? It has {', '.join(names)}.")
    return unknown_name("column", target, names, f"It was to be the target of {path}.")
