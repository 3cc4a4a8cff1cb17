"""Writing a file whole or not at all: whatever goes wrong, the old file stays as it was."""

import contextlib
import errno
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

REMEDIES = {
    errno.ENOSPC: "free some disk space, or write to another disk",
    errno.EDQUOT: "your disk quota is used up: delete files, or write elsewhere",
    errno.EACCES: "choose a folder you may write to, or change its permissions",
    errno.EPERM: "choose a folder you may write to, or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another path",
    errno.EISDIR: "the path is a folder: add a file name to it",
}
ELSEWHERE = "choose another path"


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path`` so that a reader, or a crash, sees the old file or the new one, never a part.

    The bytes go to a temporary file beside the target, are forced to disk, and take the target's name in one step. Missing
    folders are made. Raises ``OSError`` (the subclass of its cause, such as ``PermissionError``) naming the path and a remedy;
    the old file is then untouched and the temporary one gone.
    """
    target = Path(os.path.realpath(path))  # through a link, so that the link survives
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, ELSEWHERE)
        raise OSError(error.errno, f"cannot write {target}: {error.strerror}. Remedy: {remedy}.") from error


def _sync_folder(folder: Path) -> None:
    """Force the new name to disk too, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):  # the file itself is whole by now, and some systems refuse this
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def jsonable(value: Any, where: str = "data") -> Any:
    """``value`` in JSON's own types: arrays become lists, tuples lists, paths text, and NaN or infinity ``None``.

    Raises ``TypeError`` that names the place of a value with no JSON form.

    >>> jsonable({"losses": np.array([1.0, np.nan]), "steps": np.int64(3)})
    {'losses': [1.0, None], 'steps': 3}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(k): jsonable(v, f"{where}[{k!r}]") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if hasattr(value, "__array__"):  # NumPy and JAX arrays and scalars
        array = np.asarray(value)
        plain = array.astype(np.float64) if array.dtype.name in ("bfloat16", "float16") else array
        if plain.dtype.kind in "biufU":
            return jsonable(plain.tolist(), where)
    raise TypeError(f"{where} is a {type(value).__name__}, which JSON cannot hold: use numbers, text, lists or dicts.")


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write ``data`` as strict, indented JSON, atomically; NaN and infinities, which JSON lacks, become ``null``.

    Raises ``TypeError`` for values with no JSON form (before anything is written), ``OSError`` as `write_atomically` does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(f"{folder}/metrics.json", {"ece": float("nan")})
    ...     print(Path(folder, "metrics.json").read_text().strip())
    {
      "ece": null
    }
    """
    text = json.dumps(jsonable(data), indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, (text + "\n").encode())
