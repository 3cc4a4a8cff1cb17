"""Blocks of minibatches: read ahead in a thread of their own, in order, to the last one that is needed."""

import itertools
import threading

import jax
import numpy as np
import pytest

from bayesprune.core.types import Dataset
from bayesprune.train import feed
from bayesprune.train.feed import Now, Stream
from bayesprune.train.sites import Example
from bayesprune.train.sources.source import Read


class Numbers:
    """Minibatch n holds the number n, and reading it leaves a mark; ``stop``: the one that cannot be read."""

    batch_size, first = 2, Dataset(np.zeros((2, 1)), np.zeros(2))
    example = Example.of(first, 8)

    def __init__(self, stop: int = 1000) -> None:
        self.read_so_far, self.stop = threading.Semaphore(0), stop

    def read(self, rng_key, number, begun, state, keep):
        for each in itertools.count(number):
            if each == self.stop:
                raise ValueError("data.x holds 1 value(s) that are NaN")
            self.read_so_far.release()
            yield Read(Dataset(np.full((2, 1), each), np.full(2, each)), {"read": each + 1})

    def described(self) -> str:
        return "numbers"


@pytest.fixture(autouse=True)
def blocks_of_four(monkeypatch) -> None:
    monkeypatch.setattr(feed, "BLOCK_BYTES", 4 * sum(array.nbytes for array in Numbers.first))


def opened(source, step: int = 0, last: int = 10, ahead: int = 1, state=None):
    return Stream(source, source.batch_size, source.first).open(jax.random.key(0), Now(step, 0, state), last, ahead, True)


def numbers(block) -> list[int]:
    return [int(batch[0]) for batch in block.data.y]


def test_blocks_follow_one_another_and_end_where_the_fit_does() -> None:
    with opened(Numbers()) as flow:
        found = [flow.block(step) for step in (0, 2, 4, 8)]
    assert [(numbers(block), int(block.first), room) for block, room in found] == [
        ([0, 1, 2, 3], 0, 4),
        ([0, 1, 2, 3], 0, 2),
        ([4, 5, 6, 7], 4, 4),
        ([8, 9, 0, 0], 8, 2),  # zeros where the fit has ended
    ]


def test_the_next_block_is_read_while_one_is_used() -> None:
    source = Numbers()
    with opened(source) as flow:
        flow.block(0)
        assert all(source.read_so_far.acquire(timeout=30) for _ in range(8)), "the second block was not read"
        assert not source.read_so_far.acquire(blocking=False), "a third one was"


def test_a_look_ahead_takes_nothing_away() -> None:
    with opened(Numbers(), step=3, ahead=3) as flow:
        assert numbers(flow.ahead(3)) == [3, 4, 5]
        assert numbers(flow.block(3)[0]) == [3, 4, 5, 6]
        assert numbers(flow.ahead(6)) == [6, 7, 8]
        assert numbers(flow.ahead(9)) == [9, 10, 11]
        assert numbers(flow.block(7)[0]) == [7, 8, 9, 10]


def test_the_place_of_every_step_is_known_where_the_fit_stands() -> None:
    with opened(Numbers(), step=2, state={"read": 2}) as flow:
        assert flow.state(2) == {"read": 2}
        for step in (2, 6):
            flow.block(step)
            steps = range(step, step + 5)
            assert [flow.state(after) for after in steps] == [{"read": after} for after in steps]


def test_an_error_of_the_reading_is_the_fits() -> None:
    with opened(Numbers(stop=6)) as flow:
        flow.block(0)
        with pytest.raises(ValueError, match="NaN"):
            flow.block(4)


def test_a_block_lies_on_the_device_that_was_chosen_where_the_fit_was_called() -> None:
    device = jax.devices()[-1]
    with jax.default_device(device), opened(Numbers()) as flow:
        leaf = flow.block(0)[0].data.x
    assert leaf.devices() == {device}
    assert not leaf.committed
