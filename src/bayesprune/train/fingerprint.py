"""The fingerprint of a fit: all that decides its result, by name, in a form that JSON holds and other processes repeat."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.stages import Traced

from bayesprune.core import traced
from bayesprune.core.same import array_digest, digest, spelled
from bayesprune.core.types import Dataset, PyTree
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable
from bayesprune.train.alike import kernel_digest
from bayesprune.train.loop import compile_loop
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.sources.in_order import InOrder
from bayesprune.train.state import Recipe

# The storage has a name of its own; a run may go on on other devices.
_NOT_FROM_RECIPE = ("program", "kernel", "storage", "mesh", "computes")
# Told by traces or code, which another version of JAX may give differently; the last two only where nothing else differs.
STEPS = ("start", "training step")
TRACED = ("optimizer", "network", *STEPS)


def fingerprint(recipe: Recipe, example: Example, rng_key: jax.Array, settings: dict[str, Any]) -> dict[str, Any]:
    """Name -> number, text or digest, of the recipe's parts and of ``settings``, whatever else decides the result."""
    parts = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    rest = {name: value for name, value in parts.items() if name not in _NOT_FROM_RECIPE}
    moves = kernel_digest(recipe.kernel, sites_of(recipe.program, example).params)
    rest["optimizer"] = spelled(recipe.kernel) if moves is None else moves[:16]
    named = {"estimator": rest.pop("elbo"), "jax": jax.__version__} | rest | _program(recipe.program) | settings
    return {name: _word(value) for name, value in named.items()} | {"rng_key": jax.random.key_data(rng_key).tolist()}


def traces(recipe: Recipe, example: Example, start: PyTree, step: PyTree) -> tuple[Traced, Traced]:
    """The start and the step of a fit, of these arguments, as they are without a mesh.

    A mesh says where arrays lie, in the trace too, and not what is computed: traced so, all devices have the same.
    """
    loop = compile_loop(dataclasses.replace(recipe, mesh=None), example)
    start, step = jax.tree.map(_alike, (start, step))
    return loop.init.trace(*start), loop.run.trace(*step)


def of_traces(start: Traced, step: Traced) -> dict[str, Any]:
    """What no name says: a network's code, or numbers that a function reads from elsewhere; by the traces of start and step."""
    return {"start": _trace(start.jaxpr), "training step": _trace(step.jaxpr)}


def _program(program: Trainable) -> dict[str, Any]:
    if not isinstance(program, BNN):
        return {}
    scaling = {} if program.inputs.scaling is None else {"scaling": program.inputs.scaling}
    return scaling | {
        "prior": program.prior,
        "likelihood": program.likelihood,
        "posterior": program.family,
        "layout": tuple(
            (str(spec.path), spec.shape, spec.bayesian, spec.prunable, *(("frozen",) if spec.frozen else ()))
            for spec in program.layout
        ),
        "network": _trace(program.jaxpr()),
    }


def _word(value: object) -> Any:
    """A number or a name as it is; arrays by their digests; all else as `spelled`."""
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    if isinstance(value, Dataset) and isinstance(value.x, InOrder):
        return value.x.described
    if isinstance(value, Dataset):
        leaves = jax.tree.leaves(value)
        shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves)
        return f"{shapes} [{digest(tuple(map(array_digest, leaves)))[:16]}]"
    if isinstance(value, dict):
        leaves = jax.tree_util.tree_flatten_with_path(value)[0]
        arrays = tuple((jax.tree_util.keystr(path), array_digest(jax.numpy.asarray(leaf))) for path, leaf in leaves)
        return f"{len(leaves)} arrays [{digest(arrays)[:16]}]"
    return spelled(value)


def _alike(leaf: jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """What a trace is of, on no device."""
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))


def _trace(trace: ClosedJaxpr) -> str:
    try:
        return traced.of_jaxpr(trace)[:16]
    except traced.OpaqueError:
        return "calls back to Python"
