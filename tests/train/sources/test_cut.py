"""Batches cut anew: every row in its order, once, and a place from which the same rows follow."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprune.core.types import Dataset
from bayesprune.train.sources.source import Incoming, rebatched


def incoming(sizes: list[int], first: int = 0):
    """Batches of those sizes; rows are numbered through, and places are the numbers of batches."""
    ends = np.cumsum(sizes)
    for number in range(first, len(sizes)):
        rows = np.arange(ends[number] - sizes[number], ends[number])
        yield Incoming(Dataset(rows[:, None], rows), number, number + 1)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(1, 9))
def test_rows_are_cut_in_their_order_and_every_place_goes_on_with_the_next(sizes: list[int], size: int) -> None:
    whole = list(rebatched(incoming(sizes), size))
    assert [row for batch, _ in whole for row in batch.y] == list(range(sum(sizes) // size * size))
    assert all(batch.x.shape == (size, 1) and (batch.x[:, 0] == batch.y).all() for batch, _ in whole)
    for number, (_, place) in enumerate(whole):
        again = list(rebatched(incoming(sizes, place.at), size, place.used))
        assert [batch.y.tolist() for batch, _ in again] == [batch.y.tolist() for batch, _ in whole[number + 1 :]]


@pytest.mark.parametrize("size", [3])
def test_batches_of_the_right_size_are_not_copied(size: int) -> None:
    given = list(incoming([size] * 3))
    assert [batch is one.batch for (batch, _), one in zip(islice(rebatched(given, size), 3), given, strict=True)] == [False] * 3
    assert all(np.shares_memory(batch.x, one.batch.x) for (batch, _), one in zip(rebatched(given, size), given, strict=True))
