"""Rows that training does not see, to choose settings or a step on."""

import numpy as np

from bayesprune.core.types import Dataset


def hold_out(data: Dataset, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Rows to train on, and a ``share`` of the rows, at least one, that is kept back; always the same for the same ``seed``.

    The permutation is of NumPy's legacy generator, whose stream is frozen.

    Raises `ValueError` for a share outside (0, 1), or one that leaves nothing to train on.

    >>> rest, held = hold_out(Dataset(np.zeros((10, 2)), np.arange(10)), 0.3)
    >>> rest.x.shape, held.x.shape, sorted([*rest.y.tolist(), *held.y.tolist()]) == list(range(10))
    ((7, 2), (3, 2), True)
    """
    order = np.random.RandomState(seed).permutation(len(data.y))
    cut = len(order) - max(1, round(share * len(order))) if 0.0 < share < 1.0 else 0
    if cut < 1:
        raise ValueError(f"share must lie in (0, 1) and leave rows to train on, got {share} of {len(order)} rows.")
    rest, held = (Dataset(data.x[rows], data.y[rows]) for rows in (order[:cut], order[cut:]))
    return rest, held
