"""What the processes of one fit say to each other; that two of them train as one is `tests/infer/test_hosts.py`'s to show."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from bayesprune.train import processes
from bayesprune.train.processes import Alone, Together, check_same, check_shares, of_mesh


@dataclass(frozen=True)
class Heard(Together):
    """Two processes, of which the other one says this."""

    other: Any

    def broadcast(self, value: Any) -> list[Any]:
        return [value, self.other]


def mesh_of(*process_indices: int) -> SimpleNamespace:
    return SimpleNamespace(devices=np.array([SimpleNamespace(process_index=index) for index in process_indices]))


def test_one_process_agrees_with_itself() -> None:
    assert of_mesh(None) == Alone()
    assert Alone().broadcast((1, None)) == [(1, None)]
    assert Alone().once(lambda: 3) == 3
    check_same(Alone(), {"rng_key": [0, 1]})


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        (None, r"there are 3 processes, and mesh= does not say .*jax\.local_devices"),
        (mesh_of(0, 1), r"devices of the processes \[0, 1\], and this is process 1 of 3"),
        (mesh_of(2), r"devices of the processes \[2\]"),
    ],
)
def test_several_processes_need_a_mesh_that_says_what_they_share(mesh, words, monkeypatch) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    with pytest.raises(ValueError, match=words):
        of_mesh(mesh)
    assert of_mesh(mesh_of(1, 1)) == Alone()
    assert of_mesh(mesh_of(0, 0, 1, 2)) == Together(1, 3)


@pytest.mark.parametrize("length", [0, 1, 250, 300, 5_000])
def test_messages_of_any_length_arrive_whole(length, monkeypatch) -> None:
    gathered = []

    def allgather(value: np.ndarray) -> np.ndarray:
        gathered.append(value.shape)
        return np.stack([value, value])

    monkeypatch.setattr(processes.multihost_utils, "process_allgather", allgather)
    message = {"text": "ä" * length, "number": float("inf")}
    assert Together(0, 2).broadcast(message) == [message, message]
    size = gathered[1][0]
    assert size >= 256
    assert size & (size - 1) == 0, "lengths are few, for each is compiled"


def test_an_error_of_the_first_process_is_one_of_all(monkeypatch) -> None:
    monkeypatch.setattr(Together, "broadcast", lambda self, value: [value if self.index == 0 else (None, "OSError: full")])
    with pytest.raises(OSError, match=r"^full$"):
        Together(0, 2).once(lambda: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(RuntimeError, match=r"first process of this fit failed.*OSError: full"):
        Together(1, 2).once(lambda: pytest.fail("only the first one acts"))


def test_what_differs_is_named() -> None:
    check_same(Heard(0, 2, {"steps": "3"}), {"steps": 3})
    with pytest.raises(ValueError, match=r"steps of process 1 is not that of process 0: 4 and 3"):
        check_same(Heard(0, 2, {"steps": "4"}), {"steps": 3})


def test_shares_must_be_different_rows_of_one_shape() -> None:
    first, shapes = {"x": np.ones((4, 2), np.float32)}, [("float32", 4, 2)]
    check_shares(Heard(0, 2, [shapes, "other"]), first, 4)
    same = processes.digest((processes.array_digest(first["x"]),))
    with pytest.raises(ValueError, match=r"the same batches.*ShardByJaxProcess"):
        check_shares(Heard(0, 2, [shapes, same]), first, 4)
    with pytest.raises(ValueError, match=r"batches of different shapes"):
        check_shares(Heard(0, 2, [[("float32", 5, 2)], "other"]), first, 4)
    with pytest.raises(ValueError, match=r"mesh has 8 rows of a minibatch in each of 2 processes.* 4 for each"):
        check_shares(Heard(0, 2, [shapes, "other"]), first, 8)
