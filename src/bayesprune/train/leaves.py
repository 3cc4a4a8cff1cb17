"""The leaves of a checkpoint: a pytree as the bytes of one safetensors file, and back.

The file holds the arrays, and in its header a JSON manifest with every leaf's path, dtype and shape, the Python scalars and the
caller's metadata; and a checksum of all.
"""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.formats import pack_tensors
from bayesprune.core.keys import is_key, key_numbers
from bayesprune.core.types import PyTree

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


def differences(saved: dict[str, tuple[str, tuple[int, ...]]], wanted: dict[str, tuple[str, tuple[int, ...]]]) -> list[str]:
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
