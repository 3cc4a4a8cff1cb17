"""Minibatches: every row once per epoch, whatever the batch size."""

import jax
import numpy as np
import pytest

from bayesprune.train import batches


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("num_rows,batch_size", [(12, 4), (10, 4), (7, 5), (5, 5), (9, 1)])
def test_every_row_is_seen_once_in_each_epoch(num_rows, batch_size) -> None:
    reading = batches.start(jax.random.key(0), num_rows)
    take = jax.jit(batches.take, static_argnums=1)
    seen = []
    while len(seen) < 3 * num_rows:
        reading, rows = take(reading, batch_size)
        seen.extend(np.asarray(rows).tolist())
    epochs = [seen[e * num_rows : (e + 1) * num_rows] for e in range(3)]
    assert all(sorted(epoch) == list(range(num_rows)) for epoch in epochs)
    assert num_rows < 7 or epochs[0] != epochs[1]


def test_batches_go_on_from_where_they_stand() -> None:
    first = batches.start(jax.random.key(1), 10)
    _, ahead = batches.take(batches.take(first, 4)[0], 4)
    middle, _ = batches.take(first, 4)
    assert np.array_equal(batches.take(middle, 4)[1], ahead)
