"""Rows in a canonical number of places, so that fits and predictions of nearly as many share what is compiled."""

from typing import Any

import numpy as np

from bayesprune.core.types import Dataset
from bayesprune.sklearn import network
from bayesprune.train.batches import Padded

CHUNK = 125  # predictions are of so many rows, times a power of two


def placed(x: np.ndarray, y: Any, batch_size: int | None, prior: Any) -> Dataset | Padded:
    """The rows to train on, in a canonical number of places where nothing but minibatches depends on how many there are.

    Fits of 440, 441 and 442 rows, as folds are, then share what is compiled.
    """
    places = _room(len(x))
    if batch_size is None or batch_size >= len(x) or places == len(x) or network.counts_rows(prior):
        return Dataset(x, y)
    index = _repeated(len(x), places)
    return Padded(x[index], y[index], len(x))


def _room(num_rows: int) -> int:
    """The number of rows, rounded up to one of eight in each octave: an eighth more at most.

    >>> [_room(rows) for rows in (7, 16, 17, 440, 442, 448, 1000)]
    [7, 16, 18, 448, 448, 448, 1024]
    """
    step = 2 ** max(0, (num_rows - 1).bit_length() - 4)
    return -(-num_rows // step) * step


def filling(num_rows: int) -> np.ndarray:
    """The numbers of rows, the last one again and again up to the canonical number."""
    return _repeated(num_rows, _blocks(num_rows))


def _repeated(num_rows: int, places: int) -> np.ndarray:
    return np.minimum(np.arange(places), num_rows - 1)


def _blocks(num_rows: int) -> int:
    """The number of rows, rounded up to ``CHUNK`` times a power of two."""
    chunks = -(-num_rows // CHUNK)
    return CHUNK * 2 ** (chunks - 1).bit_length()
