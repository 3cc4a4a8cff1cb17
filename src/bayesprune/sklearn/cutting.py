"""The cut after the fit: which method goes with which prior, and what the cut network says of its inputs."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32

from bayesprune import features
from bayesprune.core import masks, types
from bayesprune.core.checks import check_density, check_name, got
from bayesprune.core.compiling import quickly
from bayesprune.core.send import send
from bayesprune.methods.bmr import BMR
from bayesprune.methods.sbnn import SBNN
from bayesprune.methods.snr import SNR
from bayesprune.methods.svbnn import SVBNN
from bayesprune.model.bnn import BNN
from bayesprune.nets.wide_mlp import LINEAR
from bayesprune.posteriors import params as posterior_params
from bayesprune.priors import GaussianSlab
from bayesprune.prune.cutting import log_odds
from bayesprune.prune.one_shot import prune_once
from bayesprune.sklearn.annealing import is_auto
from bayesprune.sklearn.columns import Columns
from bayesprune.sklearn.network import NetworkRecipe
from bayesprune.sklearn.reading import Reading

NAMES = ("auto", "none")
PROBABILITIES = (0.5, 0.1, 0.03)  # of inclusion: where "auto" cuts, and where held-out rows may have it cut instead
SURE = 0.9  # of 0, all that the cut leaves, a table of simulated friedman1 is predicted worse by .02 nats a row
OPEN = 40.0  # log-odds of a weight that float32 never leaves out
Params = dict[str, Any]


class Learned(NamedTuple):
    """What one fit has learned before it is cut: what its network reads, the network, its parameters, their `rungs`, and the
    losses by step."""

    columns: Columns
    network: NetworkRecipe
    params: Params
    rungs: tuple[Any, ...]
    losses: np.ndarray


class InputColumns(NamedTuple):
    """What a fit says of its inputs.

    ``gated``: whether the probabilities are a posterior's, and not just zeros and ones. ``inclusion``: (inputs,) in [0, 1].
    ``importance`` and ``log_importance``: (inputs,), the two of `features.importance`. ``used``: (inputs,) booleans.
    """

    gated: bool
    inclusion: Float32[np.ndarray, " inputs"]
    importance: Float32[np.ndarray, " inputs"]
    log_importance: Float32[np.ndarray, " inputs"]
    used: Bool[np.ndarray, " inputs"]


def check(method: object, density: object) -> None:
    """Refuse what no fit can be cut by, before there is a fit."""
    if density is not None:
        if isinstance(density, str):
            raise TypeError(f"density must be a number in (0, 1], or None; got {density!r}.")
        check_density(density)
        if not is_auto(method):
            raise ValueError(f"density={density} goes with method='auto', got method={method!r}: set it on the method itself.")
    if isinstance(method, str):
        check_name("method", method, NAMES, "Or give an object of bayesprune.methods, such as methods.SNR(density=0.1).")
    elif not (hasattr(method, "init") and hasattr(method, "step")) or isinstance(method, type):
        raise TypeError(f"method must be 'auto', 'none' or an object of bayesprune.methods, got {got(method)}.")


def rungs(method: types.Sparsifier | str, density: float | None, bnn: BNN, params: Params) -> tuple[Any, ...]:
    """The sparsifiers that may be used once after the fit, the hardest cut first; None is no cut.

    With "auto" they depend on the posterior. Spike and slab: cuts at an inclusion probability of 1/2 or, if held-out rows
    prefer it, less. Other Gaussian priors: a cut by evidence, or none. Other priors, such as a scale mixture, have neither
    inclusion nor evidence: no cut. With a ``density`` there is one, by inclusion or by signal-to-noise ratio.
    """
    if not isinstance(method, str):
        return (method,)
    if method == "none":
        return (None,)
    nodes = bnn.read(params)
    if is_gated(nodes):
        kind = SBNN if isinstance(bnn.prior, GaussianSlab) else SVBNN
        if density is not None:
            return (kind(density=density),)
        return (*(kind(probability=least) for least in PROBABILITIES), None)
    if density is not None:
        return (SNR(density=density),)
    return (None,) if any(node.prior_scale is None for node in nodes.values()) else (BMR(), None)


def is_gated(nodes: dict[str, Any]) -> bool:
    """Whether the posterior has an inclusion probability for every weight."""
    return all(node.gated for node in nodes.values())


def cut(
    rng_key: jax.Array, bnn: BNN, params: Params, sparsifier: types.Sparsifier | None
) -> tuple[Params, dict[str, Any], float]:
    """Parameters with the dead weights at zero, the mask, and its density; all weights alive without a sparsifier."""
    if sparsifier is None:
        return params, masks.full_like(bnn.read(params)), 1.0
    pruned: types.Pruned = prune_once(params, sparsifier, read=bnn.read, rng_key=rng_key)
    return pruned.params, pruned.mask, float(pruned.info.density)


def cut_silent(bnn: BNN, params: Params, mask: dict[str, Any], silent: np.ndarray) -> tuple[Params, dict[str, Any], float]:
    """Cut the weights of inputs that are zero in every row: they have no effect on any of them."""
    first = next(str(spec.path) for spec in bnn.layout if spec.inputs)
    reading = [site for site in mask if site == first or site.startswith(LINEAR)]
    mask = mask | {site: np.asarray(mask[site]) & ~silent[:, None] for site in reading}
    alive = np.concatenate([np.ravel(one) for one in mask.values()])
    return bnn.cut(params, mask), mask, float(alive.mean())


def keep_sure(bnn: BNN, params: Params) -> Params:
    """The parameters with inclusion probabilities phi above 0.9 at 1, (5.4); those of families without gates as they are.

      logit phi* = logit lam - KL(N(loc, scale²) || slab) + E_q[log p(y | w) - log p(y | w, w_i = 0) | g_i = 1]

    is where phi ends under the bound: of a weight that the data need, hundreds or thousands of nats. Training comes to 5 or 8,
    for the slope of a hard gate (5.2) fades as 1 - phi does. With a few dozen such weights every tenth draw then lacks one that
    it cannot do without: the spread of its predictions is far too wide where the noise is small.
    """
    sure = {site: node for site, node in bnn.read(params).items() if node.gated}
    logits = _opened({site: node.log_odds() for site, node in sure.items()})
    nodes = {site: replace(node, logit=logits[site]) for site, node in sure.items()}  # type: ignore[type-var]
    return posterior_params.write(params, nodes) if nodes else params


# In one program: each shape would be compiled for by itself.
@jax.jit
def _opened(logits: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {site: jnp.where(logit > log_odds(SURE), OPEN, logit).astype(logit.dtype) for site, logit in logits.items()}


def describe_inputs(bnn: BNN, params: Params, mask: dict[str, Any], columns: Columns, reading: Reading) -> InputColumns:
    """Inclusion and importance of the table's columns, by the posterior's gates before the cut; without gates, by the mask.

    ``used``: whether an alive weight leaves an input of the cut network. All inputs that are made of a column count for it,
    on both paths of a wide network.
    """
    nodes = bnn.read(params)
    paths = [[site for site in nodes if site.startswith(LINEAR) == beside] for beside in (False, True)]
    statistics = _made_quickly(_statistics)
    found = [statistics([nodes[s] for s in path], [mask[s] for s in path]) for path in paths if path]
    dead, raw, used = (np.stack([np.asarray(one[part]) for one in found]) for part in range(3))

    def of_column(values: np.ndarray, join: np.ufunc) -> np.ndarray:
        return reading.of_table(columns.of_column(values, join), join)

    inclusion = -np.expm1(of_column(dead.sum(axis=0), np.add))
    log_raw = of_column(np.logaddexp.reduce(raw, axis=0), np.logaddexp)
    importance = np.asarray(_made_quickly(features.scaled)(send(log_raw)))
    still = of_column(np.asarray(used.any(axis=0)), np.logical_or)
    return InputColumns(is_gated(nodes), inclusion, importance, log_raw, still)


@functools.cache
def _made_quickly(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one program: alone, each of its small operations would be compiled anew for every shape of X."""
    return jax.jit(fn, compiler_options=quickly())


# Sequences, because `jax.jit` would sort a dict by its names.
def _statistics(nodes: list[Any], alive: list[Any]) -> tuple[Any, ...]:
    """Of one path: log probability that no edge leaves an input, log psi of (6.3), and whether an edge is alive."""
    within: Any = True if all(node.gated for node in nodes) else alive
    log_dead = features.log_unused(nodes, within)
    return log_dead, features.importance(nodes, within).log_raw, features.selected([one.astype(float) for one in alive])
