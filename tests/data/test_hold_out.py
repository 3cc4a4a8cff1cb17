"""Rows that are kept back: each once, always the same, never all."""

import numpy as np
import pytest

from bayesprune.core.types import Dataset
from bayesprune.data.hold_out import hold_out

DATA = Dataset(np.arange(20.0).reshape(10, 2), np.arange(10))


def test_every_row_is_in_one_part_with_its_target() -> None:
    rest, held = hold_out(DATA, 0.25)
    assert (len(rest.y), len(held.y)) == (8, 2)
    assert sorted([*rest.y, *held.y]) == list(range(10))
    for part in (rest, held):
        np.testing.assert_array_equal(part.x[:, 0], 2.0 * part.y)
    np.testing.assert_array_equal(hold_out(DATA, 0.25)[1].y, held.y)
    assert not np.array_equal(hold_out(DATA, 0.25, seed=1)[1].y, held.y)
    assert len(hold_out(DATA, 0.001)[1].y) == 1, "at least one"


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 0.99, float("nan")])
def test_a_share_that_leaves_nothing_is_refused(share) -> None:
    with pytest.raises(ValueError, match="share must lie in"):
        hold_out(DATA, share)
