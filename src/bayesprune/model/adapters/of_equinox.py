"""Equinox modules: called on one row, and mapped over the rows."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.types import ArrayTree, PyTree
from bayesprune.model.adapters.net import Call, Net, Params, State, arguments, call_of, missing_axis
from bayesprune.model.inputs import Inputs


def is_equinox(module: object) -> bool:
    """Whether it is an Equinox module, or one with its state, without importing Equinox for those who have none."""
    if isinstance(module, tuple) and len(module) == 2:
        return is_equinox(module[0]) and type(module[1]).__module__.startswith("equinox")
    return any(cls.__module__.startswith("equinox") and cls.__name__ == "Module" for cls in type(module).__mro__)


def of_equinox(given: Any, inputs: Inputs, apply_kwargs: Mapping[str, Any] | Any) -> Net:
    """An Equinox module, or the pair (module, state) of ``eqx.nn.make_with_state``."""
    import equinox as eqx

    module, first = given if isinstance(given, tuple) else _with_first_state(given)
    call = call_of(type(module).__call__, inputs, apply_kwargs, bound=False)
    arrays, static = eqx.partition(module, eqx.is_inexact_array)
    flat, structure = jax.tree_util.tree_flatten_with_path(arrays)
    order = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in flat]
    leaves, of_state = jax.tree.flatten(first)

    def init(rng_key: jax.Array) -> tuple[Params, State]:
        state = {str(number): jnp.asarray(leaf, jnp.asarray(leaf).dtype) for number, leaf in enumerate(leaves)}
        return dict(zip(order, (leaf for _, leaf in flat), strict=True)), state

    def apply(params: Params, state: State, x: ArrayTree, train: bool, rng_key: jax.Array | None) -> tuple[Any, State]:
        net = eqx.nn.inference_mode(own_module(params), value=not train)
        keywords, rows = call.keywords(train), arguments(x)
        keys = _keys(call, rng_key, jax.tree.leaves(x)[0].shape[0])
        if not state:
            return _over_rows(lambda key, *row: (net(*row, **key, **keywords), None), (keys, *rows))[0], state
        before = jax.tree.unflatten(of_state, [state[str(number)] for number in range(len(leaves))])
        outputs, after = _over_rows(lambda key, *row: _with_state(call, net, row, before, key | keywords), (keys, *rows))
        return outputs, {str(number): leaf for number, leaf in enumerate(jax.tree.leaves(after))}

    def own_module(params: Params) -> Any:
        return eqx.combine(jax.tree.unflatten(structure, [params[name] for name in order]), static)

    def own(params: Params, state: State) -> Any:
        if not leaves:
            return own_module(params)
        kept = [state.get(str(number), leaf) for number, leaf in enumerate(leaves)]
        return own_module(params), jax.tree.unflatten(of_state, kept)

    return Net(init, apply, own, may_draw=call.needs("key"))


def _with_first_state(module: Any) -> tuple[Any, Any]:
    import equinox as eqx

    try:
        return eqx.nn.make_with_state(lambda: module)()  # type: ignore[no-any-return]
    except ValueError:
        raise TypeError(
            "net is an Equinox module whose state is apart from it: give the pair of eqx.nn.make_with_state(Net)(...), as in "
            "BNN((model, state), ...)."
        ) from None


def _keys(call: Call, rng_key: jax.Array | None, num_rows: Any) -> dict[str, Any]:
    """The keyword ``key``, one for each row: in training where the net has it, in prediction where it cannot do without."""
    if rng_key is None:
        rng_key = jax.random.key(0) if call.needs("key") else None
    return {"key": jax.random.split(rng_key, num_rows)} if rng_key is not None and call.asks_for("key") else {}


def _with_state(call: Call, net: Callable[..., Any], row: tuple[Any, ...], state: PyTree, keywords: dict[str, Any]) -> Any:
    """(outputs, state) of a net that is called with its state, by name if it has that name."""
    # A state is used up by the call, which may have to be tried again.
    state = jax.tree.map(lambda leaf: leaf, state)
    return net(*row, state=state, **keywords) if call.asks_for("state") else net(*row, state, **keywords)


def _over_rows(run: Callable[..., Any], rows: tuple[Any, ...], name: str | None = None) -> Any:
    """(outputs, what is the same for all rows), mapped over the first axes, under the name that the net has for the rows."""
    try:
        return jax.vmap(run, out_axes=(0, None), axis_name=name)(*rows)
    except NameError as error:
        found = missing_axis(error)
        if found is None or name is not None:
            raise
    except ValueError as error:
        if "out_axes" not in str(error):
            raise
        raise TypeError(
            "net's state (eqx.nn.State) changes row by row: only what is the same for all rows of a batch, such as the "
            "statistics of eqx.nn.BatchNorm, is carried through."
        ) from error
    return _over_rows(run, rows, found)
