"""Rows in a canonical number of places, so that fits and predictions of nearly as many share what is compiled."""

from typing import NamedTuple

import jax
import numpy as np

from bayesprune.core.send import send
from bayesprune.core.types import Dataset
from bayesprune.infer.data import check_batch, check_program_data
from bayesprune.model.program import Trainable
from bayesprune.sklearn import network
from bayesprune.train.batches import Padded
from bayesprune.train.feed import WholeFeed

BLOCK = 500  # rows of a prediction at once: one program for the rows that are trained on, those held out, and new ones
LARGEST = 8_000  # the same where there are more than eight such blocks


class Filled(NamedTuple):
    """Rows in more places than there are: the first ``num_rows`` are the data; see `train.batches.Padded`."""

    x: np.ndarray
    y: np.ndarray
    num_rows: int

    def feed(self, program: Trainable, batch_size: int | None, mesh: jax.sharding.Mesh | None) -> tuple[WholeFeed, int]:
        """What feeds the loop, and the rows of a batch: see `infer.data.OwnFeed`."""
        places = check_program_data(program, Dataset(self.x, self.y), "data")
        batch = check_batch(batch_size, self.num_rows)
        if batch == self.num_rows or self.num_rows > len(places.y) or mesh is not None:
            raise ValueError(
                f"{self.num_rows} rows in {len(places.y)} places are drawn by minibatches of fewer rows, on one device: give "
                "them as bp.Dataset(x, y)."
            )
        return WholeFeed(Padded(*places, send(self.num_rows, np.int32))), batch


def placed(x: np.ndarray, y: np.ndarray, batch_size: int | None, prior: object, like: int = 0) -> Dataset | Filled:
    """The rows to train on, in a canonical number of places where nothing but minibatches depends on how many there are.

    Fits of 440, 441 and 442 rows, as folds are, then share what is compiled; and with those of ``like`` rows, where these are
    more.
    """
    places = _room(max(len(x), like))
    if batch_size is None or batch_size >= len(x) or places == len(x) or network.counts_rows(prior):
        return Dataset(x, y)
    index = repeated(len(x), places)
    return Filled(x[index], y[index], len(x))


def _room(num_rows: int) -> int:
    """The number of rows, rounded up to one of eight in each octave: an eighth more at most.

    >>> [_room(rows) for rows in (7, 16, 17, 440, 442, 448, 1000)]
    [7, 16, 18, 448, 448, 448, 1024]
    """
    step = 2 ** max(0, (num_rows - 1).bit_length() - 4)
    return -(-num_rows // step) * step


def filling(num_rows: int) -> np.ndarray:
    """The numbers of rows, the last one again and again up to the canonical number: ``BLOCK`` times a power of two.

    >>> [len(filling(rows)) for rows in (1, 500, 1001)]
    [500, 500, 2000]
    """
    return repeated(num_rows, BLOCK * 2 ** (-(-num_rows // BLOCK) - 1).bit_length())


def at_once(num_rows: int) -> int:
    """Rows of each block of a prediction of so many.

    >>> at_once(1), at_once(4000), at_once(4001)
    (500, 500, 8000)
    """
    return BLOCK if num_rows <= 8 * BLOCK else LARGEST


def repeated(num_rows: int, places: int) -> np.ndarray:
    """The numbers of rows, the last one again and again up to so many ``places``."""
    return np.minimum(np.arange(places), num_rows - 1)
