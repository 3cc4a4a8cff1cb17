"""Figures while a run trains: which writer takes them, and where there is none."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import bayesprune as bp
from bayesprune.cli import log
from tests.test_cli import refused

MOMENT = bp.Moment(10, 2.0, 0.5, {"eval/step": [10], "eval/nll": [0.5]}, dict, dict)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in log.WRITERS:
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    return monkeypatch


def test_tensorboards_writer_gets_every_figure_and_is_closed(nothing_installed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            written.append(folder)

        def add_scalar(self, name: str, figure: float, step: int) -> None:
            written.append((name, figure, step))

        def close(self) -> None:
            written.append("closed")

    nothing_installed.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    with log.writing("tensorboard", tmp_path):
        pass  # a fit that was refused
    assert not written
    with pytest.raises(KeyboardInterrupt), log.writing("tensorboard", tmp_path) as callbacks:
        for callback in callbacks:
            callback(MOMENT)
        raise KeyboardInterrupt
    assert written[0] == str(tmp_path / "tensorboard") and written[-1] == "closed"
    assert ("loss", 2.0, 10) in written and ("eval/nll", 0.5, 10) in written and ("density", 0.5, 10) in written


def test_without_a_writer_the_remedy_comes_before_anything_is_trained(
    nothing_installed: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--out", str(out := tmp_path / "run"), "--log"]
    assert "pip install tensorboardX, or take --log jsonl" in refused(capsys, *run, "tensorboard")
    assert "unknown choice of log 'jsonnl'. Did you mean 'jsonl'" in refused(
        capsys, "run", "--log", "jsonnl", "--out", str(out)
    )
    assert not out.exists()


def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    with log.writing("none", tmp_path) as callbacks:
        assert callbacks == []
    assert list(tmp_path.iterdir()) == []
