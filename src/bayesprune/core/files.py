"""Writing a file whole or not at all, and one clear error for a file that is not what its writer wrote.

The bytes go to a temporary file beside the target, are forced to disk, and take the target's name in one step: a reader, or a
crash, sees the old file or the new one. What a killed process left half written is deleted at the next write in that folder;
the temporary name says whose it is.
"""

import contextlib
import errno
import itertools
import os
import platform
import re
import secrets
import stat
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

REMEDIES = {
    errno.ENOENT: "the folder is gone: make it again, or give another one",
    errno.ENOSPC: "free some disk space, or write to another disk",
    errno.EFBIG: "free some disk space, or write to another disk",
    errno.EDQUOT: "your disk quota is used up: delete files, or write elsewhere",
    errno.EACCES: "choose a folder you may write to, or change its permissions",
    errno.EPERM: "choose a folder you may write to, or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another path",
    errno.EEXIST: "a part of the path is a file, not a folder: choose another path",
    errno.EISDIR: "the path is a folder: add a file name to it",
}
ELSEWHERE = "choose another path"
# A process may have the number that a dead one had, as in a container that starts again: its token tells them apart.
_TOKEN, _COUNT = secrets.token_hex(4), itertools.count()
_TEMPORARY = re.compile(r"\.bayesprune-(?P<host>.*)-(?P<pid>\d+)-(?P<token>[0-9a-f]{8})-\d+\.tmp")
_DAY = 86_400.0


class DamagedFileError(OSError, ValueError):
    """A file is not what its writer wrote: a byte has changed, it is cut short, or it is another kind of file."""


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], what: str, remedy: str) -> Iterator[None]:
    """Whatever fails inside is raised as one `DamagedFileError` that names the file, the cause and the remedy.

    That a file is not there, is a folder, or may not be opened says so itself and passes.

    >>> with reading("runs/a/history.npz", "history", "Run again."):
    ...     {}["losses"]
    Traceback (most recent call last):
    ...
    bayesprune.core.files.DamagedFileError: runs/a/history.npz is no whole history (KeyError: 'losses'). Run again.
    """
    try:
        yield
    except (DamagedFileError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # a damaged file may fail in any way at all
        why = textwrap.shorten(f"{type(error).__name__}: {error}", 300)  # some quote half the file
        raise DamagedFileError(f"{os.fspath(path)} is no whole {what} ({why}). {remedy}") from error


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path`` so that a reader, or a crash, sees the old file or the new one, never a part.

    Missing folders are made. A file that is replaced keeps its permissions; what is no file, as a pipe or a device, is refused:
    to replace it would be to delete it. Raises ``OSError`` (the subclass of its cause, such as ``PermissionError``) naming the
    path and a remedy; the old file is then untouched and the temporary one gone.
    """
    target = Path(os.path.realpath(path))  # through a link, so that the link survives
    temporary = target.with_name(f".bayesprune-{platform.node()}-{os.getpid()}-{_TOKEN}-{next(_COUNT)}.tmp")
    with _remedied(target):
        mode = _mode_of(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        try:
            _write_through(temporary, content, mode)
            os.replace(temporary, target)
            _sync_folder(target.parent)
        finally:
            with contextlib.suppress(OSError):  # gone after a success; a disk that turned read-only keeps it
                temporary.unlink(missing_ok=True)


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if need be and tried at once. Raises ``OSError`` with a remedy where it cannot be written to."""
    path = Path(folder).expanduser().absolute()
    with _remedied(path):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    return path


def running(pid: int) -> bool:
    """Whether there is a process of this number on this machine; True where that cannot be found out."""
    if os.name != "posix":  # elsewhere signal 0 is no question but an order
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's
        return True
    return True


@contextlib.contextmanager
def _remedied(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, ELSEWHERE)
        raise OSError(error.errno, f"cannot write {target}: {error.strerror or error}. Remedy: {remedy}.") from error


def _mode_of(path: Path) -> int | None:
    """The permissions of a file that will be replaced; None where there is none. Raises ``OSError`` for what is no file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # there is none, or the write itself says what is wrong
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a folder is refused by the system, in its own words
        raise OSError(errno.EINVAL, f"it is {kind_of(mode)}, no file")
    return stat.S_IMODE(mode)


def kind_of(mode: int) -> str:
    """What is at a path, in words; ``mode``: as `os.stat` has it."""
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISREG: "a file"}
    return next((word for is_kind, word in kinds.items() if is_kind(mode)), "a device")


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse what is no file, or may not be read, with the cause. From a pipe a reader would wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not os.path.islink(path):
            raise
        what = f"{os.fspath(path)} is a link to {os.readlink(path)}, which is not there: put that back, or delete the link"
        raise FileNotFoundError(errno.ENOENT, what) from None
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"{os.fspath(path)} is {kind_of(mode)}, no file: give another path, or move it away")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, f"{os.fspath(path)} may not be read by this user: change its permissions")


def _write_through(path: Path, content: bytes, mode: int | None) -> None:
    if mode is not None:  # nobody may open it meanwhile; some disks have no permissions
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    with open(path, "xb" if mode is None else "wb") as file:
        if mode is not None:
            with contextlib.suppress(OSError):
                os.chmod(path, mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Force the new name to disk too, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):  # the file itself is whole by now, and some systems refuse this
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Delete the temporary files of processes that are no more."""
    with contextlib.suppress(OSError):  # a sweep that fails is no reason not to write
        for path in folder.glob(".bayesprune-*.tmp"):
            if (owner := _TEMPORARY.fullmatch(path.name)) and _left_over(path, owner):
                path.unlink(missing_ok=True)


def _left_over(path: Path, owner: re.Match[str]) -> bool:
    if owner["host"] != platform.node():  # whose processes cannot be asked after; no write takes a day
        return time.time() - path.stat().st_mtime > _DAY
    pid = int(owner["pid"])
    return owner["token"] != _TOKEN if pid == os.getpid() else not running(pid)
