"""Folders in which every file makes one thing: a new file is found, and nothing else needs to know of it."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from types import ModuleType
from typing import Any

from bayesprune.core.checks import unknown_name


def files(package: str) -> Iterator[ModuleType]:
    """The modules of a package's own folder, imported, by alphabet.

    >>> [file.__name__ for file in files("bayesprune.priors")][:2]
    ['bayesprune.priors.cauchy', 'bayesprune.priors.concrete_dropout']
    """
    paths = importlib.import_module(package).__path__
    return (importlib.import_module(f"{package}.{info.name}") for info in pkgutil.iter_modules(paths))


@dataclass(frozen=True)
class Folder:
    """The frozen dataclasses that a package's files define, by name, with the package's own ``names``, ``get`` and attributes.

    Args:
        package: dotted name of the package.
        kind: what its files make, in errors: "method".
        belongs: whether a dataclass is one of them.

    Example:
        >>> priors = Folder("bayesprune.priors", "prior", lambda value: True)
        >>> priors.get("flat").__name__
        'Flat'
    """

    package: str
    kind: str
    belongs: Callable[[type], bool]

    def find(self) -> dict[str, type]:
        """Every class of the folder by its name."""
        return {
            name: value
            for file in files(self.package)
            for name, value in vars(file).items()
            if isinstance(value, type) and value.__module__ == file.__name__ and is_dataclass(value) and self.belongs(value)
        }

    def names(self) -> list[str]:
        """Names of the classes, sorted."""
        return sorted(self.find())

    def get(self, name: str) -> type:
        """The class of a name, upper or lower case; an error with the nearest names if there is none."""
        known = {key.lower(): value for key, value in self.find().items()}
        if name.lower() not in known:
            raise unknown_name(self.kind, name, known)
        return known[name.lower()]

    def attribute(self, name: str) -> Any:
        """What the package's ``__getattr__`` gives: the class of exactly this name."""
        # Python and its tools ask modules for private names of their own; those are in no folder, and cost no import.
        found = {} if name.startswith("_") else self.find()
        if name not in found:
            raise AttributeError(f"module {self.package!r} has no {self.kind} {name!r}. Known: {', '.join(self.find())}.")
        return found[name]
