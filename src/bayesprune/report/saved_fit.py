"""A whole fit as one safetensors file: parameters, mask, losses and history, to the bit; no code, and no pickle."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayesprune.core.files import reading, write_atomically
from bayesprune.core.finite import check_finite
from bayesprune.core.formats import pack_tensors, read_tensors, require
from bayesprune.report.packing import pack, unpack

FORMAT, VERSION = "bayesprune fit", "3"
WHAT, REMEDY = "file of a fit", "Copy it, or save it, again."


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
    texts = {"format": FORMAT, "version": VERSION} | {name: json.dumps(value) for name, value in header.items()}
    write_atomically(path, pack_tensors(tensors | alive | record | kept, texts))


def read_fit(path: str | os.PathLike[str]) -> SavedFit:
    """What `write_fit` wrote, bit for bit; parameters and mask as JAX arrays.

    Raises ``ValueError`` for another version, `DamagedFileError`, a ``ValueError`` too, for a file that has changed since.
    """
    tensors, header = read_tensors(path, WHAT, REMEDY)
    if header.get("version") != VERSION:
        raise ValueError(
            f"{os.fspath(path)} holds a fit in version {header.get('version')!r}, this release reads {VERSION}: "
            "read it with the release that wrote it."
        )
    with reading(path, WHAT, REMEDY):
        require(header, ("params", "mask", "history"))
        plans: Mapping[str, Any] = {name: json.loads(header[name]) for name in ("params", "mask", "history")}
        history = {name: tensors[f"history/{name}"] for name in plans["history"]}
        kept, rest = json.loads(header.get("state", "[[], {}]"))
        state = rest | unpack(kept, tensors) if "state" in header else None
        return SavedFit(unpack(plans["params"], tensors), tensors["losses"], unpack(plans["mask"], tensors), history, state)
