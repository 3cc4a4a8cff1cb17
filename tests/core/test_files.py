"""Files: whole or not there, nothing left lying about, and one error for what is damaged."""

import contextlib
import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bayesprune.core import files
from bayesprune.core.files import DamagedFileError, check_readable, make_folder, reading, write_atomically

KILLED_WHILE_WRITING = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files.write_atomically(sys.argv[2], b"half")
"""


def kill_while_writing(path: Path) -> None:
    """A process that dies when its bytes are written and the name is not yet theirs; the file alone is imported, in no time."""
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, files.__file__, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_what_killed_writers_left_is_swept_at_the_next_write(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"old")
    kill_while_writing(tmp_path / "a")
    kill_while_writing(tmp_path / "b")
    assert len(list(tmp_path.iterdir())) == 2 and (tmp_path / "a").read_bytes() == b"old"  # the second swept the first
    write_atomically(tmp_path / "c", b"new")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "c"}


def temporary(folder: Path, host: str = files.platform.node(), pid: int | None = None, token: str = "0" * 8) -> Path:
    path = folder / f".bayesprune-{host}-{os.getpid() if pid is None else pid}-{token}-0.tmp"
    path.touch()
    return path


def test_only_what_no_living_process_owns_is_swept(tmp_path: Path) -> None:
    parent, ours = temporary(tmp_path, pid=os.getppid()), temporary(tmp_path, token=files._TOKEN)
    elsewhere, foreign = temporary(tmp_path, host="elsewhere"), tmp_path / ".bayesprune-notes.tmp"
    foreign.touch()
    namesake = temporary(tmp_path)  # our number, and not ours: a container's first process has the same one every time
    long_ago = temporary(tmp_path, host="long-ago")
    os.utime(long_ago, (time.time() - 2 * 86_400,) * 2)
    write_atomically(tmp_path / "a", b"")
    assert set(tmp_path.iterdir()) == {parent, ours, elsewhere, foreign, tmp_path / "a"}
    assert not namesake.exists() and not long_ago.exists()


@pytest.mark.parametrize(("owner", "step"), [(files, "_write_through"), (files, "_sync_folder"), (files.os, "replace")])
def test_an_interrupted_write_leaves_one_whole_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    write_atomically(tmp_path / "a", b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, step, interrupt)
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == (b"new" if step == "_sync_folder" else b"old")
    assert os.listdir(tmp_path) == ["a"]


def test_a_disk_that_turns_read_only_tells_the_first_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with (
        monkeypatch.context() as patch,
        pytest.raises(OSError, match=r"cannot write .*a: Read-only.*Remedy: the file system is"),
    ):
        patch.setattr(files, "_write_through", refuse)
        patch.setattr(Path, "unlink", refuse)
        write_atomically(tmp_path / "a", b"")


def test_a_folder_is_made_and_tried(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "x" / "y").is_dir() and not os.listdir(tmp_path / "x" / "y")
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=rf"cannot write {bad}: .*Remedy: a part of the path is a file"):
            make_folder(bad)


def test_damage_is_told_once_and_errors_of_the_system_pass() -> None:
    with pytest.raises(DamagedFileError, match=r"f is no whole thing \(ZeroDivisionError: .*\)\. Mend it\.") as caught:  # noqa: SIM117
        with reading("outer", "box", "Lose it."), reading("f", "thing", "Mend it."):
            _ = 1 / 0
    assert isinstance(caught.value, OSError) and isinstance(caught.value, ValueError)
    for error in (FileNotFoundError(2, "gone"), PermissionError(13, "no")):
        with pytest.raises(type(error)), reading("f", "thing", "Mend it."):
            raise error


def test_a_number_of_no_process_is_not_running() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert files.running(os.getpid())
    child.wait()
    assert not files.running(child.pid)
    with contextlib.suppress(PermissionError):
        assert files.running(1)


def test_what_is_no_file_is_refused_and_stays(tmp_path: Path) -> None:
    """A pipe or a device would be deleted, and a file put in its place."""
    pipe, server, device = tmp_path / "pipe", socket.socket(socket.AF_UNIX), tmp_path / "full"
    os.mkfifo(pipe)
    server.bind(str(tmp_path / "s"))
    places = {pipe: "a pipe", tmp_path / "s": "a socket"}
    with contextlib.suppress(OSError):  # by root alone, and not in every container
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        places[device] = "a device"
    if Path("/dev/full").exists():
        places[Path("/dev/full")] = "a device"
    (tmp_path / "link").symlink_to(pipe)
    for path, kind in {**places, tmp_path / "link": "a pipe"}.items():
        before = os.lstat(path)
        with pytest.raises(OSError, match=rf"cannot write .*: it is {kind}, no file\. Remedy: choose another path"):
            write_atomically(path, b"new")
        assert os.path.samestat(os.lstat(path), before) and os.lstat(path).st_mode == before.st_mode
    server.close()


def test_a_file_keeps_its_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first byte on: nobody may read a new version who could not read the old one."""
    seen: list[int] = []
    replace = os.replace
    monkeypatch.setattr(files.os, "replace", lambda old, new: (seen.append(os.stat(old).st_mode & 0o777), replace(old, new)))
    for mode in (0o600, 0o640, 0o755):
        write_atomically(tmp_path / "a", b"old")
        (tmp_path / "a").chmod(mode)
        write_atomically(tmp_path / "a", b"new")
        assert (tmp_path / "a").stat().st_mode & 0o777 == seen[-1] == mode
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "b", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "mine").touch()
    check_readable(tmp_path / "mine")
    for name, kind, told in (
        ("pipe", OSError, "is a pipe, no file"),
        ("folder", IsADirectoryError, "is a folder, no file"),
        ("link", FileNotFoundError, r"is a link to .*nowhere, which is not there"),
        ("nothing", FileNotFoundError, "No such file"),
    ):
        with pytest.raises(kind, match=told) as refusal:
            check_readable(tmp_path / name)
        assert str(tmp_path / name) in str(refusal.value)
    monkeypatch.setattr(files.os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(PermissionError, match=r"mine may not be read by this user: change its permissions"):
        check_readable(tmp_path / "mine")
