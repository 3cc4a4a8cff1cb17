"""Weights that someone trained, by the paths of a network: from the forms in which modules and checkpoints have them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from bayesprune.core.send import send
from bayesprune.core.types import PyTree

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
