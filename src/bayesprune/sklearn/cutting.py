"""The cut after the fit: which method goes with which prior, and what the cut network says of its inputs."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float32

from bayesprune import features
from bayesprune.core import masks, types
from bayesprune.core.checks import check_density, got, unknown_name
from bayesprune.methods.bmr import BMR
from bayesprune.methods.sbnn import SBNN
from bayesprune.methods.snr import SNR
from bayesprune.methods.svbnn import SVBNN
from bayesprune.model.bnn import BNN
from bayesprune.priors import GaussianSlab, ScaleMixture
from bayesprune.prune.one_shot import prune_once
from bayesprune.sklearn.annealing import is_auto

NAMES = ("auto", "none")
Params = dict[str, Any]


class Inputs(NamedTuple):
    """What a fit says of its inputs.

    ``gated``: whether the probabilities are a posterior's, and not just zeros and ones. ``inclusion``: (inputs,) in [0, 1].
    ``importance`` and ``log_importance``: (inputs,), the two of `features.importance`. ``used``: (inputs,) booleans.
    """

    gated: bool
    inclusion: Float32[np.ndarray, " inputs"]
    importance: Float32[np.ndarray, " inputs"]
    log_importance: Float32[np.ndarray, " inputs"]
    used: Bool[np.ndarray, " inputs"]


def check(method: Any, density: Any) -> None:
    """Refuse what no fit can be cut by, before there is a fit."""
    if density is not None:
        if isinstance(density, str):
            raise TypeError(f"density must be a number in (0, 1], or None; got {density!r}.")
        check_density(density)
        if not is_auto(method):
            raise ValueError(f"density={density} goes with method='auto', got method={method!r}: set it on the method itself.")
    if isinstance(method, str):
        if method not in NAMES:
            remedy = "Or give an object of bayesprune.methods, such as methods.SNR(density=0.1)."
            raise unknown_name("method", method, NAMES, remedy)
    elif not (hasattr(method, "init") and hasattr(method, "step")) or isinstance(method, type):
        raise TypeError(f"method must be 'auto', 'none' or an object of bayesprune.methods, got {got(method)}.")


def choose(method: Any, density: float | None, bnn: BNN, params: Params) -> Any:
    """The sparsifier to use once after the fit, or None for no cut.

    "auto" cuts spike-and-slab posteriors at inclusion 1/2 and others by their evidence; to a ``density`` by inclusion or by
    signal-to-noise ratio. A scale mixture has neither inclusion nor evidence: it is cut to a density or not at all.
    """
    if not isinstance(method, str):
        return method
    if method == "none":
        return None
    if is_gated(bnn.read(params)):
        return SBNN(density=density) if isinstance(bnn.prior, GaussianSlab) else SVBNN(density=density)
    if density is not None:
        return SNR(density=density)
    return None if isinstance(bnn.prior, ScaleMixture) else BMR()


def is_gated(nodes: dict[str, Any]) -> bool:
    """Whether the posterior has an inclusion probability for every weight."""
    return all(node.gated for node in nodes.values())


def cut(rng_key: jax.Array, bnn: BNN, params: Params, sparsifier: Any) -> tuple[Params, dict[str, Any], float]:
    """Parameters with the dead weights at zero, the mask, and its density; all weights alive without a sparsifier."""
    if sparsifier is None:
        return params, masks.full_like(bnn.read(params)), 1.0
    pruned: types.Pruned = prune_once(params, sparsifier, read=bnn.read, rng_key=rng_key)
    return pruned.params, pruned.mask, float(pruned.info.density)


def describe_inputs(bnn: BNN, params: Params, mask: dict[str, Any]) -> Inputs:
    """What the gates say of the inputs: those of the posterior before the cut where it has any, else those of the mask.

    ``used`` is of the network as it was cut.
    """
    nodes = bnn.read(params)
    found = _statistics(list(nodes.values()), [mask[site] for site in nodes])
    return Inputs(is_gated(nodes), *(np.asarray(value) for value in found))


# In one program: alone, each of the small operations would be compiled anew for every shape of X. Sequences, because
# `jax.jit` would sort a dict by its names.
@jax.jit
def _statistics(nodes: list[Any], alive: list[Any]) -> tuple[Any, ...]:
    within: Any = True if all(node.gated for node in nodes) else alive
    importance = features.importance(nodes, within)
    inclusion = features.inclusion_probabilities(nodes, within)
    return inclusion, importance.scaled, importance.log_raw, features.selected(nodes, "median", mask=alive)
