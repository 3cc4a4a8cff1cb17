"""A posterior as one safetensors file, which any language can read: see docs/reading_a_posterior.md for the format."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayesprune.core.files import reading, write_atomically
from bayesprune.core.formats import jsonable, pack_tensors, read_tensors
from bayesprune.core.types import MeanField, SpikeSlab
from bayesprune.report.inputs import ArrayLike, truth_values

__all__ = ["SavedPosterior", "load_posterior", "save_posterior"]

FORMAT, VERSION = "bayesprune posterior", "1"
WHAT, REMEDY = "safetensors file of a posterior", "Copy it, or save it, again."
Node = MeanField | SpikeSlab


class SavedPosterior(NamedTuple):
    """What a file holds: {site: MeanField or SpikeSlab}, {site: booleans, True = alive}, and the caller's notes."""

    posterior: dict[str, Node]
    mask: dict[str, np.ndarray]
    metadata: dict[str, Any]


def save_posterior(
    path: str | os.PathLike[str],
    posterior: Mapping[str, Any],
    mask: Mapping[str, ArrayLike],
    metadata: Mapping[str, Any],
) -> None:
    """Write a posterior, its mask and notes to ``path`` (``.safetensors``), whole or not at all.

    ``posterior``: {site: MeanField or SpikeSlab} of arrays; scales (and logits) are spread to the shape of ``loc``.
    ``mask``: {site: booleans of that shape}, for prunable sites; may be empty. ``metadata``: anything JSON can hold (NaN
    becomes null), such as prior scales, the data set, seeds. Tensors are named ``loc/<site>``, ``scale/<site>``,
    ``logit/<site>``, ``prior_scale/<site>`` (where the prior is Gaussian), ``unit/<site>`` and ``mask/<site>``.

    Raises ``ValueError`` for a mask that fits no site, ``TypeError`` for metadata with no JSON form, ``OSError`` with the
    path and a remedy where the disk refuses; an older file at ``path`` is then left as it was.

    >>> import tempfile
    >>> posterior = {"Dense_0.kernel": MeanField(np.ones((2, 3)), np.full((2, 3), 0.1))}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_posterior(f"{folder}/p.safetensors", posterior, {}, {"seed": 0})
    ...     load_posterior(f"{folder}/p.safetensors").metadata
    {'seed': 0}
    """
    tensors: dict[str, np.ndarray] = {}
    for site, node in posterior.items():
        tensors |= _tensors(site, node)
    for site, alive in mask.items():
        values = truth_values(alive, f"mask[{site!r}]")
        if site not in posterior or values.shape != tensors[f"loc/{site}"].shape:
            got = tensors[f"loc/{site}"].shape if site in posterior else "no such site"
            raise ValueError(
                f"mask[{site!r}] has shape {values.shape}, the posterior there: {got}. Give masks only for the posterior's own "
                f"sites, in the shape of loc; its sites are {', '.join(sorted(posterior))}."
            )
        tensors[f"mask/{site}"] = values
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sites": json.dumps(list(posterior)),
        "metadata": json.dumps(jsonable(dict(metadata), "metadata"), allow_nan=False),
    }
    write_atomically(path, pack_tensors(tensors, header))


def _tensors(site: str, node: Any) -> dict[str, np.ndarray]:
    if not isinstance(node, Node):
        raise TypeError(f"posterior[{site!r}] must be a MeanField or a SpikeSlab, got {type(node).__name__}.")
    loc = _plain(node.loc)
    fields = {"loc": loc, "scale": _plain(node.scale)}
    if isinstance(node, SpikeSlab):
        fields["logit"] = _plain(node.logit)
    meaning = {"unit": node.unit, "prior_scale": getattr(node, "prior_scale", None)}
    kept = {f"{name}/{site}": _plain(value) for name, value in meaning.items() if value is not None}
    try:
        return kept | {f"{name}/{site}": np.broadcast_to(array, loc.shape) for name, array in fields.items()}
    except ValueError:
        shapes = {name: array.shape for name, array in fields.items()}
        raise ValueError(f"posterior[{site!r}] has shapes {shapes}: they must broadcast to that of loc.") from None


def _plain(array: Any) -> np.ndarray:
    """On the host; bfloat16, which NumPy alone cannot read, widened to float32 without loss."""
    host = np.asarray(array)
    return host.astype(np.float32) if host.dtype.name == "bfloat16" else host


def load_posterior(path: str | os.PathLike[str]) -> SavedPosterior:
    """Read what `save_posterior` wrote: ``(posterior, mask, metadata)``, of NumPy arrays, bit for bit.

    Raises ``FileNotFoundError`` where there is no file, ``ValueError`` for a file that is not such a posterior,
    `DamagedFileError`, a ``ValueError`` too, for one that has changed since or is cut short.

    >>> load_posterior("/nowhere/p.safetensors")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] no posterior at /nowhere/p.safetensors: check the path, or write one with save_posterior.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(2, f"no posterior at {path}: check the path, or write one with save_posterior.")
    tensors, header = read_tensors(path, WHAT, REMEDY)
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ValueError(
            f"{path} is not a version {VERSION} posterior of bayesprune, its header says format {header.get('format')!r}, "
            f"version {header.get('version')!r}: read it with safetensors itself, or with the release that wrote it."
        )
    with reading(path, WHAT, REMEDY):
        # Files of before kept the sites with their "coordinates", and said neither unit nor prior.
        sites = json.loads(header["sites"]) if "sites" in header else list(json.loads(header["coordinates"]))
        posterior = {site: _node(tensors, site) for site in sites}
        mask = {name.removeprefix("mask/"): tensors[name] for name in tensors if name.startswith("mask/")}
        return SavedPosterior(posterior, mask, json.loads(header["metadata"]))


def _node(tensors: Mapping[str, np.ndarray], site: str) -> Node:
    loc, scale = tensors[f"loc/{site}"], tensors[f"scale/{site}"]
    unit = tensors.get(f"unit/{site}", np.float32(1.0))
    if f"logit/{site}" in tensors:
        return SpikeSlab(loc, scale, tensors[f"logit/{site}"], unit)
    return MeanField(loc, scale, tensors.get(f"prior_scale/{site}"), unit)
