"""Linen, nnx and Equinox modules behind one pure face: ``params`` a flat dict by dotted path, ``state`` what else changes."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from flax import linen, nnx, traverse_util

from bayesprune.core.checks import got
from bayesprune.model.inputs import Inputs

Params = dict[str, Any]
State = dict[str, Any]


@dataclass(frozen=True)
class Net:
    """A network as two pure functions.

    ``init(rng_key) -> (params, state)``; ``apply(params, state, x, train, rng_key) -> (outputs, new state)``. ``state`` is a
    dict, empty for most nets; batch statistics live in it. ``rng_key`` may be None where the net draws nothing.
    ``own(params, state)``: both in the form that the module's own library calls it with.
    """

    init: Callable[[jax.Array], tuple[Params, State]]
    apply: Callable[..., tuple[jax.Array, State]]
    own: Callable[[Params, State], Any]


def adapt(module: Any, inputs: Inputs) -> Net:
    """Wrap a module that is called on ``inputs``, or say which kinds are known.

    Raises:
        TypeError: ``module`` is no linen, nnx or Equinox module.
    """
    if isinstance(module, linen.Module):
        return _linen(module, inputs)
    if isinstance(module, nnx.Module):
        return _nnx(module)
    if _is_equinox(module):
        return _equinox(module)
    raise TypeError(
        f"net must be a Flax linen, Flax nnx or Equinox module, got {got(module)}: "
        "pass an instance such as bp.nets.MLP(hidden=(64,), num_outputs=10), or write a bp.Program(model, guide)."
    )


def _mode(call: Callable[..., Any], train: bool) -> dict[str, bool]:
    """The keyword by which a net is told that it trains, whatever the net calls it."""
    known = inspect.signature(call).parameters
    for name, value in (
        ("train", train),
        ("training", train),
        ("deterministic", not train),
        ("use_running_average", not train),
    ):
        if name in known:
            return {name: value}
    return {}


def _arguments(x: Any) -> tuple[Any, ...]:
    """What a net is called on: the parts of a tuple each by itself, anything else as it is."""
    return x if type(x) is tuple else (x,)


def _linen(module: linen.Module, inputs: Inputs) -> Net:
    def init(rng_key: jax.Array) -> tuple[Params, State]:
        variables = module.init(rng_key, *_arguments(inputs.zeros(1)), **_mode(module.__call__, False))
        state = {name: value for name, value in variables.items() if name != "params"}
        return traverse_util.flatten_dict(variables["params"], sep="."), state

    def apply(params: Params, state: State, x: Any, train: bool, rng_key: Any) -> tuple[Any, State]:
        variables = {"params": traverse_util.unflatten_dict(params, sep="."), **state}
        rngs = {} if rng_key is None else {"dropout": rng_key}
        mutable = list(state) if train else False
        outputs = module.apply(variables, *_arguments(x), rngs=rngs, mutable=mutable, **_mode(module.__call__, train))
        return (outputs[0], dict(outputs[1])) if train else (outputs, state)

    return Net(init, apply, lambda params, state: {"params": traverse_util.unflatten_dict(params, sep="."), **state})


def _nnx(module: nnx.Module) -> Net:
    graph, params, rng_state, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
    flat = {".".join(map(str, path)): variable for path, variable in nnx.to_flat_state(params)}
    structure = jax.tree.structure(params)
    order = [".".join(map(str, path)) for path, _ in nnx.to_flat_state(params)]

    def init(rng_key: jax.Array) -> tuple[Params, State]:
        state = {"rest": rest} if jax.tree.leaves(rest) else {}
        return {name: variable[...] for name, variable in flat.items()}, state

    def apply(values: Params, state: State, x: Any, train: bool, rng_key: Any) -> tuple[Any, State]:
        filled = jax.tree.unflatten(structure, [values[name] for name in order])
        # A copy: the noise is reseeded and statistics are updated in place, at the trace level of this call.
        net = nnx.merge(graph, filled, rng_state, state.get("rest", rest), copy=True)
        net.train() if train else net.eval()
        if rng_key is not None:
            nnx.reseed(net, default=rng_key, dropout=rng_key)
        outputs = net(*_arguments(x), **_mode(net.__call__, train))
        new = nnx.split(net, nnx.Param, nnx.RngState, ...)[3]
        return outputs, ({"rest": new} if state else {})

    def own(values: Params, state: State) -> Any:
        filled = jax.tree.unflatten(structure, [values[name] for name in order])
        return nnx.merge_state(filled, state.get("rest", rest))

    return Net(init, apply, own)


def _is_equinox(module: Any) -> bool:
    """Whether ``module`` is an Equinox module, without importing Equinox for those who have none."""
    return any(cls.__module__.startswith("equinox") and cls.__name__ == "Module" for cls in type(module).__mro__)


def _equinox(module: Any) -> Net:
    import equinox as eqx

    is_index = lambda leaf: isinstance(leaf, eqx.nn.StateIndex)  # noqa: E731
    if any(is_index(leaf) for leaf in jax.tree.leaves(module, is_leaf=is_index)):
        raise TypeError(
            "net is an Equinox module with mutable state (eqx.nn.State): use a stateless normalisation such as "
            "eqx.nn.GroupNorm, or the same net in Flax, whose batch statistics are carried through."
        )
    arrays, static = eqx.partition(module, eqx.is_inexact_array)
    flat, structure = jax.tree_util.tree_flatten_with_path(arrays)
    order = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in flat]

    def init(rng_key: jax.Array) -> tuple[Params, State]:
        return dict(zip(order, (leaf for _, leaf in flat), strict=True)), {}

    def apply(params: Params, state: State, x: Any, train: bool, rng_key: Any) -> tuple[Any, State]:
        net = eqx.combine(jax.tree.unflatten(structure, [params[name] for name in order]), static)
        net = eqx.nn.inference_mode(net, value=not train)
        if rng_key is None or "key" not in inspect.signature(type(module).__call__).parameters:
            return jax.vmap(net)(*_arguments(x)), state
        keys = jax.random.split(rng_key, jax.tree.leaves(x)[0].shape[0])
        return jax.vmap(lambda key, *row: net(*row, key=key))(keys, *_arguments(x)), state

    def own(values: Params, state: State) -> Any:
        return eqx.combine(jax.tree.unflatten(structure, [values[name] for name in order]), static)

    return Net(init, apply, own)
