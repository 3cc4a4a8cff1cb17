"""A fit with its posterior written out, which any language can read: see docs/reading_a_posterior.md for the format."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from bayesprune.core.files import reading
from bayesprune.core.finite import check_finite
from bayesprune.core.formats import jsonable, require
from bayesprune.core.types import Array, Node
from bayesprune.posteriors.params import kinds
from bayesprune.report import sound
from bayesprune.report.inputs import ArrayLike, truth_values
from bayesprune.report.saved_fit import LAWS, REMEDY, WHAT, WHOLE, pack, plain, read_parts, unpack, write_parts

__all__ = ["SavedPosterior", "load_posterior", "save_fit", "save_posterior"]

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class SavedPosterior:
    """What a file holds.

    ``posterior``: {site: node}; ``mask``: {site: booleans, True = alive}; ``metadata``: the writer's notes;
    these three are what unpacking gives. ``params``: the parameters of the fit, which `predict` and `bmr_prune` take as they
    take ``fit.params``; empty for a file that holds a posterior alone.
    """

    posterior: dict[str, Node]
    mask: dict[str, np.ndarray]
    metadata: dict[str, Any]
    params: dict[str, Any]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.posterior, self.mask, self.metadata))


def save_fit(path: str | os.PathLike[str], program: Any, fit: Any, metadata: Mapping[str, Any] = NOTHING) -> None:
    """Write a fit to ``path`` (``.safetensors``): what `load_posterior` reads back predicts exactly what the fit does.

    ``program``: the `BNN` or `Program` of the fit; ``fit``: a `FitResult`, a `Pruned`, or anything with fields ``params`` and
    ``mask``. ``metadata``: as in `save_posterior`, whose errors it raises too.

    >>> import jax, tempfile, bayesprune as bp
    >>> data = bp.Dataset(np.eye(4, dtype=np.float32), np.arange(4))
    >>> bnn = bp.BNN(bp.nets.MLP((3,), 4), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    >>> fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bp.report.save_fit(f"{folder}/fit.safetensors", bnn, fit)
    ...     saved = bp.report.load_posterior(f"{folder}/fit.safetensors")
    >>> one, other = (bp.predict(jax.random.key(1), bnn, params, data.x) for params in (fit.params, saved.params))
    >>> bool((one == other).all())
    True
    """
    posterior = getattr(program, "posterior", program.read)(fit.params)
    save_posterior(path, posterior, fit.mask, metadata, params=fit.params)


def save_posterior(
    path: str | os.PathLike[str],
    posterior: Mapping[str, Any],
    mask: Mapping[str, ArrayLike],
    metadata: Mapping[str, Any],
    params: Mapping[str, Any] = NOTHING,
) -> None:
    """Write a posterior, its mask and notes to ``path`` (``.safetensors``), whole or not at all.

    ``posterior``: {site: node} of arrays; scales (and logits) are spread to the shape of ``loc``. Of a node of a user's own
    family its marginals are kept, as a `MeanField`: ``bnn.read(params)`` gives it back whole.
    ``mask``: {site: booleans of that shape}, for prunable sites; may be empty. ``metadata``: anything JSON can hold (NaN
    becomes null), such as the data set and seeds. ``params``: NumPyro parameters to keep beside them, see `save_fit`. Tensors
    are named ``loc/<site>``, ``scale/<site>``, ``logit/<site>``, ``prior_scale/<site>`` (where the prior is Gaussian),
    ``unit/<site>``, ``rows/<site>`` and ``columns/<site>`` (of weights that vary together), ``mask/<site>`` and
    ``param/<name>``.

    Raises ``ValueError`` for a mask that fits no site, for NaN, and for what is no posterior, such as scales below zero,
    ``TypeError`` for metadata with no JSON form, ``OSError`` with the path and a remedy where the disk refuses; an older file
    at ``path`` is then left as it was.

    >>> import tempfile
    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> posterior = {"Dense_0.kernel": MeanField(np.ones((2, 3)), np.full((2, 3), 0.1))}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_posterior(f"{folder}/p.safetensors", posterior, {}, {"seed": 0})
    ...     load_posterior(f"{folder}/p.safetensors").metadata
    {'seed': 0}
    """
    check_finite(params, "params")
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
    try:
        masks = {site: tensors[f"mask/{site}"] for site in mask}
        sound.check_posterior({site: _node(tensors, site) for site in posterior}, masks)
    except ValueError as error:
        raise ValueError(f"a file of this could not be read back: {error}. Mend it first.") from None
    header: dict[str, Any] = {LAWS: list(posterior), "metadata": jsonable(dict(metadata), "metadata")}
    if params:
        header["params"], more = pack(params, "param/{}", _held(posterior, tensors))
        tensors |= more
    write_parts(path, tensors, header)


def _held(posterior: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> dict[int, str]:
    """The arrays of the nodes that are kept as they are, by identity: parameters that are the same need no second copy."""
    fields = [(getattr(node, name), f"{name}/{site}") for site, node in posterior.items() for name in _arrays(node)]
    return {id(array): name for array, name in fields if array is not None and np.shape(array) == tensors[name].shape}


def _arrays(node: Node) -> tuple[str, ...]:
    """The fields of a node that a file holds as arrays: those of its kind, or, of one of the user's own, the marginals."""
    return next((names for kind, names in kinds().items() if type(node) is kind), ("loc", "scale"))


def _tensors(site: str, node: Node | Array) -> dict[str, np.ndarray]:
    if not isinstance(node, Node):
        raise TypeError(f"posterior[{site!r}] must be a MeanField or a SpikeSlab, got {type(node).__name__}.")
    check_finite({f"{site}_{name}": getattr(node, name) for name in _arrays(node)}, "posterior's numbers")
    loc, values = plain(node.loc), {name: plain(getattr(node, name)) for name in _arrays(node)}
    fields = {name: values.pop(name) for name in ("loc", "scale", "logit") if name in values}
    meaning = {"unit": node.unit, "prior_scale": node.prior_scale, "at_zero": None if getattr(node, "at_zero", True) else False}
    kept = {f"{name}/{site}": plain(value) for name, value in meaning.items() if value is not None}
    kept |= {f"{name}/{site}": array for name, array in values.items()}
    try:
        return kept | {f"{name}/{site}": np.broadcast_to(array, loc.shape) for name, array in fields.items()}
    except ValueError:
        shapes = {name: array.shape for name, array in fields.items()}
        raise ValueError(f"posterior[{site!r}] has shapes {shapes}: they must broadcast to that of loc.") from None


def load_posterior(path: str | os.PathLike[str]) -> SavedPosterior:
    """Read what `save_fit` or `save_posterior` wrote, bit for bit: NumPy arrays, and JAX ones in ``params``.

    Raises ``FileNotFoundError`` where there is no file, ``ValueError`` for a file that is not such a posterior,
    `DamagedFileError`, a ``ValueError`` too, for one that has changed since, is cut short, or holds what is no posterior, as
    scales below zero and shapes that do not belong together.

    >>> load_posterior("/nowhere/p.safetensors")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] no posterior at /nowhere/p.safetensors: check the path, or write one with save_posterior.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(2, f"no posterior at {path}: check the path, or write one with save_posterior.")
    tensors, header = read_parts(path)
    if WHOLE in header:
        raise ValueError(f"{path} holds a fit without the laws of its weights, as fit.save writes it: read it with bp.load.")
    with reading(path, WHAT, REMEDY):
        require(header, (LAWS, "metadata"))
        posterior = {site: _node(tensors, site) for site in json.loads(header[LAWS])}
        mask = {name.removeprefix("mask/"): tensors[name] for name in tensors if name.startswith("mask/")}
        notes = json.loads(header["metadata"])
        if not isinstance(notes, dict):
            raise ValueError("its metadata are no notes by name")
        params = unpack(json.loads(header.get("params", "[]")), tensors)
        sound.check_posterior(posterior, mask)
        sound.check_params(params)
        return SavedPosterior(posterior, mask, notes, params)


def _node(tensors: Mapping[str, np.ndarray], site: str) -> Node:
    """The node of the kind whose arrays there are, the most of them."""
    kind, names = next(item for item in kinds().items() if all(f"{name}/{site}" in tensors for name in item[1]))
    node: Node = kind(**{name: tensors[f"{name}/{site}"] for name in names}, unit=tensors[f"unit/{site}"])
    if f"at_zero/{site}" in tensors:
        node = replace(node, at_zero=False)  # type: ignore[type-var]
    return node.under(tensors.get(f"prior_scale/{site}"))
