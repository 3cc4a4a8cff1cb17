"""Checkpoints: a run's state on disk, one file per saved step, complete or not there at all.

A file holds a pytree's arrays, and in its header a JSON manifest: every leaf's path, dtype and shape, the Python scalars and
the caller's metadata; and a checksum of all. How it is written is said in `bayesprune.core.files`: a run that is killed, or
meets a full disk, leaves the checkpoint before it untouched.
"""

import errno
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer
from bayesprune.core.files import make_folder, reading, write_atomically
from bayesprune.core.formats import pack_tensors, read_tensors, require
from bayesprune.core.keys import is_key, key_numbers
from bayesprune.core.types import PyTree

_NAME = "step_{:010d}.safetensors"
_PATTERN = re.compile(r"step_(\d{10,})\.safetensors")
_WHAT, _REMEDY = "checkpoint", "Delete that file to resume from the one before it."


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run, in one folder of a local disk, the newest ``keep`` of them.

    ``folder`` is made if need be and tried at once. ``keep``: how many checkpoints stay, at least 1. While a checkpoint is
    being written there are ``keep + 1``. One run at a time may write to a folder.

    Raises `OSError` when the folder cannot be made or written to, `ValueError` for an address that is not a local path or
    for ``keep`` below 1.

    >>> import jax.numpy as jnp, tempfile
    >>> checkpoints = Checkpoints(tempfile.mkdtemp())
    >>> checkpoints.save(100, {"w": jnp.arange(3.0)}, {"seed": 0})
    >>> state, metadata = checkpoints.restore(checkpoints.latest(), {"w": jnp.zeros(3)})
    >>> state["w"].tolist(), metadata
    ([0.0, 1.0, 2.0], {'seed': 0})
    """

    folder: str | os.PathLike[str]
    keep: int = 2

    def __post_init__(self) -> None:
        check_integer(self.keep, "keep", minimum=1)
        if "://" in str(self.folder):
            raise ValueError(f"folder must be on a local disk, got {str(self.folder)!r}: give a path such as 'runs/first'.")
        object.__setattr__(self, "folder", make_folder(self.folder))

    def _file(self, step: int) -> Path:
        return Path(self.folder) / _NAME.format(step)

    def steps(self) -> list[int]:
        """Every step with a complete checkpoint, rising."""
        found = (_PATTERN.fullmatch(path.name) for path in Path(self.folder).iterdir())
        return sorted(int(match[1]) for match in found if match)

    def latest(self) -> int | None:
        """The last step with a complete checkpoint; None where there is none."""
        return max(self.steps(), default=None)

    def save(self, step: int, state: PyTree, metadata: dict[str, Any]) -> None:
        """Write one checkpoint, then delete the oldest beyond ``keep``. Saving the latest step again replaces it.

        ``state``: a pytree whose leaves are JAX or NumPy arrays of numbers or booleans, random keys, or Python scalars.
        ``metadata``: anything JSON can hold; see `check_same_settings`.

        Raises `OSError` when the file cannot be written (the earlier checkpoints stay), `TypeError` for a leaf or a
        metadata entry that cannot be stored, `ValueError` for a step before the latest one.
        """
        check_integer(step, "step", minimum=0)
        if not os.path.isdir(self.folder):
            raise OSError(
                errno.ENOENT, f"cannot write {self.folder}: the folder is gone. Remedy: make it again, or give another."
            )
        latest = self.latest()
        if latest is not None and step < latest:
            raise ValueError(
                f"step must not lie before the latest checkpoint, got {step} and {self.folder} holds step {latest}: "
                "restore that one, delete it, or give another folder."
            )
        content = encode(state, metadata)
        try:
            write_atomically(self._file(step), content)
            for old in self.steps()[: -self.keep]:
                self._file(old).unlink()
        except OSError as error:
            whole = "No checkpoint was saved before" if latest is None else f"The checkpoint of step {latest} is whole"
            raise OSError(error.errno, f"{error.strerror or error} {whole}: start again when that is done.") from error

    def metadata(self, step: int, needed: Iterable[str] = ()) -> dict[str, Any]:
        """The metadata saved with ``step``, without its arrays; they have the ``needed`` entries. Raises as `restore` does."""
        found = self._read(step, with_tensors=False)[0]["metadata"]
        with reading(self._file(step), _WHAT, _REMEDY):
            require(found, needed)
        return found

    def restore(self, step: int, target: PyTree) -> tuple[PyTree, dict[str, Any]]:
        """Read one checkpoint back bit for bit: ``(state, metadata)``.

        ``target``: a state of the same structure, for instance a fresh one. It gives the node types, decides for every leaf
        between NumPy and JAX, and where on the devices it lies; its values are not read. A Python scalar and a 0-d array of
        the same kind stand for each other; weak types come back as strong ones.

        Raises `ValueError` naming the first leaf that differs in path, dtype, shape or kind of key; `FileNotFoundError` for
        a step that was not saved; `DamagedFileError`, an `OSError`, for a file that is damaged.
        """
        path, (manifest, tensors) = self._file(step), self._read(step, with_tensors=True)
        paths, treedef = jax.tree_util.tree_flatten_with_path(target)
        wanted = [(jax.tree_util.keystr(key_path), leaf) for key_path, leaf in paths]
        with reading(path, _WHAT, _REMEDY):
            saved = {entry["path"]: (entry, described(entry)) for entry in manifest["leaves"]}
        differences = _differences(
            {name: described for name, (_, described) in saved.items()},
            {name: describe(name, leaf) for name, leaf in wanted},
        )
        if differences:
            more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
            raise ValueError(
                f"the checkpoint of step {step} in {self.folder} does not fit this run: {differences[0]}{more}. It was "
                "saved by a run with other settings: repeat that run's arguments, or give another folder."
            )
        with reading(path, _WHAT, _REMEDY):
            restored = [decode(saved[name][0], tensors.get(name), leaf) for name, leaf in wanted]
        return jax.tree_util.tree_unflatten(treedef, restored), manifest["metadata"]

    def _read(self, step: int, with_tensors: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        path = self._file(step)
        if not os.path.lexists(path):  # the reader refuses a link that leads nowhere
            known = ", ".join(map(str, self.steps())) or "none"
            raise FileNotFoundError(errno.ENOENT, f"no checkpoint of step {step}; saved steps: {known}", str(self.folder))
        with reading(path, _WHAT, _REMEDY):
            tensors, header = read_tensors(path, _WHAT, _REMEDY, header_only=not with_tensors)
            manifest = json.loads(header["manifest"])
            return {"metadata": manifest["metadata"], "leaves": manifest["leaves"]}, tensors


def check_same_settings(saved: dict[str, Any], current: dict[str, Any], folder: str | os.PathLike[str]) -> None:
    """Refuse to resume a run under other settings than it was started with.

    ``saved``: the metadata of a checkpoint; ``current``: what the run would save now. They are compared as JSON, so a tuple
    equals a list. Leave out of both what may change on resuming, such as the number of steps.

    Raises `ValueError` naming every setting that differs, with both values.

    >>> check_same_settings({"seed": 0}, {"seed": 1}, "runs/a")
    Traceback (most recent call last):
    ...
    ValueError: runs/a was started with other settings: seed was 0, now 1. Repeat the first settings, or give another folder.
    """
    before, now = _flat_json(saved), _flat_json(current)
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed:
        changes = "; ".join(f"{name} was {before.get(name, 'not set')}, now {now.get(name, 'not set')}" for name in changed)
        raise ValueError(
            f"{os.fspath(folder)} was started with other settings: {changes}. "
            "Repeat the first settings, or give another folder."
        )


def _flat_json(tree: object, prefix: str = "") -> dict[str, str]:
    # Text, not values: NaN has to equal NaN, and 1 must not equal True.
    if isinstance(tree, dict) and tree:
        parts = (_flat_json(value, f"{prefix}.{name}" if prefix else str(name)) for name, value in tree.items())
        return {name: text for part in parts for name, text in part.items()}
    return {prefix: json.dumps(tree, sort_keys=True)}


def latest(folder: str | os.PathLike[str]) -> int | None:
    """The step of the last checkpoint in a folder; None where there is none, and no folder is made."""
    return Checkpoints(folder).latest() if os.path.isdir(folder) else None


_PYTHON_SCALARS = (bool, int, float, str)


def describe(path: str, leaf: PyTree) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape of a leaf, as the manifest spells them."""
    if type(leaf) in _PYTHON_SCALARS:
        return f"Python {type(leaf).__name__}", ()
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not (is_key(leaf) or (dtype.isnative and (dtype == np.bool_ or jnp.issubdtype(dtype, np.number)))):
        got = type(leaf).__name__ + ("" if dtype is None else f" of dtype {dtype}")
        raise TypeError(
            f"state{path} cannot be saved, got {got}: leaves must be arrays of numbers or booleans, random keys, or Python "
            "scalars (bool, int, float, str)."
        )
    return str(dtype), tuple(leaf.shape)


def encode(state: PyTree, metadata: dict[str, Any]) -> bytes:
    """The whole checkpoint as the bytes of a safetensors file."""
    entries, tensors = [], {}
    for key_path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        path = jax.tree_util.keystr(key_path)
        dtype, shape = describe(path, leaf)
        entries.append({"path": path, "dtype": dtype, "shape": shape})
        if type(leaf) in _PYTHON_SCALARS:
            entries[-1]["value"] = leaf
            continue
        array = np.asarray(key_numbers(leaf), order="C")
        # What the format has no name for, such as bfloat16 or complex128, goes as bytes.
        stored_as_is = array.dtype.kind in "biuf" and array.itemsize <= 8
        tensors[path] = array if stored_as_is else np.frombuffer(array.tobytes(), np.uint8)
    try:
        manifest = json.dumps({"metadata": metadata, "leaves": entries})
    except (TypeError, ValueError) as error:
        raise TypeError(f"metadata must be what JSON can hold (dict, list, str, number, bool, None): {error}.") from error
    return pack_tensors(tensors, {"version": "2", "manifest": manifest})


def described(entry: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape that a manifest's entry states."""
    return str(entry["dtype"]), tuple(int(size) for size in entry["shape"])


def decode(entry: dict[str, Any], stored: np.ndarray | None, target: PyTree) -> Any:
    """One leaf, from its manifest entry and its stored tensor, in the target's kind."""
    if is_key(target):
        data = _pinned(stored, jax.random.key_data(target)) if target.committed else jnp.array(stored)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(target))
    if stored is None:
        value = entry["value"]
    else:
        dtype = np.dtype(entry["dtype"])
        value = (stored if stored.dtype == dtype else stored.view(dtype)).reshape(entry["shape"])
    if type(target) in _PYTHON_SCALARS:
        return type(target)(value)
    value = np.array(value, dtype=target.dtype)
    if isinstance(target, np.generic):
        return value[()]
    if isinstance(target, np.ndarray):
        return value
    # Only an array that was pinned to its devices is pinned again: pinning one that was free would compile anew.
    return _pinned(value, target) if getattr(target, "committed", False) else jnp.array(value)


def _pinned(value: ArrayLike | None, target: jax.Array) -> jax.Array:
    """The value on the target's devices, of which other processes of the fit may have some, and put the same there."""
    if target.sharding.is_fully_addressable:
        return jax.device_put(value, target.sharding)
    return jax.make_array_from_callback(target.shape, target.sharding, lambda index: np.asarray(value)[index])


def _differences(saved: dict[str, tuple[str, tuple[int, ...]]], wanted: dict[str, tuple[str, tuple[int, ...]]]) -> list[str]:
    """One sentence for every leaf that the checkpoint and the run do not share; both say dtype and shape by path."""
    differences = [f"state{path} is only in the checkpoint" for path in saved if path not in wanted]
    for path, (dtype, shape) in wanted.items():
        if path not in saved:
            differences.append(f"state{path} is only in this run")
            continue
        old_dtype, old_shape = saved[path]
        weak = "Python" in old_dtype or "Python" in dtype
        same = _family(old_dtype) == _family(dtype) if weak else old_dtype == dtype
        if not same or old_shape != shape:
            differences.append(
                f"state{path} is {old_dtype}{list(old_shape)} in the checkpoint and {dtype}{list(shape)} in this run"
            )
    return differences


def _family(dtype: str) -> str:
    return next((name for name in ("bool", "int", "float", "complex") if name in dtype), dtype)
