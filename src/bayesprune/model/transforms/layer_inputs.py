"""What every weight array of a network multiplies: second moments of its inputs, found in the traced network.

Derivation. A layer that is one product, z = x W, or a convolution, which is one of patches, has outputs whose squared change
under a change of W is the trace of dW' (X'X) dW. So X'X, the sum over rows and positions of x x', is the curvature of each
output's weights, the same for all outputs. The trace of the network shows what meets each array, whatever library it is from.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bayesprune.core.types import PyTree
from bayesprune.structure.jaxprs import Equation, JaxprLike, called, followed

KEPT = ("convert_element_type", "copy", "transpose")
EXACT = lax.Precision.HIGHEST


class Weight(NamedTuple):
    """An array of weights on its way through the trace: its site, and where each of its axes now is one of the array's own."""

    site: str
    axes: tuple[int, ...]


class Met(NamedTuple):
    """What met an array: the sum of x x', (inputs, inputs), and the array's axes that run over the inputs, in their order."""

    moments: jax.Array
    axes: tuple[int, ...]


def with_input_moments(fn: Callable[..., Any], sites: Sequence[str]) -> Callable[..., dict[str, Met]]:
    """(weights in the order of ``sites``, *others) -> site -> `Met`, of every array that meets its inputs in a product.

    What is used several times has the sum of all; `ValueError` where that is by other axes. Left out are arrays that meet
    nothing in a product, as biases, convolutions in groups of channels, and what happens in loops too long to be written out.
    """

    def moments(weights: Sequence[Any], *others: PyTree) -> dict[str, Met]:
        found: dict[str, Met] = {}

        def note(equation: Equation, given: list[Any], of: list[Weight | None], outs: list[Any]) -> list[Any]:
            _note(equation, given, of, found)
            return outs

        visited(fn, sites, note)(weights, *others)
        return found

    return moments


Operand = tuple[Any, Weight | None]  # a value, and which array of weights it is

# What is done at an operation: of its operands, of which of them are arrays of weights, and of its results.
Visit = Callable[[Equation, list[Any], list[Weight | None], list[Any]], list[Any]]


def visited(fn: Callable[..., Any], sites: Sequence[str], visit: Visit) -> Callable[..., Any]:
    """``fn`` of weights, in the order of ``sites``, and of others, with ``visit`` called at each of its operations."""

    def run(weights: Sequence[Any], *others: PyTree) -> Any:
        traced, shapes = jax.make_jaxpr(fn, return_shape=True)(weights, *others)
        values = jax.tree.leaves((weights, *others))
        known = [Weight(site, tuple(range(np.ndim(w)))) for site, w in zip(sites, weights, strict=True)]
        operands = zip(values, [*known, *[None] * (len(values) - len(known))], strict=True)
        return jax.tree.unflatten(jax.tree.structure(shapes), [value for value, _ in _follow(traced, list(operands), visit)])

    return run


def _follow(program: JaxprLike, inputs: list[Operand], visit: Visit) -> list[Operand]:
    """Evaluate a program."""

    def step(equation: Equation, operands: list[Operand]) -> list[Operand]:
        if (nested := called(equation)) is not None:
            return [(value, None) for value, _ in _follow(nested, operands, visit)]
        given, of = [value for value, _ in operands], [weight for _, weight in operands]
        with equation.ctx.manager:
            bound = equation.primitive.bind(*given, **equation.params)
        outs = visit(equation, given, of, list(bound) if equation.primitive.multiple_results else [bound])
        return [(value, _kept(equation, of)) for value in outs]

    return followed(program, inputs, step, lambda constant: (constant, None))


def _kept(equation: Equation, of: list[Weight | None]) -> Weight | None:
    """The array that an operation hands on, in another type or order of axes."""
    if equation.primitive.name not in KEPT or of[0] is None:
        return None
    order = equation.params.get("permutation", range(len(of[0].axes)))
    return Weight(of[0].site, tuple(of[0].axes[axis] for axis in order))


def _note(equation: Equation, given: list[Any], of: list[Weight | None], found: dict[str, Met]) -> None:
    """Add what meets an array in this operation."""
    name = equation.primitive.name
    met = None
    if name == "dot_general" and (of[0] is None) != (of[1] is None):
        met = _of_product(equation.params["dimension_numbers"], given, 0 if of[0] is not None else 1, of)
    elif name == "conv_general_dilated" and of[0] is None and of[1] is not None:
        met = _of_convolution(equation.params, given, of[1])
    if met is None:
        return
    site = (of[0] or of[1]).site  # type: ignore[union-attr]
    if site in found:
        if found[site].axes != met.axes:
            raise ValueError(
                f"{site!r} is read by other axes at one place than at another, as of a tied layer W x and W' x: what meets its "
                "rows says nothing of its columns. Cut it by magnitude, bp.prune_once(..., bp.methods.Cut(scope='per_output'))."
            )
        met = Met(found[site].moments + met.moments, met.axes)
    found[site] = met


def _of_product(numbers: tuple[Any, ...], given: list[Any], place: int, of: list[Weight | None]) -> Met | None:
    contracted, batched = numbers
    weight = of[place]
    if weight is None or batched[place]:
        return None
    x = given[1 - place]
    inputs = jnp.moveaxis(x, contracted[1 - place], range(-len(contracted[place]), 0))
    flat = inputs.reshape((-1, int(np.prod([x.shape[axis] for axis in contracted[1 - place]]))))
    return Met(_squared(flat), tuple(weight.axes[axis] for axis in contracted[place]))


def _of_convolution(params: dict[str, Any], given: list[Any], weight: Weight) -> Met | None:
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    lhs, rhs, out = params["dimension_numbers"]
    patches = lax.conv_general_dilated_patches(
        given[0],
        filter_shape=[given[1].shape[axis] for axis in rhs[2:]],
        window_strides=params["window_strides"],
        padding=params["padding"],
        lhs_dilation=params["lhs_dilation"],
        rhs_dilation=params["rhs_dilation"],
        dimension_numbers=lax.ConvDimensionNumbers(lhs, rhs, out),
        precision=EXACT,
    )
    flat = jnp.moveaxis(patches, out[1], -1)
    # Features of a patch: channels first, then the places of the kernel.
    return Met(_squared(flat.reshape((-1, flat.shape[-1]))), tuple(weight.axes[axis] for axis in rhs[1:]))


def _squared(rows: jax.Array) -> jax.Array:
    return jnp.einsum("ni,nj->ij", rows, rows, precision=EXACT)
