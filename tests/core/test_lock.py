"""One process at a time in a folder, whatever becomes of it."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bayesprune.core import lock
from bayesprune.core.lock import NAME, alone_in, who_is_at_work

# The package is stood in for by its folder alone, so that the process is at work in no time.
AT_WORK = """
import sys, types
for name in ("bayesprune", "bayesprune.core"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [sys.argv[1] + "/" + "/".join(name.split(".")[1:])]
from bayesprune.core.lock import alone_in
with alone_in(sys.argv[2]):
    print("at work", flush=True)
    sys.stdin.read()
"""


def at_work(folder: Path) -> subprocess.Popen[str]:
    """Another process that has the folder until its standard input is closed."""
    package = str(Path(lock.__file__).parents[1])
    command = [sys.executable, "-c", AT_WORK, package, str(folder)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdout.readline() == "at work\n"
    return other


@pytest.mark.parametrize("killed", [True, False])
def test_the_second_process_learns_of_the_first_until_it_ends(tmp_path: Path, killed: bool) -> None:
    with at_work(tmp_path) as other:
        told = rf"process {other.pid} on {platform.node()} is at work in {tmp_path}: wait until it ends, or give another"
        with pytest.raises(BlockingIOError, match=told), alone_in(tmp_path):
            pytest.fail("two at once")
        assert who_is_at_work(tmp_path) == f"Process {other.pid} on {platform.node()} is at work there."
        with alone_in(tmp_path / "elsewhere"):
            pass
        if killed:
            other.send_signal(signal.SIGKILL)
        else:
            other.communicate("")
    assert (tmp_path / NAME).exists() == killed and who_is_at_work(tmp_path) == ""
    with alone_in(tmp_path):
        assert (tmp_path / NAME).read_text() == f"{os.getpid()} {platform.node()}"
    assert not os.listdir(tmp_path)  # nor the folder that was made for nothing


def test_two_fits_of_one_process_are_told_apart_and_an_error_sets_the_folder_free(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), alone_in(tmp_path):
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} "), alone_in(tmp_path):
            pytest.fail("two at once")
        raise RuntimeError
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("without", ["a module", "support"])
def test_without_locks_the_number_in_the_file_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    if without == "a module":
        monkeypatch.setattr(lock, "fcntl", None)
    else:
        monkeypatch.setattr(lock.fcntl, "flock", refuse)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = platform.node()
    for text, free in (
        (f"{ended.pid} {here}", True),
        ("", True),
        ("half", True),
        (f"{os.getppid()} {here}", False),
        (f"{ended.pid} elsewhere", False),
    ):
        (tmp_path / NAME).write_text(text)
        if free:
            with alone_in(tmp_path), pytest.raises(BlockingIOError, match=f"process {os.getpid()} "), alone_in(tmp_path):
                pytest.fail("two at once")
        else:
            with pytest.raises(BlockingIOError, match=rf"If that process is no more, delete .*{NAME}"), alone_in(tmp_path):
                pytest.fail("two at once")


def test_a_lock_that_was_given_back_while_it_was_awaited_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def lock_what_is_no_more(handle: int, path: Path) -> None:
        if not calls:
            path.unlink()
        calls.append(handle)

    monkeypatch.setattr(lock, "_lock", lock_what_is_no_more)
    with alone_in(tmp_path):
        assert len(calls) == 2 and (tmp_path / NAME).exists()
