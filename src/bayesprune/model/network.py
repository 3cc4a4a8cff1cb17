"""The net itself, without prior or likelihood: as functions, and traced once to be read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from bayesprune.core.keys import abstract_key
from bayesprune.core.types import ArrayTree, PyTree
from bayesprune.model.adapters import Net, adapt, check_predicts
from bayesprune.model.inputs import Inputs
from bayesprune.model.shapes import arrays, output_shape
from bayesprune.model.transforms.lower import lower_convolutions
from bayesprune.model.transforms.zero_norms import norms_weights, with_zero_norms
from bayesprune.structure import Graph, read
from bayesprune.structure.lookups import bounds

Apply = Callable[..., tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class Network:
    """A net that is called on known rows, and gives known outputs.

    ``apply(params, state, x, train, rng_key) -> (outputs, new state)`` as `Net.apply`, its convolutions done the quick way;
    ``forward(params, state, x) -> outputs`` as it predicts, by the net's own operations. ``params`` and ``state``: their shapes
    and types. ``output_shape``: of one row, or a tree of such where the net gives several outputs.
    """

    net: Net
    inputs: Inputs
    apply: Callable[..., tuple[Any, dict[str, Any]]]
    forward: Callable[..., Any]
    params: dict[str, Any]
    state: dict[str, Any]
    output_shape: Any
    graph: Graph

    @property
    def has_state(self) -> bool:
        """Whether it carries more than parameters, such as batch statistics."""
        return bool(jax.tree.leaves(self.state))

    def jaxpr(self, paths: list[str], dtypes: list[Any]) -> ClosedJaxpr:
        """The net on one row, its state zero: inputs are the parameters in the order of ``paths``, then the row's arrays."""
        state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.state) if self.has_state else self.state
        weights = [jax.ShapeDtypeStruct(self.params[p].shape, t) for p, t in zip(paths, dtypes, strict=True)]
        forward = lambda values, x: self.forward(dict(zip(paths, values, strict=True)), state, x)  # noqa: E731
        return jax.make_jaxpr(forward)(weights, self.inputs.abstract(1))


def make_network(
    module: object, inputs: Inputs, apply_kwargs: Mapping[str, Any] | Any, output: int | str | Callable[..., Any] | None
) -> Network:
    """Trace a module once, abstractly. ``output``: which of its outputs is meant, an index, a name, a function, or None."""
    net = adapt(module, inputs, apply_kwargs)

    def apply(
        params: dict[str, Any], state: dict[str, Any], x: ArrayTree, train: bool, rng_key: jax.Array | None
    ) -> tuple[Any, dict[str, Any]]:
        outputs, new_state = net.apply(params, state, x, train, rng_key)
        return arrays(_chosen(outputs, output)), new_state

    try:
        params, state = jax.eval_shape(net.init, abstract_key())
        traced, outputs = jax.make_jaxpr(_predicting(apply), return_shape=True)(params, state, inputs.abstract(1))
    except Exception as error:
        error.add_note(f"net was called on rows of zeros, {inputs.described()}: {_remedy(inputs)}")
        raise
    _check_real(params)
    check_predicts(net, params, state, inputs.abstract(1))
    sites = {name: params[name].shape for name in sorted(params)}
    graph = read(traced, sites, num_inputs=len(inputs.leaves))
    if inputs.scaling is None:
        shapes = [shape for shape, _ in inputs.leaves]
        inputs = replace(inputs, bounds=bounds(traced, list(sites), shapes))
    if norms_weights(traced, len(sites)):
        apply = _zero_normed(apply)
    return Network(net, inputs, lower_convolutions(apply), _predicting(apply), params, state, output_shape(outputs), graph)


def _predicting(apply: Apply) -> Callable[..., Any]:
    return lambda params, state, x: apply(params, state, x, False, None)[0]


def _zero_normed(apply: Apply) -> Apply:
    def sound(
        params: dict[str, Any], state: dict[str, Any], x: ArrayTree, train: bool, rng_key: jax.Array | None
    ) -> tuple[Any, dict[str, Any]]:
        made = with_zero_norms(lambda params, state, x, rng_key: apply(params, state, x, train, rng_key))
        return made(params, state, x, rng_key)  # type: ignore[no-any-return]

    return sound


def _check_real(params: Mapping[str, Any]) -> None:
    """Refuse complex parameters: guides and priors are of real numbers, and would leave the imaginary parts out."""
    if wrong := [path for path, leaf in params.items() if jnp.issubdtype(leaf.dtype, jnp.complexfloating)]:
        raise TypeError(
            f"net has complex parameters, {', '.join(wrong)}, and posteriors are of real numbers: make each of two real ones, "
            "its real and its imaginary part, and let the net join them, jax.lax.complex(re, im)."
        )


def _remedy(inputs: Inputs) -> str:
    """What to try where a net cannot be called on its inputs."""
    if () in [shape for shape, _ in inputs.leaves]:
        return "a row that is one number is a vector of one for most nets: x[:, None], and input_shape=(1,)."
    return "if it takes integers, or several inputs, give example=x[:1] in place of input_shape=, and it gets what x holds."


def _chosen(outputs: PyTree, output: int | str | Callable[..., Any] | None) -> Any:
    """What is meant of a net's outputs."""
    if output is None:
        return outputs
    if callable(output):
        return output(outputs)
    known = (
        list(outputs) if isinstance(outputs, dict) else list(range(len(outputs))) if isinstance(outputs, tuple | list) else []
    )
    if isinstance(output, bool) or output not in known:  # True is no index, although it equals 1
        have = f"has {known}" if known else "is one array"
        raise ValueError(f"output={output!r} is no entry of what the net gives, which {have}: give one of them, or a function.")
    return outputs[output]
