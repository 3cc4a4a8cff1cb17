"""The columns of a file of data, kept with a run, so that new files of the same kind are read alike."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesprune.core.formats import read_arrays
from bayesprune.core.given import GivenFrame
from bayesprune.core.types import Dataset
from bayesprune.data.tables.columns import Column, check_whole
from bayesprune.data.tables.reading import ARRAYS, check_kind, listed, read_again, take_columns, values_of
from bayesprune.data.tables.target import Target


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
        frame = take_columns(frame, names, where, self.file, "add what is missing, or run anew without it")
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
        check_kind(path)
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
        return read_again(path, self.file, [*texts, *[self.target.name] * self.target.text])

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
