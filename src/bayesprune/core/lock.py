"""One process at a time in a folder; a second one learns which process is at work there."""

import contextlib
import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from bayesprune.core.files import make_folder, running

try:
    import fcntl
except ImportError:  # not on every system
    fcntl = None  # type: ignore[assignment]

NAME = ".bayesprune.lock"
_HELD = (errno.EWOULDBLOCK, errno.EACCES)


@contextlib.contextmanager
def alone_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep ``folder``, made if need be, to this process and this block.

    The system itself sets the folder free when a process ends, however it ends. Raises ``BlockingIOError`` that names the
    process at work there and its machine, ``OSError`` where the folder cannot be written to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, alone_in(folder), alone_in(folder):
    ...     pass
    Traceback (most recent call last):
    ...
    BlockingIOError: [Errno ...] process ... on ... is at work in ...: wait until it ends, or give another folder.
    """
    new = not os.path.exists(folder)
    path = make_folder(folder) / NAME
    handle = _taken(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # while it is still held: nobody can take it in between
            os.ftruncate(handle, 0)
            path.unlink()
            if new:  # nothing was done: no folder stays behind
                path.parent.rmdir()
        os.close(handle)


def who_is_at_work(folder: str | os.PathLike[str]) -> str:
    """A sentence on the process that is at work in ``folder``; an empty text where none is."""
    pid, host = _owner(Path(folder) / NAME)
    return f"Process {pid} on {host} is at work there." if pid and (host != platform.node() or running(int(pid))) else ""


def _taken(path: Path) -> int:
    while True:
        handle = _opened(path)
        try:
            _lock(handle, path)
            # The one who held it may have deleted it since: then what was locked is not what others will find.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()} {platform.node()}".encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _opened(path: Path) -> int:
    try:  # a link might lead to a file of somebody else's, which would be emptied
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{path} is a link, and a lock is a file of its own: delete it") from error
        raise


def _lock(handle: int, path: Path) -> None:
    """Lock the open file, or raise with the process that has it; without locks of the system, by the process number in it."""
    try:
        if fcntl is not None:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise _at_work(path) from None
    pid, host = _owner(path)
    if pid and (host != platform.node() or running(int(pid))):
        raise _at_work(path, f" If that process is no more, delete {path}.")
    return None


def _owner(path: Path) -> tuple[str, str]:
    """Process number and machine in the file; empty texts where there are none."""
    with contextlib.suppress(OSError):  # there is none
        pid, _, host = path.read_text(encoding="utf-8", errors="replace").partition(" ")
        return (pid, host) if pid.isdigit() else ("", "")
    return "", ""


def _at_work(path: Path, more: str = "") -> OSError:
    pid, host = _owner(path)
    who = f"process {pid} on {host}" if pid else "another process"
    what = f"{who} is at work in {path.parent}: wait until it ends, or give another folder.{more}"
    return OSError(errno.EWOULDBLOCK, what)
