"""Rows asked for by number: which arrays count as mapped, what is read of them, what memory it takes."""

from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from bayesprune.core.types import Dataset
from bayesprune.train.batches import Rows
from bayesprune.train.sources.by_row import ByRow, Examples, Mapped, shared_mapping

X, Y = np.arange(22.0, dtype=np.float32).reshape(11, 2), np.arange(11)


@pytest.fixture
def file(tmp_path) -> Path:
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


def test_views_of_a_mapped_file_are_known_and_copies_are_not(file) -> None:
    mapped = np.load(file, mmap_mode="r")
    found = [mapped, mapped[2:], np.asarray(mapped).reshape(-1), np.load(file, mmap_mode="r+")]
    others = [X, mapped + 1, mapped.copy(), np.load(file, mmap_mode="c"), [1.0], None]
    assert [shared_mapping(array) is not None for array in found + others] == [True] * 4 + [False] * 6


def test_fewer_rows_than_were_asked_for_are_refused() -> None:
    """One row would be broadcast to the whole minibatch."""

    class Filtered(Pairs):
        def __getitems__(self, rows: list[int]):
            return [self[row] for row in rows if row != 3]

    assert Examples(Filtered()).rows(np.array([1, 2]))[1].tolist() == [1, 2]
    with pytest.raises(ValueError, match="gave 1 rows where 2 were asked of __getitems__"):
        Examples(Filtered()).rows(np.array([3, 2]))


class Pairs:
    """Single rows, as a PyTorch dataset has them."""

    dataset_info = None

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, row: int):
        return X[row], Y[row]


class Pictures(Pairs):
    """Single rows by name, several at once, as a tfds data source has them."""

    dataset_info = SimpleNamespace(supervised_keys=("image", "label"))

    def __getitems__(self, rows: list[int]):
        return [{"image": X[row], "label": Y[row], "name": "a"} for row in rows]


@pytest.mark.parametrize("kind", ["mapped", "pairs", "pictures"])
def test_batches_are_the_rows_of_the_permutation_from_any_number_on(kind: str, file) -> None:
    table = {"mapped": Mapped(np.load(file, mmap_mode="r"), Y), "pairs": Examples(Pairs()), "pictures": Examples(Pictures())}
    source = ByRow.of(table[kind], 4, Dataset)
    key = jax.random.key(2)
    rows = Rows(key, 11, 4)
    for number, item in zip(range(3, 9), islice(source.read(key, 1, 2, None, True), 6), strict=True):
        assert np.array_equal(item.batch.x, X[rows(number)])
        assert np.array_equal(item.batch.y, Y[rows(number)])
    assert source.example.leaves == (((11, 2), np.float32), ((11,), np.int64))


def test_other_data_of_the_same_shape_are_described_otherwise(file, tmp_path) -> None:
    np.save(tmp_path / "z.npy", X + 1)
    one, same, other = (
        ByRow.of(Mapped(np.load(path, mmap_mode="r"), Y), 4, Dataset) for path in (file, file, tmp_path / "z.npy")
    )
    assert one.described() == same.described() != other.described()


def test_rows_of_several_shapes_are_refused() -> None:
    ragged = Examples([(X[0], 0), (X[0, :1], 1)])
    with pytest.raises(ValueError, match=r"rows of several shapes, \(1,\) and \(2,\): pad"):
        ragged.rows(np.arange(2))


def test_rows_as_lists_of_numbers_are_rows() -> None:
    """Also where a batch has as many rows as a row has numbers, and a transposed one would pass."""
    for row in (list, tuple):
        x, y = Examples([{"x": row(X[i].tolist()), "y": int(Y[i])} for i in range(11)]).rows(np.array([4, 7]))
        np.testing.assert_array_equal(x, X[[4, 7]])
        np.testing.assert_array_equal(y, Y[[4, 7]])


def test_pages_that_were_read_are_given_back(tmp_path) -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the kernel does not say what a process holds")
    large = np.memmap(tmp_path / "large", np.uint8, "w+", shape=(2**15, 2**12))  # 128 MB, none of it written
    table = Mapped(large, np.zeros(2**15))
    held = lambda: next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("RssFile"))  # noqa: E731
    before = held()
    for first in range(0, 2**15, 2**10):
        assert not table.rows(np.arange(first, first + 2**10))[0].any()
    assert held() - before < 2**15, "kB: a quarter of the file"
