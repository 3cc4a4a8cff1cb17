"""Which arrays of rows meet the weights as they are, with their own scale: nothing but moves and casts lies between."""

from collections.abc import Sequence
from typing import NamedTuple

from jax.extend.core import ClosedJaxpr

from bayesprune.structure.jaxprs import Equation, JaxprLike, called, followed, scan_parts
from bayesprune.structure.ops import record_of


class _Known(NamedTuple):
    """Of an array: which arrays of rows are in it as they are; whether weights are, and whether rows are."""

    rows: frozenset[int] = frozenset()
    of_weights: bool = False
    of_rows: bool = False


def untouched(jaxpr: ClosedJaxpr, num_weights: int) -> tuple[bool, ...]:
    """For each array of rows, whether it is multiplied by a weight before anything else is computed of it.

    ``jaxpr``: of a function of weights, ``num_weights`` arrays, and rows, such as `BNN.jaxpr` gives. What is divided, shifted
    by a number or a statistic, normalised or squashed first is not untouched: the network has a say of its own about its scale.
    Rows in loops that are not scans, and in branches, count as touched. Nothing is computed.

    >>> import jax, jax.numpy as jnp
    >>> w, x = jnp.ones((2, 3)), jnp.ones((1, 2))
    >>> net = jax.make_jaxpr(lambda w, x, z: jnp.tanh(x @ w) + (z / 255.0) @ w)
    >>> untouched(net(w, x, x), num_weights=1)
    (True, False)
    """
    count = len(jaxpr.jaxpr.invars) - num_weights
    weights = [_Known(of_weights=True)] * num_weights
    rows = [_Known(frozenset([number]), of_rows=True) for number in range(count)]
    met: set[int] = set()
    _walk(jaxpr, [*weights, *rows], met)
    return tuple(number in met for number in range(count))


def _walk(program: JaxprLike, inputs: Sequence[_Known], met: set[int]) -> list[_Known]:
    return followed(program, inputs, lambda equation, operands: _step(equation, operands, met), lambda _: _Known())


def _step(equation: Equation, inputs: list[_Known], met: set[int]) -> list[_Known]:
    name, params, record = equation.primitive.name, equation.params, record_of(equation)
    if name == "scan":  # its first turn, which is like the others
        fixed, carry, slices = scan_parts(params, inputs)
        return _walk(params["jaxpr"], [*fixed, *carry, *slices], met)
    if (program := called(equation)) is not None:
        return _walk(program, inputs, met)
    weights = [value for value in inputs if value.of_weights and not value.of_rows]
    if record.linear == "product" and weights:
        met.update(*(value.rows for value in inputs))
    keeps: list[_Known] = []
    if record.keeps:  # any other operation may be meant to change the size of entries
        keeps = inputs[:1] if record.chosen else inputs
    elif name in ("add", "sub") and all(value.rows or value in weights for value in inputs):
        keeps = inputs  # sums with other rows, or with weights, such as position embeddings
    result = _Known(
        frozenset[int]().union(*(value.rows for value in keeps)),
        any(value.of_weights for value in inputs),
        any(value.of_rows for value in inputs),
    )
    return [result] * len(equation.outvars)
