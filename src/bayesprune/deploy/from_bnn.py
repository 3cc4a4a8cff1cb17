"""The operations of a `BNN`: of its network, and from that one's outputs to the mean of y."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.ops import Program
from bayesprune.deploy.run import run
from bayesprune.deploy.trace import trace
from bayesprune.model.bnn import BNN


def network(bnn: BNN, state: Mapping[str, Any]) -> Program:
    """The operations of the network itself. Raises ``ValueError`` where it does not treat every row alike."""
    sites = [str(spec.path) for spec in bnn.layout]
    arrays = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in bnn.layout]
    leaves, tree = jax.tree.flatten(dict(state))

    def net(weights: list[Any], state: list[Any], x: Any) -> jax.Array:
        return bnn.forward(dict(zip(sites, weights, strict=True)), jax.tree.unflatten(tree, state), x)

    def jaxpr(rows: int) -> Any:
        return jax.make_jaxpr(net)(arrays, leaves, jax.ShapeDtypeStruct((rows, *bnn.input_shape), jnp.float32))

    program = trace(jaxpr, sites, [np.asarray(leaf) for leaf in leaves])
    _check_rows(program, net, [array.shape for array in arrays], leaves)
    return program


def _check_rows(program: Program, net: Callable[..., Any], shapes: list[tuple[int, ...]], state: list[Any]) -> None:
    """Compare the network itself on three rows, with weights at random, with its operations on each row by itself.

    They differ where a row's outputs depend on the rows beside it.
    """
    rng = np.random.default_rng(0)
    draws = [(rng.standard_normal(shape) / math.sqrt(math.prod(shape[:-1]))).astype(np.float32) for shape in shapes]
    weights = dict(zip(program.weights, draws, strict=True))
    x = rng.standard_normal((3, *program.shapes[program.rows][1:])).astype(np.float32)
    together = np.asarray(jax.jit(net)(draws, state, x))
    if program.one_by_one:
        apart = np.asarray(run(program, weights, x))
    else:
        given = {**program.constants, **{program.weights[site]: value for site, value in weights.items()}}
        one = lambda part: reader.run(program.ops, {**given, program.rows: part}, 1)[program.output]  # noqa: E731
        apart = np.concatenate([one(x[i : i + 1]) for i in range(3)])
    if not np.allclose(together, apart, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise ValueError(
            "the network's outputs for a row depend on the rows beside it, as by statistics of the batch: a smaller network "
            "would not be the same function. Let each row stand for itself."
        )


def head(bnn: BNN) -> Program:
    """From the network's outputs to the mean of y."""

    def jaxpr(rows: int) -> Any:
        return jax.make_jaxpr(bnn.likelihood.mean)(jax.ShapeDtypeStruct((rows, *bnn.output_shape), jnp.float32))

    return trace(jaxpr, [], [])
