"""Flax linen modules."""

from collections.abc import Mapping
from typing import Any

import jax
from flax import errors, linen, traverse_util

from bayesprune.core.types import ArrayTree
from bayesprune.model.adapters.net import (
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
