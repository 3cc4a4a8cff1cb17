"""The matrix products and convolutions of a traced network: what each costs, and how much of that is done for alive weights."""

import math
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxprs_in_params
from jaxtyping import Int

from bayesprune.structure.jaxprs import CALLS, called, scan_parts

PRODUCTS = ("dot_general", "conv_general_dilated")


class Known(NamedTuple):
    """A value that no row of data enters, and the site of ``size`` weights that it is made of; "" for a constant."""

    value: Any
    site: str = ""
    size: int = 0


class Product(NamedTuple):
    """Multiply-adds of one product: all of them, and those with alive weights. ``site``: "" where no weight enters directly."""

    site: str
    executed: int
    alive: int


Value = Known | None  # None: it depends on the row
Walk = Generator[Product, None, list[Value]]


def products(jaxpr: ClosedJaxpr, inputs: Sequence[Value]) -> Walk:
    """Every product of a traced program, once for each time that it is done.

    Whatever no row enters is computed on the way, so that casts, reshapes, slices and rescalings of a weight show which of
    its numbers are still zero when it is multiplied. So give weights that are zero where dead, and in general position
    elsewhere. Raises ``ValueError`` where the number of products is known only when the program runs.
    """
    return _walk(jaxpr.jaxpr, [Known(const) for const in jaxpr.consts], inputs)


def _walk(jaxpr: Any, consts: Sequence[Value], inputs: Sequence[Value]) -> Walk:
    values: dict[Any, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def read(atom: Any) -> Value:
        return Known(atom.val) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        outputs = yield from _step(equation, [read(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _step(equation: Any, inputs: list[Value]) -> Walk:
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return (yield from _enter(called(params), inputs))
    if name == "scan":
        return (yield from _scan(params, inputs))
    if name == "cond" and inputs[0] is not None:
        branch = np.clip(int(inputs[0].value), 0, len(params["branches"]) - 1)
        return (yield from _enter(params["branches"][branch], inputs[1:]))
    if name in PRODUCTS:
        yield _product(equation, *inputs)
    elif any(map(_has_products, jaxprs_in_params(params))):
        raise ValueError(
            f"net has products inside {name!r}, and how many of them are executed is not known before it runs: count the net "
            "with a loop of fixed length (jax.lax.scan), or without the branch."
        )
    known = [value for value in inputs if value is not None]
    if len(known) < len(inputs):
        return [None] * len(equation.outvars)
    result = equation.primitive.bind(*(value.value for value in known), **params)
    owner = _owner(known)
    return [owner._replace(value=out) for out in (result if equation.primitive.multiple_results else [result])]


def _enter(inner: Any, inputs: Sequence[Value]) -> Walk:
    closed = isinstance(inner, ClosedJaxpr)
    return _walk(inner.jaxpr if closed else inner, [Known(c) for c in inner.consts] if closed else [], inputs)


def _scan(params: dict[str, Any], inputs: list[Value]) -> Walk:
    """Every turn by itself: each may take another slice of the weights."""
    consts, carry, xs = scan_parts(params, inputs)
    carried = len(carry)
    turns = range(params["length"])
    collected: list[list[Value]] = []
    for turn in reversed(turns) if params["reverse"] else turns:
        rows = [None if x is None else x._replace(value=x.value[turn]) for x in xs]
        outputs = yield from _enter(params["jaxpr"], [*consts, *carry, *rows])
        carry = outputs[:carried]
        collected.append(outputs[carried:])
    ordered = collected[::-1] if params["reverse"] else collected
    count = len(params["jaxpr"].jaxpr.outvars) - carried
    return carry + [_stacked([outputs[i] for outputs in ordered]) for i in range(count)]


def _stacked(values: list[Value]) -> Value:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return _owner(known)._replace(value=jnp.stack([value.value for value in known]))


def _owner(known: Sequence[Known]) -> Known:
    """Whose a value made of several is: that of the site with most weights, so that a matrix outweighs its scales."""
    return max(known, key=lambda value: value.size, default=Known(None))


def _has_products(jaxpr: Any) -> bool:
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return any(eqn.primitive.name in PRODUCTS or any(map(_has_products, jaxprs_in_params(eqn.params))) for eqn in inner.eqns)


def _product(equation: Any, lhs: Value, rhs: Value) -> Product:
    """Count one product; where two weights meet, the alive pairs of both."""
    uses = np.broadcast_to(_uses(equation), equation.invars[1].aval.shape)
    executed = int(uses.sum())
    weights = [value for value in (lhs, rhs) if value is not None and value.site]
    site = _owner(weights).site
    if len(weights) == 2:
        operands = [(jnp.asarray(weight.value) != 0).astype(jnp.float32) for weight in weights]
        pairs = equation.primitive.bind(*operands, **{**equation.params, "preferred_element_type": None})
        return Product(site, executed, int(np.asarray(pairs, np.float64).sum()))
    if not weights:
        return Product(site, executed, executed)
    living = np.asarray(weights[0].value) != 0
    if weights[0] is rhs:
        return Product(site, executed, int((uses * living).sum()))
    return Product(site, executed, round(executed * float(living.mean())) if living.size else 0)


def _uses(equation: Any) -> Int[np.ndarray, "..."]:
    """How many multiply-adds each number of the right operand takes part in, in a shape that broadcasts to it.

    A convolution meets every position of its kernel at every output, also where padding lies under it; zeros put between the
    inputs, as by a transposed convolution, are not counted.
    """
    params = equation.params
    lhs, rhs = (atom.aval.shape for atom in equation.invars)
    if equation.primitive.name == "dot_general":
        (contracted, _), (batched, _) = params["dimension_numbers"]
        return np.asarray(math.prod(size for axis, size in enumerate(lhs) if axis not in (*contracted, *batched)))
    _, kernel, output = params["dimension_numbers"]
    out = equation.outvars[0].aval.shape
    uses = np.full((1,) * len(rhs), out[output[0]])
    steps = (params["window_strides"], params["padding"], params["lhs_dilation"], params["rhs_dilation"])
    for axis, to, stride, (low, _), spread, reach in zip(kernel[2:], output[2:], *steps, strict=True):
        places = np.arange(out[to])[:, None] * stride + np.arange(rhs[axis]) * reach - low
        met = (places % spread == 0).sum(axis=0)
        uses = uses * met.reshape([-1 if a == axis else 1 for a in range(len(rhs))])
    return uses
