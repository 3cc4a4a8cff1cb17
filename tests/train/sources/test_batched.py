"""Batches of others: epoch after epoch, read on from where they stood, with the same rows or not at all."""

import random
import warnings
from itertools import islice

import grain
import numpy as np
import pytest

from bayesprune.core.types import Dataset
from bayesprune.train.sources.batched import Batched

ROWS, SIZE = 23, 4
X, Y = np.arange(2.0 * ROWS, dtype=np.float32).reshape(ROWS, 2), np.arange(ROWS, dtype=np.int32)


def plain(x, y) -> Dataset:
    return Dataset(np.asarray(x), np.asarray(y))


class Loader:
    """A loader as PyTorch's: another order each epoch, of a generator of its own, the last batch smaller."""

    def __init__(self, seed: int | None) -> None:
        self.random = random.Random(seed)

    def __iter__(self):
        order = self.random.sample(range(ROWS), ROWS)
        return ([X[order[first : first + 5]], Y[order[first : first + 5]]] for first in range(0, ROWS, 5))


def listed():
    return [(X[first : first + 5], Y[first : first + 5]) for first in range(0, ROWS, 5)]


def grain_map():
    rows = grain.MapDataset.source(np.arange(ROWS)).seed(7).shuffle().map(lambda row: (X[row], Y[row]))
    return rows.repeat(None, reseed_each_epoch=True).batch(5)


def grain_epochs():
    return grain.MapDataset.source(np.arange(ROWS)).shuffle(seed=7).map(lambda row: {"x": X[row], "y": Y[row]}).batch(5)


def grain_iter():
    return grain_epochs().to_iter_dataset()


def grain_loader():
    sampler = grain.samplers.IndexSampler(ROWS, shuffle=True, seed=3, num_epochs=1)
    batch = grain.transforms.Batch(5, drop_remainder=False)
    return grain.DataLoader(data_source=list(zip(X, Y, strict=True)), sampler=sampler, operations=[batch])


SOURCES = {
    "list": listed, "seeded loader": lambda: Loader(3), "function": lambda: listed, "grain map": grain_map,
    "grain epochs": grain_epochs, "grain iter": grain_iter, "grain loader": grain_loader,
}  # fmt: skip


def source(make, size: int | None = SIZE) -> Batched:
    data = make()
    return Batched.of((lambda: iter(data())) if callable(data) else (lambda: iter(data)), ROWS, size, plain)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", SOURCES)
def test_reading_goes_on_with_the_same_batches_from_any_place(name: str) -> None:
    whole = list(islice(source(SOURCES[name]).read(None, 0, 0, None, True), 13))
    assert whole[0].after is not None
    for number in (1, 5, 6, 11):  # within an epoch, at its end and after it, of 5.75 minibatches each
        again = islice(source(SOURCES[name]).read(None, number, 0, whole[number - 1].after, True), 13 - number)
        for one, other in zip(again, whole[number:], strict=True):
            assert one.after == other.after
            assert all(np.array_equal(a, b) for a, b in zip(one.batch, other.batch, strict=True))


@pytest.mark.parametrize("name", SOURCES)
def test_every_row_comes_once_an_epoch_however_the_batches_are_cut(name: str) -> None:
    read = list(islice(source(SOURCES[name]).read(None, 0, 0, None, False), ROWS))
    rows = np.concatenate([item.batch.y for item in read])
    assert all(sorted(rows[e * ROWS : (e + 1) * ROWS]) == list(range(ROWS)) for e in range(SIZE))
    assert all(np.array_equal(item.batch.x, X[item.batch.y]) for item in read)


def test_what_gives_other_batches_than_before_is_refused() -> None:
    state = list(islice(source(lambda: Loader(None)).read(None, 0, 0, None, True), 3))[-1].after
    with pytest.raises(ValueError, match=r"other batches than before it was interrupted.*seed what shuffles"):
        next(source(lambda: Loader(None)).read(None, 3, 0, state, True))


def test_the_size_is_that_of_the_first_batch_where_none_is_asked_for() -> None:
    found = source(listed, None)
    assert found.batch_size == 5
    assert found.example.leaves[0] == ((ROWS, 2), np.float32)
    assert [len(item.batch.y) for item in islice(found.read(None, 0, 0, None, False), 7)] == [5] * 7


def test_what_ends_for_good_or_changes_is_refused() -> None:
    once, calls = iter(listed()), iter([iter(listed()), iter(listed()), iter([])])
    with pytest.raises(ValueError, match=r"same iterator at every call, and its first batch was read"):
        next(Batched.of(lambda: once, ROWS - 5, 5, plain).read(None, 0, 0, None, False))
    with pytest.raises(ValueError, match=r"no batches in epoch 2: it can be read only once"):
        list(islice(Batched.of(lambda: next(calls), ROWS, 5, plain).read(None, 0, 0, None, False), 9))
    with pytest.raises(ValueError, match="data gives no batches"):
        Batched.of(lambda: iter([]), ROWS, 5, plain)
    mixed = [(X[:5], Y[:5]), (X[:5, :1], Y[:5])]
    with pytest.raises(ValueError, match=r"data.x had rows of shape \(2,\), float32, and now of \(1,\), float32.*pad"):
        list(islice(source(lambda: mixed, 5).read(None, 0, 0, None, False), 2))
    with pytest.raises(TypeError, match=r"got dict with keys image, label: map each to a pair"):
        source(lambda: [{"image": X, "label": Y}])


def test_rows_that_are_not_those_that_were_said_are_told() -> None:
    with pytest.warns(UserWarning, match="first epoch of data had 23 rows, and num_rows=40"):
        list(islice(Batched.of(lambda: iter(listed()), 40, 5, plain).read(None, 0, 0, None, False), 5))
    with pytest.warns(UserWarning, match="first epoch of data had 23 rows, and num_rows=21"):  # more, by less than a batch
        list(islice(Batched.of(lambda: iter(listed()), 21, 5, plain).read(None, 0, 0, None, False), 5))
    full = [(X[:5], Y[:5])] * 5  # a last batch that was filled up with rows of others
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(islice(Batched.of(lambda: iter(full), 23, 5, plain).read(None, 0, 0, None, False), 6))
