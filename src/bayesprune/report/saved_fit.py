"""The one file of a fit, safetensors: what `FitResult.save` and `report.save_fit` write; to the bit, no code, and no pickle.

A whole fit has its losses and history, one with its posterior written out the laws of its weights; parameters and masks are the
same in both: nested dicts of arrays, as named tensors and a plan of how they nest.

The plan is made of JSON's types. An array is ``{"tensor": its name, "dtype": its type}``, a dict a list of pairs of key and
plan: keys keep their order and kind, and a dict without entries stays one. Of an array with many zeros, as pruned ones and
samples have, the others are kept, in order, and a bit for each number (`numpy.packbits`): "alive" names these, "shape" is the
array's.
"""

import json
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.files import reading, write_atomically
from bayesprune.core.finite import check_finite
from bayesprune.core.formats import pack_tensors, read_tensors, require
from bayesprune.core.numbers import without_mask
from bayesprune.report import sound

FORMAT, VERSION = "bayesprune fit", "5"
WHAT, REMEDY = "file of a fit", "Copy it, or save it, again."
WHOLE, LAWS = "history", "sites"  # entries of the header that say what a file holds


class SavedFit(NamedTuple):
    """What the file of a fit holds, by the names of `FitResult`'s fields.

    ``state``: entries that are texts, numbers or dicts of arrays.
    """

    params: dict[str, Any]
    losses: np.ndarray
    mask: dict[str, Any]
    history: dict[str, np.ndarray]
    state: dict[str, Any] | None = None


def write_fit(path: str | os.PathLike[str], fit: SavedFit) -> None:
    """Write a fit, atomically.

    Tensors: ``param/<name>``, ``mask/<site>``, ``losses``, ``history/<name>``. Header: ``format``, ``version``, plans of how
    ``params`` and ``mask`` nest (see `pack`), and the names of the ``history`` in their order; of a fit with a state
    ``state/<entry>[<path>]``, their plan, and in ``state`` what is no array. Raises ``TypeError`` for parameters that are no
    arrays, ``ValueError`` for NaN among them, ``OSError`` with the path and a remedy where the disk refuses.
    """
    check_finite(fit.params, "fit.params")
    params, tensors = pack(fit.params, "param/{}", {})
    mask, alive = pack(fit.mask, "mask/{}", {})
    record = {"losses": np.asarray(fit.losses)} | {f"history/{name}": np.asarray(v) for name, v in fit.history.items()}
    header = {"params": params, "mask": mask, "history": list(fit.history)}
    state, kept = pack({name: v for name, v in (fit.state or {}).items() if isinstance(v, dict)}, "state/{}", {})
    if fit.state is not None:
        header["state"] = [state, {name: value for name, value in fit.state.items() if not isinstance(value, dict)}]
    write_parts(path, tensors | alive | record | kept, header)


def read_fit(path: str | os.PathLike[str]) -> SavedFit:
    """What `write_fit` wrote, bit for bit; parameters and mask as JAX arrays.

    Errors as of `read_parts`, and `DamagedFileError` for numbers that no fit has, see `report.sound`.
    """
    tensors, header = read_parts(path)
    with reading(path, WHAT, REMEDY):
        require(header, ("params", "mask", WHOLE))
        plans: Mapping[str, Any] = {name: json.loads(header[name]) for name in ("params", "mask", "history")}
        history = {name: tensors[f"history/{name}"] for name in plans["history"]}
        kept, rest = json.loads(header.get("state", "[[], {}]"))
        state = rest | unpack(kept, tensors) if "state" in header else None
        params, mask = (unpack(plans[name], tensors) for name in ("params", "mask"))
        sound.check_params(params)
        sound.check_mask_of_params(mask, params)
        sound.check_record(tensors["losses"], history, state)
        return SavedFit(params, tensors["losses"], mask, history, state)


def write_parts(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write tensors and a header of JSON's types, atomically."""
    texts = {"format": FORMAT, "version": VERSION} | {name: json.dumps(value) for name, value in header.items()}
    write_atomically(path, pack_tensors(tensors, texts))


def read_parts(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors, and the header's texts.

    Raises ``ValueError`` for another format or version, `DamagedFileError`, a ``ValueError`` too, for a file that has changed.
    """
    tensors, header = read_tensors(path, WHAT, REMEDY)
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ValueError(
            f"{os.fspath(path)} is no fit of bayesprune in version {VERSION}, its header says format {header.get('format')!r}, "
            f"version {header.get('version')!r}: read it with bp.load, which takes every file of ours, or with the release "
            "that wrote it."
        )
    return tensors, header


Plan = Any
# Below this share of zeros, or so few numbers, whole arrays are about as small.
_ZEROS, _NUMBERS = 1 / 16, 256
_ALIVE = "{}$alive"


def pack(tree: Mapping[Any, Any], name: str, held: Mapping[int, str]) -> tuple[Plan, dict[str, np.ndarray]]:
    """The plan of a dict, and its tensors: those of a dict within are named by their keys in brackets.

    ``held``: names of tensors that are kept already, by the identity of the array. An entry of placeholders without arrays,
    such as NumPyro's ``"nn$params"``, is left out: a model makes it again. Any other tree, such as an Equinox module, is kept
    as a dict of its arrays by their paths (`jax.tree_util.keystr`). Raises ``TypeError`` for what is neither a dict, by texts
    or integers, nor an array of numbers, nor a tree of such.

    >>> plan, tensors = pack({"w": np.ones(2), "net": {"mean": np.ones(3)}, "empty": {}}, "param/{}", {})
    >>> list(tensors), plan[2]
    (['param/w', 'param/net[mean]'], ['empty', []])
    """
    plan: list[Any] = []
    tensors: dict[str, np.ndarray] = {}
    for key, value in tree.items():
        here, more = name.format(key), dict[str, np.ndarray]()
        if type(key) not in (str, int):
            raise TypeError(f"{here} has the key {key!r}: keys must be texts or integers.")
        if not isinstance(value, Mapping | list | tuple) and not jax.tree_util.all_leaves([value]):
            value = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(value)}
            if not value:
                continue
        if isinstance(value, Mapping):
            part, more = pack(value, here.replace("{", "{{").replace("}", "}}") + "[{}]", held)
            if part or not value:
                plan.append([key, part])
        elif jax.tree.leaves(value):
            array = _numbers(value, here)
            entry: dict[str, Any] = {"tensor": held.get(id(value), here), "dtype": array.dtype.name}
            if id(value) not in held:
                more = {here: plain(array)} if _ALIVE.format(key) in tree else _thin(here, plain(array))
                entry |= {"alive": _ALIVE.format(here), "shape": list(array.shape)} if len(more) > 1 else {}
            plan.append([key, entry])
        if twice := tensors.keys() & more.keys():
            raise TypeError(f"{min(twice)} would be two tensors of one name: name one of the two keys anew.")
        tensors |= more
    return plan, tensors


def _thin(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """The array, or its numbers that are not +0 and where they are."""
    if array.size < _NUMBERS or array.dtype.kind != "f":
        return {name: array}
    alive = (array != 0) | np.signbit(array)
    if np.mean(alive) > 1 - _ZEROS:
        return {name: array}
    return {name: array[alive], _ALIVE.format(name): np.packbits(alive.reshape(-1))}


def _numbers(value: object, name: str) -> np.ndarray:
    array = np.asarray(without_mask(value, name))
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(
            f"{name} is a {type(value).__name__}, which cannot be saved: parameters are arrays of numbers or dicts."
        )
    return array


def unpack(plan: Plan, tensors: Mapping[str, np.ndarray]) -> Any:
    """What `pack` took apart, as JAX arrays."""
    if isinstance(plan, list):
        return {key: unpack(part, tensors) for key, part in plan}
    found = tensors[plan["tensor"]]
    return jnp.asarray(_whole(found, tensors[plan["alive"]], plan["shape"]) if "alive" in plan else found, plan["dtype"])


def _whole(numbers: np.ndarray, bits: np.ndarray, shape: list[int]) -> np.ndarray:
    """What `_thin` took apart. Raises `ValueError` where the parts do not belong together."""
    size = math.prod(shape)
    alive = np.unpackbits(bits).astype(bool)  # in whole bytes, the last filled up with zeros
    fit = bits.ndim == 1 and len(bits) == -(-size // 8) and not alive[size:].any() and numbers.shape == (alive.sum(),)
    if not fit or any(side < 0 for side in shape):
        raise ValueError(f"{numbers.size} numbers and {bits.size} bytes of bits make no array of shape {shape}")
    whole = np.zeros(size, numbers.dtype)
    whole[alive[:size]] = numbers
    return whole.reshape(shape)


def plain(array: ArrayLike) -> np.ndarray:
    """On the host; bfloat16, which NumPy alone cannot read, widened to float32 without loss."""
    host = np.asarray(without_mask(array, "an array to save"))
    return host.astype(np.float32) if host.dtype.name == "bfloat16" else host
