"""Checkpoints: a run's state on disk, one file per saved step, complete or not there at all.

What a file holds is said in `bayesprune.infer.leaves`. It is written under another name and renamed when the last byte is on
the disk, so a run that is killed, or meets a full disk, leaves the checkpoint before it untouched.
"""

import contextlib
import errno
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import safe_open

from bayesprune.core.checks import check_integer
from bayesprune.core.types import PyTree
from bayesprune.infer import leaves

_NAME = "step_{:010d}.safetensors"
_PATTERN = re.compile(r"step_(\d{10,})\.safetensors")
_PARTIAL = ".partial"


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
        object.__setattr__(self, "folder", Path(self.folder).expanduser().absolute())
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            why = error.strerror or str(error)
            raise OSError(
                error.errno,
                f"cannot write checkpoints to {self._folder}: {why}. Give a folder you may write to, or train without one.",
            ) from error

    @property
    def _folder(self) -> Path:
        return Path(self.folder)

    def _file(self, step: int) -> Path:
        return self._folder / _NAME.format(step)

    def steps(self) -> list[int]:
        """Every step with a complete checkpoint, rising."""
        found = (_PATTERN.fullmatch(path.name) for path in self._folder.iterdir())
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
        latest = self.latest()
        if latest is not None and step < latest:
            raise ValueError(
                f"step must not lie before the latest checkpoint, got {step} and {self._folder} holds step {latest}: "
                "restore that one, delete it, or give another folder."
            )
        data = leaves.encode(state, metadata)
        partial = self._file(step).with_name(self._file(step).name + _PARTIAL)
        try:
            for left_over in self._folder.glob("step_*" + _PARTIAL):
                left_over.unlink()
            _write_through(partial, data)
            os.replace(partial, self._file(step))
            _sync_folder(self._folder)
            for old in self.steps()[: -self.keep]:
                self._file(old).unlink()
        except OSError as error:
            raise _not_written(error, step, self._folder, latest) from error
        finally:
            with contextlib.suppress(OSError):  # A disk that turned read-only keeps it; the first error is the one to tell.
                partial.unlink(missing_ok=True)

    def metadata(self, step: int) -> dict[str, Any]:
        """The metadata saved with ``step``, without reading the arrays. Raises as `restore` does."""
        return self._read(step, with_tensors=False)[0]["metadata"]

    def restore(self, step: int, target: PyTree) -> tuple[PyTree, dict[str, Any]]:
        """Read one checkpoint back bit for bit: ``(state, metadata)``.

        ``target``: a state of the same structure, for instance a fresh one. It gives the node types, decides for every leaf
        between NumPy and JAX, and where on the devices it lies; its values are not read. A Python scalar and a 0-d array of
        the same kind stand for each other; weak types come back as strong ones.

        Raises `ValueError` naming the first leaf that differs in path, dtype, shape or kind of key; `FileNotFoundError` for
        a step that was not saved; `OSError` for a file that is damaged.
        """
        manifest, tensors = self._read(step, with_tensors=True)
        paths, treedef = jax.tree_util.tree_flatten_with_path(target)
        wanted = [(jax.tree_util.keystr(path), leaf) for path, leaf in paths]
        saved = {entry["path"]: entry for entry in manifest["leaves"]}
        differences = leaves.differences(saved, {path: leaves.describe(path, leaf) for path, leaf in wanted})
        if differences:
            more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
            raise ValueError(
                f"the checkpoint of step {step} in {self._folder} does not fit this run: {differences[0]}{more}. It was "
                "saved by a run with other settings: repeat that run's arguments, or give another folder."
            )
        restored = [leaves.decode(saved[path], tensors.get(path), leaf) for path, leaf in wanted]
        return jax.tree_util.tree_unflatten(treedef, restored), manifest["metadata"]

    def delete(self, step: int) -> None:
        """Delete one checkpoint. Raises `FileNotFoundError` for a step that was not saved."""
        self._present(step).unlink()

    def _present(self, step: int) -> Path:
        if not self._file(step).exists():
            known = ", ".join(map(str, self.steps())) or "none"
            raise FileNotFoundError(errno.ENOENT, f"no checkpoint of step {step}; saved steps: {known}", str(self._folder))
        return self._file(step)

    def _read(self, step: int, with_tensors: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        path = self._present(step)
        try:
            with safe_open(path, framework="np") as file:
                manifest = json.loads(file.metadata()["manifest"])
                names = file.keys() if with_tensors else ()
                return manifest, {name: file.get_tensor(name) for name in names}
        except Exception as error:
            raise OSError(
                errno.EIO,
                f"cannot read the checkpoint {path}: {error}. Delete that file to resume from the one before it.",
            ) from error


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
        told = "; ".join(f"{name} was {before.get(name, 'not set')}, now {now.get(name, 'not set')}" for name in changed)
        raise ValueError(
            f"{os.fspath(folder)} was started with other settings: {told}. Repeat the first settings, or give another folder."
        )


def _flat_json(tree: Any, prefix: str = "") -> dict[str, str]:
    # Text, not values: NaN has to equal NaN, and 1 must not equal True.
    if isinstance(tree, dict) and tree:
        parts = (_flat_json(value, f"{prefix}.{name}" if prefix else str(name)) for name, value in tree.items())
        return {name: text for part in parts for name, text in part.items()}
    return {prefix: json.dumps(tree, sort_keys=True)}


def _write_through(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, on systems where a folder can be opened for that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _not_written(error: OSError, step: int, folder: Path, latest: int | None) -> OSError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "Free space there" if full else "Make the folder writable"
    resume = "no checkpoint was saved before" if latest is None else f"the checkpoint of step {latest} is whole"
    return OSError(
        error.errno,
        f"cannot write the checkpoint of step {step} to {folder}: {error.strerror or error}. {remedy}, or give another folder, "
        f"and start again: {resume}.",
    )
