"""One pruning pass over finished parameters: any sparsifier, any mean-field posterior."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core import masks, trees
from bayesprune.core.checks import check_mask, check_positive, check_site
from bayesprune.core.types import Evidence, Pruned, PyTree, SparseState, Sparsifier
from bayesprune.prune import read as numpyro_params


def prune_once(
    params: Any,
    sparsifier: Sparsifier,
    *,
    prior_scale: Any = 1.0,
    prunable: Callable[[str, tuple[int, ...]], bool] = lambda path, shape: True,
    mask: PyTree | None = None,
    rng_key: jax.Array | None = None,
    read: Callable[[Any], Any] = numpyro_params.read,
) -> Pruned:
    """Apply ``sparsifier`` once to a posterior. Pure: the arguments are left as they are; `jax.jit` takes it too.

    Args:
        params: NumPyro parameters with pairs ``"<site>_auto_loc"``, ``"<site>_auto_scale"`` (ours, or of an `AutoNormal`); or
            any tree whose nodes are `MeanField`.
        sparsifier: a method of `bayesprune.methods`.
        prior_scale: standard deviation of the weights' prior in the posterior's coordinates: one number, or site -> number or
            array.
        prunable: predicate on (path, shape); the sites it refuses are not in the mask.
        mask: weights that are already dead, False; those at loc = scale = 0 are taken as dead anyway.
        rng_key: for a sparsifier that draws.
        read: how NumPyro parameters become a posterior. ``bnn.read`` where the prior knows more than they do: the inclusion
            probabilities of `priors.GaussianSlab`.

    Returns:
        ``Pruned(params, mask, info)``: the parameters with dead weights at loc = scale = 0 (the reduced posterior).

    Raises:
        ValueError: the sparsifier wakes weights; there is no mean-field posterior in ``params``, a scale is negative, a prior's
            scale is not positive, or a site of ``mask`` or ``prior_scale`` is unknown or of another shape, or a mask is not
            boolean.
    """
    if hasattr(sparsifier, "renew"):
        raise ValueError(
            f"{type(sparsifier).__name__} wakes weights by their gradients, of which a posterior alone knows nothing: "
            "train with fit_svi(..., sparsifier=...), or cut at once with methods.SNR(density)."
        )
    nodes = _nodes(params, read)
    chosen = {path: node for path, node in nodes.items() if prunable(path, trees.shape(node))}
    if not chosen:
        raise ValueError(f"prunable refuses all of {', '.join(nodes)}: there is nothing to prune.")
    rng_key = jax.random.key(0) if rng_key is None else rng_key
    first = sparsifier.init(rng_key, chosen)
    state = first._replace(prior_scale=_prior_scales(prior_scale, nodes, chosen))
    given = {} if mask is None else check_mask(trees.flatten(mask), _shapes(nodes))
    alive = {path: given.get(path, jnp.array(True)) & ~_gone(node) for path, node in chosen.items()}
    state = state._replace(mask=alive)
    gradient = {path: jnp.zeros(trees.shape(node)) for path, node in chosen.items()}
    state, info = _compiled(sparsifier)(rng_key, Evidence(chosen, gradient), state)
    return _result(params, chosen, state, info)


@functools.lru_cache(maxsize=32)
def _compiled(sparsifier: Any) -> Callable[..., tuple[SparseState, Any]]:
    # One program instead of dozens of small ones, each of which would be compiled at the first call.
    return jax.jit(sparsifier.step)


def _nodes(params: Any, read: Callable[[Any], Any]) -> dict[str, Any]:
    """Posterior nodes by path, checked."""
    found = trees.flatten(params) if not isinstance(params, dict) or _has_nodes(params) else read(params)
    nodes = {path: node for path, node in found.items() if trees.is_node(node)}
    if not nodes:
        raise ValueError(
            "params hold no mean-field posterior: expected pairs '<site>_auto_loc' and '<site>_auto_scale' (from bp.fit_svi "
            "with posterior='mean_field', or NumPyro's AutoNormal), or a tree of bp.MeanField; got "
            f"{', '.join(map(str, list(params)[:6])) if isinstance(params, dict) else type(params).__name__}. A MAP fit has no "
            "evidence to prune by: use methods.Magnitude in fit_svi."
        )
    for path, node in nodes.items():
        if jnp.shape(node.loc) != jnp.shape(node.scale):
            raise ValueError(
                f"site {path!r} has loc of shape {jnp.shape(node.loc)} and scale of shape {jnp.shape(node.scale)}."
            )
        proper = jnp.all(jnp.isfinite(node.loc) & (node.scale >= 0) & jnp.isfinite(node.scale))
        # Inside `jax.jit` there are no values to look at yet.
        if not isinstance(proper, jax.core.Tracer) and not proper:
            raise ValueError(f"site {path!r} is no Gaussian posterior: its loc must be finite and its scale finite and >= 0.")
    return nodes


def _gone(node: Any) -> Any:
    """Weights that an earlier pass has cut: nothing is left of their posterior."""
    return (node.loc == 0) & (node.scale == 0)


def _has_nodes(params: dict[str, Any]) -> bool:
    return any(trees.is_node(leaf) for leaf in jax.tree.leaves(params, is_leaf=trees.is_node))


def _shapes(nodes: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {path: trees.shape(node) for path, node in nodes.items()}


def _prior_scales(prior_scale: Any, nodes: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(prior_scale, dict):
        prior_scale = dict.fromkeys(chosen, prior_scale)
    for path, value in prior_scale.items():
        check_site("prior_scale", path, value, _shapes(nodes), spread=True)
        check_positive(value, f"prior_scale of {path!r}")
    missing = sorted(chosen.keys() - prior_scale.keys())
    if missing:
        raise ValueError(f"prior_scale has no entry for {', '.join(missing)}: give one number for all, or one for each site.")
    return {path: jnp.asarray(prior_scale[path], float) for path in chosen}


def _result(params: Any, chosen: dict[str, Any], state: SparseState, info: Any) -> Pruned:
    if isinstance(params, dict) and not _has_nodes(params):
        return Pruned(numpyro_params.write(params, state.mask), state.mask, info)
    cut = trees.merge(params, trees.flatten(params), masks.apply(state.mask, chosen))
    return Pruned(cut, state.mask, info)
