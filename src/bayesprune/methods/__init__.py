"""Pruning methods, one file each: a new file is found by its name, and nothing else needs to know of it.

``bp.methods.BMR`` is the class of that name in any file of this folder; `names` lists what there is.
"""

from typing import Any

from bayesprune.core.folder import Folder

# Sparsifiers are the frozen dataclasses that have ``init`` and ``step``.
_FOLDER = Folder(__name__, "method", lambda value: hasattr(value, "init") and hasattr(value, "step"))
find, names, get = _FOLDER.find, _FOLDER.names, _FOLDER.get


def __getattr__(name: str) -> Any:
    return _FOLDER.attribute(name)


def __dir__() -> list[str]:
    return [*globals(), *find()]
