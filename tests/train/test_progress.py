"""Tests of the progress bar: what is written, where, and when nothing is."""

import io
import sys
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

from bayesprune.report.health import checked
from bayesprune.train.progress import NoProgress, ProgressBar, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Unreadable(float):
    def __float__(self) -> float:
        raise AssertionError("a silent run must not read the loss")


def test_the_bar_shows_steps_loss_density_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(200, enabled=True) as bar:
        bar.advance(150, loss=jnp.float32(1234.567), density=jnp.float32(0.25))
        bar.advance(50, loss=12.5, density=0.05)
    out, err = capsys.readouterr()
    last = err.rstrip().split("\r")[-1]
    assert out == ""
    for part in ("200/200", "loss=12.5", "density=5 %", "steps/s"):
        assert part in last


@pytest.mark.parametrize(("found", "said"), [("", "health=well"), ("falls", "health=end of training: see fit.diagnose()")])
def test_the_last_line_says_whether_the_fit_is_well(found, said, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, enabled=True) as bar:
        bar.advance(10, loss=1.5)
        bar.judge(lambda: checked("end of training", found))
    last = capsys.readouterr().err.rstrip().split("\r")[-1]
    assert said in last and "loss=1.5" in last


def test_what_is_not_given_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, enabled=True) as bar:
        bar.advance(10, loss=float("nan"))
    last = capsys.readouterr().err.rstrip().split("\r")[-1]
    assert "loss=nan" in last
    assert "density" not in last


def test_a_resumed_run_starts_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(100, enabled=True, initial=60) as bar:
        bar.advance(20)
    assert "80/100" in capsys.readouterr().err.rstrip().split("\r")[-1]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("enabled", [False, None])
def test_silent_when_not_asked_and_not_a_terminal(enabled: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, enabled=enabled) as bar:
        bar.advance(10, loss=Unreadable(), density=Unreadable())
    assert isinstance(bar, NoProgress)
    assert capsys.readouterr() == ("", "")


def test_by_default_a_terminal_or_a_notebook_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Terminal())
        with progress(10) as bar:
            assert isinstance(bar, ProgressBar)
    for kernel, kind in ((object(), ProgressBar), (None, NoProgress)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda k=kernel: SimpleNamespace(kernel=k)))
        with progress(10) as bar:
            assert isinstance(bar, kind)


def test_a_process_without_a_console_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(progress(10), NoProgress)


def test_the_bar_is_closed_when_the_loop_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), progress(10, enabled=True) as bar:
        bar.advance(5, loss=1.0)
        raise KeyboardInterrupt
    bar.close()
    assert capsys.readouterr().err.endswith("\n")


def test_a_total_must_be_a_whole_number() -> None:
    with pytest.raises(ValueError, match="total must be an integer"):
        progress(-1)
