"""Rows in their own order, by blocks of any size, as often as wanted; what comes otherwise than before is refused."""

import numpy as np
import pytest

from bayesprune.core.types import Dataset
from bayesprune.train.sources.by_row import Examples, Mapped
from bayesprune.train.sources.in_order import by_batch, by_number

X, Y = np.arange(22.0, dtype=np.float32).reshape(11, 2), np.arange(11, dtype=np.int32)


def check(x, y) -> Dataset:
    return Dataset(np.asarray(x), np.asarray(y))


def batches(size: int = 4):
    for first in range(0, 11, size):
        yield X[first : first + size], Y[first : first + size]


class Rows:
    def __len__(self) -> int:
        return 11

    def __getitem__(self, row: int):
        return X[row], Y[row]


def mapped(tmp_path) -> Mapped:
    np.save(tmp_path / "x.npy", X)
    return Mapped(np.load(tmp_path / "x.npy", mmap_mode="r"), Y)


@pytest.mark.parametrize("kind", ["mapped", "examples", "batches"])
def test_slices_are_those_of_the_array(kind, tmp_path) -> None:
    data = {
        "mapped": lambda: by_number(mapped(tmp_path), check),
        "examples": lambda: by_number(Examples(Rows()), check),
        "batches": lambda: by_batch(batches, check),
    }[kind]()
    assert len(data.x) == 11 and data.x.row_bytes == 8
    np.testing.assert_array_equal(data.y, Y)
    for first, last in ((0, 3), (3, 9), (9, 99), (0, 11), (5, 7), (2, 4), (0, 1), (0, 1)):
        np.testing.assert_array_equal(data.x[first:last], X[first:last])
    np.testing.assert_array_equal(np.asarray(data.x), X)


def test_what_identifies_rows_is_what_they_are() -> None:
    told = [by_batch(make, check).x.described for make in (batches, batches, lambda: ((x, y + 1) for x, y in batches()))]
    assert told[0] == told[1] != told[2]


def test_rows_in_another_order_are_refused() -> None:
    turned = []

    def again():
        turned.append(0)
        return iter([(X, Y)] if len(turned) < 3 else [(X[::-1], Y[::-1])])

    data = by_batch(again, check)
    with pytest.raises(ValueError, match=r"other rows, or in another order.*do not shuffle"):
        data.x[0:4]


def test_targets_that_are_missing_are_the_same_when_they_are_read_again() -> None:
    y = np.where(Y == 2, np.nan, Y).astype(np.float32)
    data = by_batch(lambda: iter([(X, y)]), check)
    np.testing.assert_array_equal(data.x[0:4], X[:4])
    np.testing.assert_array_equal(by_number(Mapped(X, y), check).x[1:5], X[1:5])


def test_fewer_rows_are_refused() -> None:
    counts = [11, 11, 6]
    data = by_batch(lambda: iter([(X[: (n := counts.pop(0))], Y[:n])]), check)
    with pytest.raises(ValueError, match="gave 6 rows, fewer than when the fit began"):
        data.x[0:8]


def test_nothing_to_read_is_refused() -> None:
    with pytest.raises(ValueError, match="eval_data gives no batches"):
        by_batch(lambda: iter([]), check)
