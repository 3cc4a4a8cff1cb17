"""Estimators in files of skops, which hold no code. A pickle may run code of its writer when it is loaded."""

import importlib
import io
import json
import zipfile
from dataclasses import is_dataclass
from os import PathLike
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin

from bayesprune.core.files import reading, write_atomically

OURS = "bayesprune."
# Where the parts of an estimator are defined; other modules are not imported for a file.
PARTS = tuple(
    f"{OURS}{part}." for part in ("sklearn", "priors", "methods", "model.likelihoods", "core.schedules", "data.scaling")
)
# How skops makes things of a file: none of these calls a function that the file names. Others do, as those of functions,
# methods and reductions, so that a file could have any of ours called with arguments of its own.
MAKES = frozenset(
    f"{kind}Node" for kind in ("Cached", "DType", "DefaultDict", "Dict", "Json", "List", "NdArray", "Object", "RandomGenerator",
                               "RandomState", "Set", "Slice", "Tuple", "Type")
)  # fmt: skip
HARMLESS = "numpy.dtype"  # of others, what an estimator may hold beside what skops knows: a type of numbers
ROOM, TIMES = 1 << 26, 256  # bytes that any file may unpack to, and as many times its own
REMEDY = "Fit once more, and save with bayesprune and scikit-learn of the same versions."


def save(estimator: object, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to ``path``, atomically; `load` reads it back, predictions to the bit.

    Raises `ImportError` without skops.
    """
    write_atomically(path, _skops().dumps(estimator))


def load(path: str | PathLike[str]) -> Any:
    """The estimator that `save` wrote.

    A file may be anybody's. What is made of it are data types of this package (estimators, transformers, records, dataclasses)
    and what skops knows to be harmless of NumPy, SciPy and scikit-learn, and what `HARMLESS` names; anything else is refused
    before any of it is made, and so are nodes that call a function. Another version of the packages may read other things in
    it, or nothing.

    Raises:
        DamagedFileError: a file of another kind, one that holds other types, or one that unpacks to far more than its size.
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
            _check(json.loads(members.read("schema.json")))
        others = skops.get_untrusted_types(data=content)
        if foreign := [name for name in others if not name.startswith(OURS) and name != HARMLESS]:
            raise ValueError(f"it holds {', '.join(foreign[:3])}, which an estimator of bayesprune does not")
        return skops.loads(content, trusted=others)


def _check(part: object) -> None:
    """Refuse nodes that call what the file names, and names of ours that are no data types."""
    if isinstance(part, dict):
        if "__loader__" in part:
            if part["__loader__"] not in MAKES:
                raise ValueError(f"it holds a {part['__loader__']}, which an estimator of bayesprune does not")
            _check_ours(str(part.get("__module__")), str(part.get("__class__")))
        for inner in part.values():
            _check(inner)
    elif isinstance(part, list):
        for inner in part:
            _check(inner)


def _check_ours(module: str, name: str) -> None:
    """Of a name of this package: whether it is a class that this very module defines, of values and nothing else."""
    if module != OURS[:-1] and not module.startswith(OURS):
        return
    known = f"{module}.".startswith(PARTS) and ".__" not in module
    found = getattr(importlib.import_module(module), name, None) if known else None
    is_own = isinstance(found, type) and found.__module__ == module and found.__qualname__ == name
    if not (is_own and (is_dataclass(found) or issubclass(found, tuple | BaseEstimator | TransformerMixin))):  # type: ignore[arg-type]
        raise ValueError(f"it holds {module}.{name}, which is no part of an estimator")


def _skops() -> Any:
    try:
        return importlib.import_module("skops.io")
    except ImportError as error:
        raise ImportError("saved estimators need skops: pip install 'bayesprune[cli]'.") from error
