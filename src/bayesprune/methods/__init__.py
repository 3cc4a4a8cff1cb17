"""Pruning methods, one file each: a new file is found by its name, and nothing else needs to know of it.

``bp.methods.BMR`` is the class of that name in any file of this folder; `names` lists what there is.
"""

import importlib
import pkgutil
from dataclasses import is_dataclass
from typing import Any

from bayesprune.core.checks import unknown_name


def find() -> dict[str, type]:
    """Every sparsifier of this folder by its name: the frozen dataclasses that have ``init`` and ``step``."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and _is_sparsifier(value)
    }


def names() -> list[str]:
    """Names of the methods, sorted."""
    return sorted(find())


def get(name: str) -> type:
    """The method of a name, upper or lower case; an error with the nearest names if there is none."""
    known = {key.lower(): value for key, value in find().items()}
    if name.lower() not in known:
        raise unknown_name("method", name, known)
    return known[name.lower()]


def _is_sparsifier(value: type) -> bool:
    return is_dataclass(value) and hasattr(value, "init") and hasattr(value, "step")


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        found = find()
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no method {name!r}. Known: {', '.join(find())}.")


def __dir__() -> list[str]:
    return [*globals(), *find()]
