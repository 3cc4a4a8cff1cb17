"""The one file of a fit, safetensors: what `FitResult.save` and `report.save_fit` write; to the bit, no code, and no pickle.

A whole fit has its losses and history, one with its posterior written out the laws of its weights; parameters and masks are the
same in both.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayesprune.core.files import reading, write_atomically
from bayesprune.core.finite import check_finite
from bayesprune.core.formats import pack_tensors, read_tensors, require
from bayesprune.report import sound
from bayesprune.report.packing import pack, unpack

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
    ``params`` and ``mask`` nest (see `report.packing`), and the names of the ``history`` in their order; of a fit with a state
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
