"""Where a method comes from: every method's and prior's module names its ``REFERENCE``, a key of ``references.bib``."""

import functools
import importlib.resources
import sys
from types import ModuleType

from bayesprune.core.checks import unknown_name


def cite(obj: object) -> str:
    """The BibTeX entry of the module that defines ``obj``: a method, a prior, its class, a function of it, or the module.

    A module of your own may hold the entry itself, as the text ``BIBTEX``. Raises ``ValueError`` for an object whose module
    states no reference, and for a name in place of the object.

    >>> import bayesprune as bp
    >>> print(cite(bp.methods.BMR()).splitlines()[0])
    @article{markovic2024bayesian,
    """
    if isinstance(obj, str):
        raise ValueError(
            f"cite takes a method or prior itself, got the name {obj!r}: pass the object, such as bayesprune.methods.BMR()."
        )
    # a function or class names its own module; of an instance it is the class that does
    owner = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = obj if isinstance(obj, ModuleType) else sys.modules.get(owner.__module__)
    bibtex, key = getattr(module, "BIBTEX", None), getattr(module, "REFERENCE", None)
    if isinstance(bibtex, str):
        return bibtex.strip()
    if not isinstance(key, str):
        raise ValueError(
            f"{obj!r} has no reference: its module {getattr(module, '__name__', '?')} defines no text BIBTEX and no REFERENCE. "
            "Cite a method or a prior; in a file of your own, add BIBTEX at module level."
        )
    if key not in references():
        raise unknown_name("reference", key, references(), "Add the entry to report/references.bib.")
    return references()[key]


@functools.cache
def references() -> dict[str, str]:
    """The entries of ``references.bib`` by key; an empty line ends an entry."""
    text = importlib.resources.files("bayesprune.report").joinpath("references.bib").read_text(encoding="utf-8")
    entries = (entry.strip() for entry in text.split("\n\n"))
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries if entry}
