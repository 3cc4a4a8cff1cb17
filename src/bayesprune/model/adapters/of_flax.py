"""Flax modules: linen and nnx."""

import zlib
from collections.abc import Mapping
from typing import Any

import jax
from flax import errors, linen, nnx, traverse_util

from bayesprune.core.types import ArrayTree, PyTree
from bayesprune.model.adapters.net import (
    Call,
    Net,
    Params,
    State,
    arguments,
    call_of,
    changes_in_prediction,
    draws_in_prediction,
    with_axes,
)
from bayesprune.model.inputs import Inputs

_OTHERS = 1  # folded into the key of dropout for all other draws, which linen makes of "params" where they have no own


def of_linen(module: linen.Module, inputs: Inputs, apply_kwargs: Mapping[str, Any] | Any) -> Net:
    """A linen module. Its noise has keys in training alone."""
    call = call_of(module.__call__, inputs, apply_kwargs)

    def init(rng_key: jax.Array) -> tuple[Params, State]:
        variables = module.init(rng_key, *arguments(inputs.zeros(1)), **call.keywords(False))
        state = {name: value for name, value in variables.items() if name != "params"}
        return traverse_util.flatten_dict(variables.get("params", {}), sep="."), state

    def apply(params: Params, state: State, x: ArrayTree, train: bool, rng_key: jax.Array | None) -> tuple[Any, State]:
        variables = own(params, state)
        rngs = {} if rng_key is None else {"dropout": rng_key, "params": jax.random.fold_in(rng_key, _OTHERS)}
        mutable = list(state) if train else False

        def run() -> Any:
            return module.apply(variables, *arguments(x), rngs=rngs, mutable=mutable, **call.keywords(train))

        try:
            outputs = with_axes(run)
        except errors.InvalidRngError as error:
            raise draws_in_prediction(_without_link(error)) from None
        except errors.ModifyScopeVariableError as error:
            raise changes_in_prediction(_without_link(error)) from None
        return (outputs[0], dict(outputs[1])) if train else (outputs, state)

    def own(params: Params, state: State) -> Any:
        return {"params": traverse_util.unflatten_dict(params, sep="."), **state}

    return Net(init, apply, own, random_start=True)


def _without_link(error: errors.FlaxError) -> str:
    """What Flax says, less the address of its page and the stop before it."""
    return str(error).split(" (http")[0].rstrip(".")


def of_nnx(module: nnx.Module, inputs: Inputs, apply_kwargs: Mapping[str, Any] | Any) -> Net:
    """An nnx module. Its noise is reseeded in training."""
    call = call_of(module.__call__, inputs, apply_kwargs)
    graph, params, rng_state, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
    flat = {".".join(map(str, path)): variable for path, variable in nnx.to_flat_state(params)}
    structure, order = jax.tree.structure(params), list(flat)
    kept, of_rest = jax.tree_util.tree_flatten_with_path(rest)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in kept]

    def init(rng_key: jax.Array) -> tuple[Params, State]:
        return {name: variable[...] for name, variable in flat.items()}, plain(rest)

    def plain(rest: PyTree) -> State:
        """Arrays by name, which any file holds."""
        return {"rest": dict(zip(names, jax.tree.leaves(rest), strict=True))} if names else {}

    def as_rest(state: State) -> Any:
        return jax.tree.unflatten(of_rest, [state["rest"][name] for name in names]) if state else rest

    def apply(values: Params, state: State, x: ArrayTree, train: bool, rng_key: jax.Array | None) -> tuple[Any, State]:
        def run() -> Any:
            filled = jax.tree.unflatten(structure, [values[name] for name in order])
            # A copy: the noise is reseeded and statistics are updated in place, at the trace level of this call.
            before = as_rest(state)
            net = nnx.merge(graph, filled, rng_state, before, copy=True)
            net.train() if train else net.eval()
            outputs = net(*arguments(x), **call.keywords(train), **_reseeded(net, rng_key, call))
            new = nnx.split(net, nnx.Param, nnx.RngState, ...)[3]
            if not train:
                _check_still(before, new)
            return outputs, new

        outputs, new = with_axes(run)
        return outputs, (plain(new) if state else {})

    def own(values: Params, state: State) -> Any:
        filled = jax.tree.unflatten(structure, [values[name] for name in order])
        return nnx.merge_state(filled, as_rest(state))

    return Net(init, apply, own, may_draw=bool(jax.tree.leaves(rng_state)) or call.needs("rngs"))


def _check_still(before: PyTree, after: PyTree) -> None:
    """Refuse a net that has set statistics of batches anew: its outputs for a row depend on the rows beside it."""
    values = dict(nnx.to_flat_state(before))
    for path, variable in nnx.to_flat_state(after):
        if isinstance(variable, nnx.BatchStat) and variable.get_value() is not values[path].get_value():
            raise changes_in_prediction(f"{'.'.join(map(str, path))} is set anew")


def _reseeded(net: nnx.Module, rng_key: jax.Array | None, call: Call) -> dict[str, Any]:
    """Give all of a net's noise this key, and its call ``rngs`` if it asks for such: the keyword, or none."""
    if rng_key is None:
        return {"rngs": nnx.Rngs(0)} if call.needs("rngs") else {}
    # Dropout that is written without a source of noise gets one of its own.
    for _, part in nnx.iter_modules(net):
        if isinstance(part, nnx.Dropout) and part.rngs is None and not call.asks_for("rngs"):
            part.rngs = nnx.Rngs(0)
    names = {part.key.tag for _, part in nnx.iter_graph(net) if isinstance(part, nnx.RngStream)}
    # Streams of one key would draw the same noise: the first of the two usual names has the key itself.
    first = next((name for name in ("dropout", "default") if name in names), "")
    keys = {name: jax.random.fold_in(rng_key, zlib.crc32(name.encode())) for name in names - {first}}
    nnx.reseed(net, policy=_of_shape, **({first: rng_key} if first else {}), **keys)
    return {"rngs": nnx.Rngs(rng_key)} if call.asks_for("rngs") else {}


def _of_shape(path: tuple[Any, ...], rng_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The key, or as many as there are layers in one."""
    return jax.random.split(rng_key, shape) if shape else rng_key
