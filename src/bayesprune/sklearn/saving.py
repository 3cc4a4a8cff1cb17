"""Estimators in files that hold no code: skops', of scikit-learn's circle; a pickle runs what whoever wrote it put there."""

import importlib
import io
import zipfile
from os import PathLike
from typing import Any

from bayesprune.core.files import reading, write_atomically

SUFFIX = ".skops"
OURS = "bayesprune."
PLAIN = frozenset({"numpy.dtype"})  # skops asks about it, and it runs nothing
ROOM, TIMES = 1 << 26, 256  # bytes that any file may unpack to, and as many times its own
REMEDY = "Fit once more, and save with bayesprune and scikit-learn of the same versions."


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to ``path``, atomically; `load` reads it back, predictions to the bit.

    Raises `ImportError` without skops.
    """
    write_atomically(path, _skops().dumps(estimator))


def load(path: str | PathLike[str]) -> Any:
    """The estimator that `save` wrote.

    A file may be anybody's: what is no type of this package, of NumPy, SciPy, pandas or scikit-learn is refused, and nothing of
    it is run. Another version of the packages may read other things in it, or nothing.

    Raises:
        DamagedFileError: no such file, one that holds other types, or one that unpacks to far more than its size.
        FileNotFoundError: none is there.
        ImportError: without skops.

    Source: skops.io, whose own list of types that run nothing is taken, and `OURS`.
    """
    skops = _skops()
    with open(path, "rb") as file:
        content = file.read()
    with reading(path, "saved estimator", REMEDY):
        with zipfile.ZipFile(io.BytesIO(content)) as members:
            if (size := sum(one.file_size for one in members.infolist())) > max(ROOM, TIMES * len(content)):
                raise ValueError(f"{len(content):,} bytes of it unpacks to {size:,}")
        others = skops.get_untrusted_types(data=content)
        if foreign := [name for name in others if not name.startswith(OURS) and name not in PLAIN]:
            raise ValueError(f"it holds {', '.join(foreign[:3])}, which an estimator of bayesprune does not")
        return skops.loads(content, trusted=others)


def _skops() -> Any:
    try:
        return importlib.import_module("skops.io")
    except ImportError as error:
        raise ImportError("saved estimators need skops: pip install 'bayesprune[cli]'.") from error
