"""Several hosts: two processes of two devices each train as one process does, from files, shares and checkpoints too."""

import json
import socket

import numpy as np
import pytest

from tests.infer.processes import PATIENCE, start


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, dict]:
    """What each process has found, by count and index."""
    folder = tmp_path_factory.mktemp("hosts")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    running = [start("hosts.py", 4, "1", "0", port, str(folder))]
    running += [start("hosts.py", 2, "2", str(index), port, str(folder)) for index in (0, 1)]
    try:
        for process in running:
            told = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode == 0, told[-3_000:]
    finally:
        for process in running:
            process.kill()
    loaded = {path.stem: dict(np.load(path)) for path in folder.glob("*.npz")}
    assert all(loaded[pair]["devices"].tolist() == [4, 2] for pair in ("2_0", "2_1"))
    files = sorted(path.name for path in (folder / "killed").iterdir())
    return loaded | {"files": {"killed": files}}


def of(found: dict, process: str, fit: str) -> dict[str, np.ndarray]:
    return {name.partition("/")[2]: value for name, value in found[process].items() if name.startswith(f"{fit}/")}


def assert_same_bits(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    assert len(one) > 10
    assert [name for name in one if one[name].tobytes() != other[name].tobytes()] == []


def assert_to_rounding(one: dict, other: dict) -> None:
    # Gradients are summed over devices in another order: float32 rounding, 12 steps of it. Masks are equal.
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.slow
def test_two_processes_train_as_one_does(found):
    mine = of(found, "2_0", "rows")
    assert np.mean(np.concatenate([value.ravel() for value in mine.values() if value.dtype == bool])) < 0.5, "nothing is pruned"
    for other in ("four devices", "one device"):
        assert_to_rounding(mine, of(found, "1_0", other))
    for fit in ("rows", "rows again", "mapped", "shares", "shares again"):
        assert_same_bits(of(found, "2_0", fit), of(found, "2_1", fit))


@pytest.mark.slow
def test_parameters_are_cut_along_the_second_axis(found):
    assert_to_rounding(of(found, "2_0", "mapped"), of(found, "1_0", "one device"))


@pytest.mark.slow
def test_each_process_reads_its_share_of_every_batch(found):
    assert_to_rounding(of(found, "2_0", "shares"), of(found, "1_0", "shares"))


@pytest.mark.slow
def test_a_killed_fit_goes_on_to_the_same_bits(found):
    for process, kind in (("2_0", "Kill: "), ("2_1", "RuntimeError: the first process of this fit failed")):
        told = json.loads(str(found[process]["told"]))
        assert told["killed"].startswith(kind), told
        assert told["shares"].startswith("InterruptedFit: SIGTERM ended the fit at step 8 of 12"), told
        assert_same_bits(of(found, process, "rows again"), of(found, process, "rows"))
        assert_same_bits(of(found, process, "shares again"), of(found, process, "shares"))
    assert found["files"]["killed"] == ["step_0000000008.safetensors", "step_0000000012.safetensors"], "no lock is left"


@pytest.mark.slow
def test_the_first_process_alone_calls_back_and_its_figures_count(found):
    assert len(found["2_0"]["seen"]) == 2
    assert len(found["2_1"]["seen"]) == 0
    assert found["2_0"]["eval"].tolist() == found["2_1"]["eval"].tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_what_would_be_wrong_is_refused_by_all(found):
    wanted = {
        "no mesh": "there are 2 processes, and mesh= does not say",
        "keys": "rng_key of process 1 is not that of process 0",
        "data": "data of process 1 is not that of process 0",
        "same batches": "jax.process_index()::jax.process_count()",
        "other axis": "let its first axis go through the processes",
    }
    for process in ("2_0", "2_1"):
        told = json.loads(str(found[process]["told"]))
        assert [name for name, words in wanted.items() if words not in told.get(name, "")] == [], told
    assert "multiple of 4" in json.loads(str(found["1_0"]["told"]))["uneven"]
