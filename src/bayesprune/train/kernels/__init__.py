"""Kernels, one file each: a new file is found by its name, and nothing else needs to know of it.

``bp.kernels.Optax`` is the class of that name in any file of this folder; `names` lists what there is.
"""

import importlib
import pkgutil
from dataclasses import is_dataclass
from typing import Any

from bayesprune.train.kernel import Kernel


def find() -> dict[str, type]:
    """Every kernel of this folder by its name: the frozen dataclasses that have a kernel's functions."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and is_dataclass(value) and issubclass(value, Kernel)
    }


def names() -> list[str]:
    """Names of the kernels, sorted."""
    return sorted(find())


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        found = find()
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no kernel {name!r}. Known: {', '.join(find())}.")


def __dir__() -> list[str]:
    return [*globals(), *find()]
