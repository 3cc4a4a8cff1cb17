"""A user's own file as training and test rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesprune.core.checks import unknown_name
from bayesprune.core.types import Dataset
from bayesprune.data.hold_out import hold_out
from bayesprune.data.scaling import fit_scaling
from bayesprune.data.tables.columns import Column, check_whole, choose, infer
from bayesprune.data.tables.reading import ARRAYS, check_kind, is_declared, read_frame, values_of
from bayesprune.data.tables.schema import Schema, arrays, digest_of, one_column
from bayesprune.data.tables.target import check_column, infer_target

Y = "y"  # the target of arrays


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
    check_kind(path)
    if path.suffix.lower() in ARRAYS:
        if target not in (None, Y) or features or drop or exposure:
            raise ValueError(f"{path} holds arrays without names: leave target, features, drop and exposure out.")
        return _of_arrays(path, kind, test_share, seed)
    frame = read_frame(path)
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
    columns = tuple(infer(name, values_of(frame, name), train, is_declared(frame[name])) for name in names)
    kind = kind or ("classes" if is_declared(frame[target]) else None)
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
