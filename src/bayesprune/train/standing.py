"""Where a fit stands between two steps: all that the next step depends on, and what may be returned in its place."""

from typing import Any, NamedTuple

from bayesprune.core.types import SparseState
from bayesprune.train.loop import Carry


class Standing(NamedTuple):
    """``carry``, ``sparse``: the state of now; ``best``: a copy of that of the best evaluation, where it is to be returned.

    ``planned``: steps that the training was first planned to have, of which schedules take their share. ``reading``: where the
    reading of the data stands, if the step alone does not say it; what JSON holds.
    """

    carry: Carry
    sparse: SparseState
    best: tuple[Carry, SparseState] | None = None
    planned: int = 1
    reading: Any = None
