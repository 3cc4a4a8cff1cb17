"""Where a method comes from: every method's and prior's module carries its reference as the text ``BIBTEX``."""

import sys
from types import ModuleType
from typing import Any


def cite(obj: Any) -> str:
    """The BibTeX entry of the module that defines ``obj``: a method, a prior, its class, a function of it, or the module.

    Raises ``ValueError`` for an object whose module states no reference, and for a name in place of the object.

    >>> import types
    >>> module = types.ModuleType("some_method")
    >>> module.BIBTEX = "@article{someone2024, title={Some method}}"
    >>> cite(module)
    '@article{someone2024, title={Some method}}'
    """
    if isinstance(obj, str):
        raise ValueError(
            f"cite takes a method or prior itself, got the name {obj!r}: pass the object, such as bayesprune.methods.BMR()."
        )
    module: ModuleType | None
    if isinstance(obj, ModuleType):
        module = obj
    else:
        # a function or class names its own module; of an instance it is the class that does
        owner = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
        module = sys.modules.get(owner.__module__)
    bibtex = getattr(module, "BIBTEX", None)
    if not isinstance(bibtex, str):
        raise ValueError(
            f"{obj!r} has no reference: its module {getattr(module, '__name__', '?')} defines no text BIBTEX. "
            "Cite a method or a prior; in a file of your own, add BIBTEX at module level."
        )
    return bibtex.strip()
