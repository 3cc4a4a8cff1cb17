"""Kernels, one file each: a new file is found by its name, and nothing else needs to know of it.

``bp.kernels.Optax`` is the class of that name in any file of this folder; `names` lists what there is.
"""

from typing import Any

from bayesprune.core.folder import Folder
from bayesprune.train.kernel import Kernel

_FOLDER = Folder(__name__, "kernel", lambda value: issubclass(value, Kernel))
find, names, get = _FOLDER.find, _FOLDER.names, _FOLDER.get


def __getattr__(name: str) -> Any:
    return _FOLDER.attribute(name)


def __dir__() -> list[str]:
    return [*globals(), *find()]
