"""A network's own weights: a fit as plain ones at their posterior means, and those that someone trained, by path."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from bayesprune.core.checks import check_mask, check_params
from bayesprune.core.given import GivenParams
from bayesprune.core.send import send, send_all
from bayesprune.core.types import Node, PyTree
from bayesprune.model.layout import LaidOut
from bayesprune.model.prior import check_fixed_units
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.joint import check_conditioned
from bayesprune.posteriors.samples import draws_of


def mean_weights(bnn: LaidOut, params: GivenParams, mask: Mapping[str, Any] | None) -> dict[str, Any]:
    """Every parameter of the network by its path: the Bayesian ones at E[w], zero where dead, the others as they are.

    ``bnn``: a `BNN`; ``params``, ``mask``: as `BNN.net_params` takes them, whose errors these are.
    """
    check_params(params)
    posterior_params.read(params)  # which refuses those of several fits
    if reason := why_no_mean(bnn, params):
        raise ValueError(reason)
    given = check_mask({} if mask is None else mask, {str(s.path): s.shape for s in bnn.layout if s.bayesian})
    try:
        nodes, raw = bnn.posterior(dict(params)), bnn.of(params).family.posterior(dict(params), bnn.layout)
        fixed = {str(s.path): send(params[str(s.path)]) for s in bnn.layout if not s.bayesian}
    except KeyError as error:
        raise ValueError(f"params have no {error.args[0]!r}: give those of a fit of this network, as fit.params are.") from None
    check_fixed_units(bnn.prior, bnn.layout, nodes, params)
    check_conditioned(raw, given)
    means = {}
    for site, node in raw.items():
        # Of what the guide has: a probability that the prior reads off a Gaussian gates nothing.
        means[site] = _alive(send(given.get(site, True)), send_all(node), send(nodes[site].unit))
    return {str(spec.path): (means | fixed)[str(spec.path)] for spec in bnn.layout}


@jax.jit
def _alive(alive: jax.Array, node: Node, unit: jax.Array) -> jax.Array:
    return jnp.where(alive, node.moments()[0] * unit, 0)


def why_no_mean(bnn: LaidOut, params: GivenParams) -> str:
    """Why the mean of a posterior is not known, or is no network, and what to do; nothing where it is one."""
    if draws_of(params):
        return (
            "params are samples: networks of their own, whose mean is none. Predict by all of them, bp.predict(...), or keep "
            "them in one file, bp.compact(..., keep='posterior')."
        )
    if not hasattr(bnn.prior, "node"):
        return (
            f"{type(bnn.prior).__name__} does not say what its weights are in the network: give it a method node, which says "
            "their unit."
        )
    return bnn.family.no_mean  # type: ignore[no-any-return]


_OF_VARIABLES = ("value", "raw_value")  # the end of a path to an nnx variable


def take(template: tuple[dict[str, Any], PyTree], trained: PyTree) -> tuple[dict[str, Any], PyTree]:
    """``trained`` as parameters by path and other state, in the form of ``template``, whose arrays may be abstract.

    ``trained``: variables of linen or their ``"params"``, an nnx module or its state, an Equinox module, with its state
    beside it where it has one, or any of these as plain nested dicts, as checkpoints give them back. Raises `ValueError`
    with the list of what is missing, left over, of another shape, complex, or not finite.
    """
    params, state = template
    wanted = {name: jnp.shape(leaf) for name, leaf in (named(params) | named(state)).items()}
    found = named(trained)
    wrong = [f"{name} is missing" for name in wanted if name not in found]
    # Whole numbers that the network does not ask for are none that were trained.
    wrong += [f"{n} has no place" for n, leaf in found.items() if n not in wanted and jnp.issubdtype(leaf.dtype, jnp.inexact)]
    shapes = {name: jnp.shape(found[name]) for name in wanted if name in found}
    wrong += [f"{n} has shape {shape}, the network's {wanted[n]}" for n, shape in shapes.items() if shape != wanted[n]]
    wrong += [f"{n} is complex" for n in shapes if jnp.issubdtype(found[n].dtype, jnp.complexfloating)]
    if not wrong:
        wrong = [f"{name} is not finite" for name in wanted if not np.isfinite(np.asarray(found[name], np.float64)).all()]
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise ValueError(
            f"trained is not of this network: {'; '.join(wrong[:6])}{more}. Give what the same module was trained to."
        )
    filled = jax.tree.unflatten(jax.tree.structure(state), [send(found[name]) for name in named(state)])
    return {name: send(found[_short(name)]) for name in params}, filled


def named(tree: PyTree) -> dict[str, Any]:
    """The arrays of numbers by dotted path, the counts and keys of random numbers left out."""
    if isinstance(tree, tuple) and len(tree) == 2:
        module, state = tree  # of Equinox, whose state is known by the order of its arrays
        return named(module) | {str(number): jnp.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(state))}
    if isinstance(tree, nnx.Module):
        tree = nnx.state(tree)
    if isinstance(tree, nnx.State):
        tree = nnx.filter_state(tree, nnx.Not(nnx.RngState))
    if isinstance(tree, Mapping) and len(tree) == 1 and "rest" in tree:
        tree = tree["rest"]  # of nnx, beside the parameters
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    arrays = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves if _is_array(leaf)}
    return {_short(path).removeprefix("params."): leaf for path, leaf in arrays.items()}


def _short(path: str) -> str:
    *parts, last = path.split(".")
    return ".".join(parts if parts and last in _OF_VARIABLES else (*parts, last))


def _is_array(leaf: object) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return hasattr(leaf, "shape") and dtype is not None and bool(jnp.issubdtype(dtype, jnp.number))
