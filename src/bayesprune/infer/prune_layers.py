"""Cuts without retraining, layer by layer, by what the layers' outputs lose on some rows: Wanda and SparseGPT."""

import functools
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import check_density, check_name, check_positive
from bayesprune.core.given import GivenParams
from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, Pruned, PyTree, SparseState
from bayesprune.formulas.layer_inputs import best_without, damped, sparse_gpt, wanda
from bayesprune.infer.from_trained import from_trained
from bayesprune.infer.origins import check_one_network, params_and_mask
from bayesprune.infer.predict import check_bnn, check_sites
from bayesprune.model.bnn import BNN, STATE
from bayesprune.model.layout import ParamSpec
from bayesprune.model.net_params import mean_weights
from bayesprune.model.transforms.layer_inputs import Met, with_input_moments
from bayesprune.posteriors.samples import draws_of
from bayesprune.prune.bookkeeping import fill_unknown, make_info
from bayesprune.train.result import FitResult

RULES = ("wanda", "sparsegpt")
SCOPES = ("per_output", "layer")
ROWS = 128  # whose inputs are summed at once


def prune_layers(
    bnn: BNN | Any,
    params_or_fit: FitResult | Pruned | GivenParams | Any,
    x: PyTree,
    *,
    density: float = 0.5,
    rule: str = "sparsegpt",
    scope: str = "per_output",
    damping: float = 0.01,
) -> Pruned:
    """Cut every kernel by what its outputs lose on some rows, without gradients, targets or training.

      "wanda":      keep the highest |w_ij| ||X_i||                                                        (26.1)
      "sparsegpt":  keep the highest w_ij²/S_ii, S = (X'X + delta)^-1, and move what stays to its best     (26.3)

    X: a kernel's inputs over rows and positions. All kernels are judged by the inputs that the dense network gives them.

    Args:
        bnn: a `BNN` of the network, of posterior "mean_field" or "map".
        params_or_fit: a fit or its params; or what was trained by others, in any form that `from_trained` takes.
        x: rows to calibrate with, shape (rows, *input_shape), a few hundred.
        density: share of the weights of each output, or of each kernel, that stays, in (0, 1].
        rule: as above.
        scope: what competes: "per_output", the weights of one output, so that each has as many; or "layer", those of a kernel.
        damping: delta, as a share of the mean of X'X's diagonal.

    Returns:
        ``Pruned(params, mask, info)`` in the form of `bmr_prune`. Biases stay whole, and so do these kernels, of which a
        warning names the prunable ones: of convolutions in groups of channels, tables that are looked up, kernels in a loop too
        long to be written out (a GRU over hundreds of steps), those that differ from position to position, and what is made
        anew before it multiplies (weight normalisation).

    Raises:
        ValueError: an unknown name, a density outside (0, 1]; all prunable kernels would stay whole; samples; weights with
            gates, as under `priors.DiracSlab`.
        TypeError: ``bnn`` is no `BNN`.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1), posterior="map")
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=50, batch_size=64, progress=False)
        >>> pruned = bp.prune_layers(bnn, fit, train.x[:256], density=0.5)
        >>> probs = bp.predict(jax.random.key(1), bnn, pruned.params, test.x, mask=pruned.mask, num_samples=1)

    Source: Sun et al. (2024) for Wanda; Frantar & Alistarh (2023) for SparseGPT, whose choice goes on as it cuts; here it is
    made at once, and what stays moves to the exact optimum.
    """
    check_bnn(bnn)
    check_density(density)
    check_positive(damping, "damping")
    for name, value, names in (("rule", rule, RULES), ("scope", scope, SCOPES)):
        check_name(name, value, names)
    given, mask = params_and_mask(params_or_fit)
    if not isinstance(given, Mapping) or not (draws_of(given) or any(str(name).endswith("_loc") for name in given)):
        given = from_trained(bnn, given)
    check_one_network(given)
    params = dict(given)
    mask = check_sites(bnn, params, mask)
    if gated := [site for site, node in bnn.posterior(params).items() if node.gated and getattr(node, "at_zero", True)]:
        raise ValueError(
            f"the weights of {gated[0]!r} have gates, and prune_layers moves means, which are those of open gates times their "
            "probability: cut by methods.SVBNN, or give fit.net_params(bnn) to the same net under priors.Gaussian."
        )
    x = bnn.inputs.numbers(x, "x")
    weights = mean_weights(bnn, params, mask)
    met = input_moments(bnn, weights, params.get(STATE, {}), x)
    specs = {str(s.path): s for s in bnn.layout if s.prunable and str(s.path) in met}
    _check_left_whole(bnn, specs)
    alive = {str(s.path): np.ones(s.shape, bool) & np.asarray(mask.get(str(s.path), True)) for s in bnn.layout if s.prunable}
    means = {}
    for site in specs:
        means[site], alive[site] = _cut(
            np.asarray(weights[site], np.float64), met[site], alive[site], density, rule, scope, damping
        )
    sent = {site: send(kept) for site, kept in alive.items()}
    before = {site: send(np.broadcast_to(np.asarray(mask.get(site, True)), kept.shape)) for site, kept in alive.items()}
    info = make_info(before, SparseState(sent, None, send(1, np.int32)))
    return Pruned(_moved(bnn, bnn.cut(params, sent), means, specs), sent, fill_unknown(info))


def _check_left_whole(bnn: BNN, cut: Mapping[str, ParamSpec]) -> None:
    """Say which prunable kernels stay whole, and why; refuse to go on where there is nothing else."""
    left = {str(s.path): s for s in bnn.layout if s.prunable and s.inputs and str(s.path) not in cut}
    listed = "; ".join(f"{site} ({_why_left(bnn, spec)})" for site, spec in left.items())
    if not cut and not left:
        raise ValueError(
            "no prunable array meets its inputs in a product: prune_layers cuts kernels of dense layers and convolutions. Let "
            "prunable= of the BNN accept them, or cut by methods.Cut."
        )
    if not cut:
        raise ValueError(
            f"no prunable array meets its inputs in a product that prune_layers follows: {listed}. Cut by magnitude, "
            "bp.prune_once(..., bp.methods.Cut(scope='per_output'))."
        )
    if left:
        warnings.warn(
            f"prune_layers leaves prunable kernels whole, and density= is of the others alone: {listed}. bp.prune_once(..., "
            "bp.methods.Cut(...)) cuts them by magnitude.",
            UserWarning,
            stacklevel=3,
        )


def _why_left(bnn: BNN, spec: ParamSpec) -> str:
    role = bnn.graph.roles[str(spec.path)]
    if not role.used:
        return "the network does not use it"
    if role.looked_up:
        return "a table that is looked up"
    if role.channel_groups > 1:
        return f"a convolution in {role.channel_groups} groups of channels"
    if said := bnn.graph.unfollowed.get(str(spec.path)):
        return said.removesuffix(": kept whole")
    return "it is not the one matrix by which its inputs are multiplied"


def input_moments(bnn: BNN, weights: dict[str, Any], state: dict[str, Any], x: PyTree) -> dict[str, Met]:
    """X'X of every array that meets its inputs in a product, over all rows."""
    sites = list(weights)

    def outputs(values: list[Any], rows: ArrayTree) -> Any:
        return bnn.forward(dict(zip(sites, values, strict=True)), state, bnn.inputs.as_rows(rows))

    axes: dict[str, tuple[int, ...]] = {}

    @jax.jit
    @by_one_thread
    def chunk(values: list[Any], rows: ArrayTree) -> dict[str, jax.Array]:
        found = with_input_moments(outputs, sites)(values, rows)
        axes.update({site: met.axes for site, met in found.items()})
        return {site: met.moments for site, met in found.items()}

    total: dict[str, Any] = {}
    for first in range(0, rows_in(x), ROWS):
        part = chunk(list(weights.values()), jax.tree.map(lambda leaf, at=first: send(leaf[at : at + ROWS]), x))
        total = part if not total else jax.tree.map(jnp.add, total, part)
    return {site: Met(moments, axes[site]) for site, moments in total.items()}


def _cut(
    weights: np.ndarray, met: Met, alive: np.ndarray, density: float, rule: str, scope: str, damping: float
) -> tuple[np.ndarray, np.ndarray]:
    """The weights of one kernel that stay, and which."""
    as_columns = functools.partial(_columns, axes=met.axes)
    matrix, living = as_columns(weights), as_columns(alive)
    moments = np.asarray(met.moments, np.float64)
    precision = damped(moments, damping)
    worth = wanda(moments, matrix) if rule == "wanda" else sparse_gpt(precision, matrix)
    worth = np.where(living, worth, -np.inf)
    flat = worth if scope == "per_output" else worth.reshape(-1, 1)
    count = max(1, round(density * len(flat)))
    order = np.argsort(-flat, axis=0, kind="stable")
    kept = np.zeros(flat.shape, bool)
    np.put_along_axis(kept, order[:count], True, axis=0)
    kept = kept.reshape(worth.shape) & living
    moved = matrix * kept if rule == "wanda" else best_without(precision, matrix, kept)
    back = functools.partial(_back, shape=weights.shape, axes=met.axes)
    return back(moved), back(kept)


def _columns(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The array as (inputs, outputs)."""
    rest = [axis for axis in range(array.ndim) if axis not in axes]
    inputs = int(np.prod([array.shape[axis] for axis in axes]))
    return np.transpose(array, (*axes, *rest)).reshape(inputs, -1)


def _back(matrix: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    order = (*axes, *(axis for axis in range(len(shape)) if axis not in axes))
    return np.transpose(matrix.reshape([shape[axis] for axis in order]), np.argsort(order))


def _moved(bnn: BNN, params: dict[str, Any], means: dict[str, np.ndarray], specs: dict[str, ParamSpec]) -> dict[str, Any]:
    """The parameters with their means where the cut has moved them."""
    family, nodes = bnn.of(params).family, bnn.posterior(params)
    moved = dict(params)
    for site, mean in means.items():
        loc = send(mean / np.asarray(nodes[site].unit, np.float64), jnp.result_type(nodes[site].loc))
        moved |= family.write(replace(family.read(params, specs[site]), loc=loc), specs[site])  # type: ignore[type-var]
    return moved
