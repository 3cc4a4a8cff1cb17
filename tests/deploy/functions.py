"""Functions of weights and rows as programs and compact networks: what the tests of engines share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bayesprune.deploy.compact import Compact
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.trace import trace
from bayesprune.deploy.program.weights import Law, Points
from bayesprune.deploy.shrinking.cost import Cost

Function = Callable[[Mapping[str, Any], Any], Any]


def program_of(function: Function, shapes: Mapping[str, tuple[int, ...]], input_shape: tuple[int, ...]) -> OpProgram:
    """The operations of ``function`` of (weights by site, rows)."""

    def jaxpr(rows: int) -> Any:
        arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes.values()]
        return jax.make_jaxpr(lambda weights, state, x: function(dict(zip(shapes, weights, strict=True)), x))(
            arrays, [], jax.ShapeDtypeStruct((rows, *input_shape), jnp.float32)
        )

    return trace(jaxpr, list(shapes), [])


def identity(program: OpProgram) -> OpProgram:
    """A head that changes nothing."""
    return OpProgram((), {program.output: program.sizes[program.output]}, {}, {}, program.output, program.output)


def compact_of(program: OpProgram, law: Law | None = None, head: OpProgram | None = None) -> Compact:
    """A compact network of this program."""
    cost = Cost(*[0] * 6)
    arrays = [Packing.of_shapes(program.shapes[number][1:]) for number in (program.rows, program.output)]
    return Compact(program, Points() if law is None else law, identity(program) if head is None else head, *arrays, cost)


def sparse(rng: np.random.Generator, shape: tuple[int, ...], density: float = 0.4) -> np.ndarray:
    """Normal numbers, most of them zero."""
    return (rng.standard_normal(shape) * (rng.random(shape) < density)).astype(np.float32)


def rows(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def images(w: Mapping[str, Any], x: Any) -> Any:
    """Convolutions with and without padding and strides, both pools, a dense layer that reads pixels."""
    dims = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(lax.conv_general_dilated(x, w["a"], (1, 1), "SAME", dimension_numbers=dims) + w["b"])
    x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4.0
    x = jnp.tanh(lax.conv_general_dilated(x, w["c"], (2, 1), "VALID", dimension_numbers=dims, feature_group_count=2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 1), (1, 1, 1, 1), "VALID")
    return x.reshape(len(x), -1) @ w["d"]


def framed(w: Mapping[str, Any], x: Any) -> Any:
    """Images in a frame of their first pixel's value, then a convolution."""
    corner = x[:, :1, :1, :]
    x = jnp.pad(x - corner, ((0, 0), (1, 1), (1, 1), (0, 0))) + corner
    x = jnp.tanh(lax.conv_general_dilated(x, w["a"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return x.reshape(len(x), -1) @ w["b"]


def branches(w: Mapping[str, Any], x: Any) -> Any:
    """A residual sum, a product of two branches, and the rows once more."""
    y = jax.nn.silu(x @ w["a"] + w["b"])
    y = y + jnp.tanh(y @ w["c"]) * (y @ w["d"])
    return jnp.concatenate([y, x], -1) @ w["e"]


def chained(steps: Sequence[Function]) -> Function:
    """One function of them, one after another on the rows."""

    def function(weights: Mapping[str, Any], x: Any) -> Any:
        for step in steps:
            x = step(weights, x)
        return x

    return function


Networks = dict[str, tuple[Function, dict[str, tuple[int, ...]], tuple[int, ...]]]
FUNCTIONS: Networks = {
    "dense": (
        lambda w, x: jax.nn.softmax(jax.nn.silu(x @ w["a"] + w["b"]) @ w["c"], -1),
        {"a": (5, 4), "b": (4,), "c": (4, 3)},
        (5,),
    ),
    "images": (images, {"a": (3, 3, 2, 4), "b": (4,), "c": (2, 2, 2, 4), "d": (4, 3)}, (6, 6, 2)),
    "framed": (framed, {"a": (3, 3, 1, 2), "b": (32, 3)}, (4, 4, 1)),
    "branches": (branches, {"a": (5, 4), "b": (4,), "c": (4, 4), "d": (4, 4), "e": (9, 2)}, (5,)),
    "tokens": (lambda w, x: jnp.tanh(x @ w["a"] + w["b"]).mean(1) @ w["c"], {"a": (5, 4), "b": (4,), "c": (4, 2)}, (3, 5)),
}


def numbers(program: OpProgram, rng: np.random.Generator, density: float = 0.5) -> dict[str, np.ndarray]:
    """Sparse weights at random."""
    return {site: sparse(rng, program.shapes[number], density) for site, number in program.weights.items()}
