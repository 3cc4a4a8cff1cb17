"""The UCI regression sets of Hernández-Lobato & Adams (2015), with the splits that papers share.

Two packagings hold the same arrays. One file ``NAME.npz``: ``data`` (rows, columns), ``index_features``, ``index_target``,
``index_train`` (splits, rows), ``index_test`` (splits, rows). One folder ``NAME`` of text files, as the splits were first
published: data.txt, index_features.txt, index_target.txt, and index_train_0.txt, index_test_0.txt and so on.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from bayesprune.core.files import reading
from bayesprune.core.formats import read_arrays
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue, checksum, locate

TOLD = ("UCI set with splits", "Make it again.")


class UciSet(NamedTuple):
    """One set: all its numbers, which columns are what, and which rows each split trains and tests on."""

    data: Float64[np.ndarray, "rows columns"]
    index_features: Int64[np.ndarray, " features"]
    index_target: Int64[np.ndarray, " outputs"]
    index_train: Int64[np.ndarray, "splits train_rows"]
    index_test: Int64[np.ndarray, "splits test_rows"]


def wanted(name: str) -> str:
    """Which files belong where, in words."""
    stem = name.removeprefix("uci/").replace("_", "-")
    return f"{stem}.npz (arrays {', '.join(UciSet._fields)}) or a folder {stem} of text files (data.txt, ...) in DIR/uci"


def find(root: Path, name: str) -> tuple[Path, ...]:
    """The .npz file or the text folder of a set below ``root``, whatever its spelling; empty where there is none."""
    stem = catalogue.squash(name.removeprefix("uci/"))
    for base in locate.folders(root, ("uci", "uci_datasets")):
        for entry in sorted(base.iterdir()):
            if entry.is_file() and entry.suffix == ".npz" and catalogue.squash(entry.stem) == stem:
                return (entry,)
            for folder in (entry, entry / "data"):
                if catalogue.squash(entry.name) == stem and (folder / "data.txt").is_file():
                    return (folder,)
    return ()


def read_uci(path: Path, name: str, verify: bool = True) -> UciSet:
    """One set from the path of `find`.

    Raises:
        ValueError: unreadable or incomplete, values not finite, columns out of range, splits that do not hold every row
            exactly once, or (with ``verify``) numbers that differ from the published ones where those are known.
    """
    with reading(path, *TOLD):
        arrays = _from_npz(path) if path.suffix == ".npz" else _from_text(path)
        table = UciSet(np.asarray(arrays[0], np.float64), *(_whole(index) for index in arrays[1:]))
        _check(table)
    if verify:
        checksum.require(checksum.md5(content(table)), checksum.UCI.get(name, ""), f"{path} (its arrays)")
    return table


def content(table: UciSet) -> bytes:
    """The numbers of a set as bytes, the same for every packaging: float64, then int64, little-endian, in field order."""
    kinds = ("<f8", "<i8", "<i8", "<i8", "<i8")
    return b"".join(np.ascontiguousarray(array, kind).tobytes() for array, kind in zip(table, kinds, strict=True))


def split(table: UciSet, index: int) -> tuple[Dataset, Dataset]:
    """Train and test part of one split, in raw units, float64; ``y`` is (rows,) where there is one target column."""
    x, y = table.data[:, table.index_features], table.data[:, table.index_target]
    y = y[:, 0] if y.shape[1] == 1 else y
    rows = (table.index_train[index], table.index_test[index])
    return Dataset(x[rows[0]], y[rows[0]]), Dataset(x[rows[1]], y[rows[1]])


def _from_npz(path: Path) -> list[np.ndarray]:
    stored = read_arrays(path, *TOLD, needed=UciSet._fields)
    return [stored[field] for field in UciSet._fields]


def _from_text(folder: Path) -> list[np.ndarray]:
    count = len(list(folder.glob("index_train_*.txt")))
    data = np.loadtxt(folder / "data.txt", ndmin=2)
    columns = [np.loadtxt(folder / f"index_{kind}.txt", ndmin=1) for kind in ("features", "target")]
    rows = [
        np.stack([np.loadtxt(folder / f"index_{part}_{i}.txt", ndmin=1) for i in range(count)]) for part in ("train", "test")
    ]
    return [data, *columns, *rows]


def _whole(index: np.ndarray) -> np.ndarray:
    whole = np.asarray(index).astype(np.int64)
    if not np.array_equal(whole, index):
        raise ValueError("an index is not a whole number")
    return whole


def _check(table: UciSet) -> None:
    rows, columns = table.data.shape if table.data.ndim == 2 else (0, 0)
    if rows == 0 or not np.isfinite(table.data).all():
        raise ValueError(f"data must be finite, of shape (rows, columns), got {table.data.shape}")
    used = np.concatenate([table.index_features.ravel(), table.index_target.ravel()])
    if used.min() < 0 or used.max() >= columns or len(set(used.tolist())) != len(used):
        raise ValueError(f"features and target must be different columns of 0..{columns - 1}, got {used.tolist()}")
    if table.index_train.ndim != 2 or table.index_test.ndim != 2 or len(table.index_train) != len(table.index_test):
        shapes = f"{table.index_train.shape} and {table.index_test.shape}"
        raise ValueError(f"index_train and index_test must have the shape (splits, rows), got {shapes}")
    both = [np.sort(np.concatenate(pair)) for pair in zip(table.index_train, table.index_test, strict=True)]
    for number, seen in enumerate(both):
        if not np.array_equal(seen, np.arange(rows)):
            raise ValueError(f"train and test rows of split {number} must hold each of the {rows} rows exactly once")
