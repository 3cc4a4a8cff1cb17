"""Minibatches: every row once per epoch, whatever the batch size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.types import Dataset
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


@pytest.mark.parametrize("num_rows,batch_size", [(12, 4), (10, 4), (7, 5), (5, 5)])
def test_the_host_knows_the_rows_of_every_batch(num_rows, batch_size) -> None:
    reading, rows = batches.start(jax.random.key(3), num_rows), batches.Rows(jax.random.key(3), num_rows, batch_size)
    take = jax.jit(batches.take, static_argnums=1)
    for number in range(9):
        reading, expected = take(reading, batch_size)
        assert rows(number).tolist() == (list(range(5)) if num_rows == batch_size else np.asarray(expected).tolist())


def test_a_block_gives_its_batches_in_order_and_counts_as_the_permutation_does() -> None:
    block = batches.Block(Dataset(jnp.arange(12).reshape(3, 4), jnp.arange(12).reshape(3, 4)), jnp.asarray(5))
    streamed, whole = batches.Streamed(jnp.asarray(5), jnp.asarray(0)), batches.start(jax.random.key(0), 10)
    for number in range(3):
        streamed, batch = batches.take_from_block(streamed, block, batch_size=4, num_rows=10)
        whole, _ = batches.take(whole, 4)
        assert batch.x.tolist() == [4 * number + row for row in range(4)]
        assert (int(streamed.number), int(streamed.offset)) == (6 + number, int(whole.offset))
