"""Local reparameterisation as a program transformation: a network of Gaussian weights that samples its outputs.

A network is traced with plain arrays and looked through: `settle` finds the weights for which noise at the outputs has the
law of a sampled weight (see `settle`) and those that are drawn once instead; then `_run` goes through the trace a second
time, with numbers. Drawing is always right, and costs what it costs in weight sampling: gradients that vary more.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.extend.core import primitives as prims
from jax.typing import ArrayLike

from bayesprune.core.checks import check_name
from bayesprune.core.types import PyTree
from bayesprune.model.transforms.gaussian_array import GaussianArray, bind, image, outputs
from bayesprune.model.transforms.lower import plain_convolutions
from bayesprune.model.transforms.settle import CALLS, Dependence, Image, Kind, Ledger, kinds_of, less_drawn, program_of, settle
from bayesprune.structure.jaxprs import Equation, again, followed

SHARED = ("convolutions", "draw")


def local_noise(fn: Callable[..., Any], shared: str = "convolutions") -> Callable[..., Any]:
    """``fn(weights, *data)`` with `GaussianArray` arrays in ``weights``: noise where they meet data, one per output.

    y = loc x + sqrt(scale² x²) eps, one eps per element of y (4.2). Pure: the same arguments give the same noises.

    Args:
        fn: a function of a tree of weights (`GaussianArray` or plain arrays) and of data. Rows are counted by the first axis of
            the first array of the data, and of those others that have as many; all else is constant, also what ``fn``
            closes over.
        shared: ``"convolutions"`` has the customary noise for every position of a convolution; ``"draw"`` draws a kernel once.

    Whatever has rows in the result has, row by row, the law it has under sampled weights; sums over rows have its mean. To be
    inside `jax.grad` and `jax.jit`; a `jax.vmap` over examples belongs into ``fn``.

    Raises:
        ValueError: ``shared`` is an unknown name.

    >>> import jax.numpy as jnp
    >>> weight = GaussianArray(jnp.ones((3, 2)), 0.5, jax.random.key(0))
    >>> local_noise(lambda w, x: x @ w)(weight, jnp.ones((5, 3))).shape
    (5, 2)

    Source: Kingma, Salimans and Welling (2015), Variational dropout and the local reparameterization trick, eq. 6.
    """
    check_name("shared", shared, SHARED)

    def run(weights: PyTree, *data: PyTree, **named: PyTree) -> Any:
        seen = _look_through(fn, shared, weights, data, named)
        drawn = {Image(site) for site in seen.drawn}
        inputs = [(value.materialise() if kind in drawn else value, kind) for value, kind in seen.inputs]
        results = _run(Ledger(shared, seen.drawn), seen.program, inputs)
        return jax.tree.unflatten(seen.results, [value for value, _ in results])

    return run


def drawn_once(fn: Callable[..., Any], shared: str = "convolutions") -> Callable[..., Any]:
    """Which weights `local_noise` draws once: booleans in the place of its `GaussianArray` arrays, from the same arguments.

    >>> import jax.numpy as jnp
    >>> weight = GaussianArray(jnp.ones((3, 2)), 0.5, jax.random.key(0))
    >>> drawn_once(lambda w, x: x @ w)(weight, jnp.ones((5, 3))), drawn_once(lambda w, x: x @ w)(weight, jnp.ones((5, 4, 3)))
    (False, True)
    """

    def find(weights: PyTree, *data: PyTree, **named: PyTree) -> Any:
        leaves, tree = jax.tree.flatten(weights, is_leaf=_is_gaussian)
        drawn = _look_through(fn, shared, weights, data, named).drawn
        return jax.tree.unflatten(tree, [place in drawn for place in range(len(leaves))])

    return find


Known = tuple[Any, Kind]  # a value, and of which kind it is


class _Traced(NamedTuple):
    """A function's trace, what it is given, the weights to be drawn once, the tree of its results."""

    program: ClosedJaxpr
    inputs: list[Known]
    drawn: set[int]
    results: Any


def _look_through(
    fn: Callable[..., Any], shared: str, weights: PyTree, data: tuple[Any, ...], named: dict[str, Any]
) -> _Traced:
    values, tree = jax.tree.flatten((weights, data, named), is_leaf=_is_gaussian)
    dynamic = [i for i, value in enumerate(values) if _is_gaussian(value) or hasattr(value, "dtype")]
    result_tree: list[Any] = []

    def of_arrays(*arrays: ArrayLike) -> list[Any]:
        given = dict(zip(dynamic, arrays, strict=True))
        weights, data, named = jax.tree.unflatten(tree, [given.get(i, value) for i, value in enumerate(values)])
        results, tree_of_results = jax.tree.flatten(fn(weights, *data, **named))
        result_tree.append(tree_of_results)
        return results

    with plain_convolutions():  # that they can be seen in the trace
        closed = jax.make_jaxpr(of_arrays)(*(values[i].loc if _is_gaussian(values[i]) else values[i] for i in dynamic))
    first = _first_kinds(values, len(jax.tree.leaves(weights, is_leaf=_is_gaussian)))
    drawn = settle(closed, [first[i] for i in dynamic], shared)
    return _Traced(closed, [(values[i], first[i]) for i in dynamic], drawn, result_tree[-1])


def _is_gaussian(value: object) -> bool:
    return isinstance(value, GaussianArray)


def _first_kinds(values: Sequence[Any], num_weights: int) -> list[Kind]:
    """Of Gaussians, images by their place; of data, the axis of their rows."""
    arrays = [i for i, value in enumerate(values) if i >= num_weights and len(getattr(value, "shape", ()))]
    by_row = {i for i in arrays if values[i].shape[0] == values[arrays[0]].shape[0]}
    return [Image(i) if _is_gaussian(value) else Dependence(0 if i in by_row else None) for i, value in enumerate(values)]


def _run(ledger: Ledger, program: ClosedJaxpr, inputs: Sequence[Known]) -> list[Known]:
    """A program's results, each with its kind."""

    def step(equation: Equation, given: list[Known]) -> list[Known]:
        values, kinds = [value for value, _ in given], less_drawn(ledger, [kind for _, kind in given])
        return list(zip(*_run_equation(ledger, program.jaxpr, equation, values, kinds), strict=True))

    return followed(program, inputs, step, lambda constant: (constant, Dependence()))


def _run_equation(
    ledger: Ledger, jaxpr: Jaxpr, equation: Equation, values: list[Any], kinds: list[Kind]
) -> tuple[list[Any], list[Kind]]:
    """An equation's results, and their kinds."""
    images = [(place, kind) for place, kind in enumerate(kinds) if isinstance(kind, Image)]
    if equation.primitive in CALLS and (images or _has_convolution(program_of(equation))):
        return _run_call(ledger, equation, values, kinds)
    found = kinds_of(ledger, equation, kinds)
    if not images:
        plain = equation.primitive.name != "conv_general_dilated"
        return again(jaxpr, equation, values) if plain else [bind(equation, values)], found
    ((place, weight),) = images
    if isinstance(result := found[0], Image):
        return [image(equation, values, place)], found
    number = next(use.number for use in result.uses if use.site == weight.site)
    return [outputs(equation, values, place, number)], found


def _run_call(ledger: Ledger, equation: Equation, values: list[Any], kinds: list[Kind]) -> tuple[list[Any], list[Kind]]:
    """A jitted part is unrolled, its cached trace knows nothing of noise; a checkpoint stays one."""
    found: list[Kind] = []

    def inside(*values: PyTree) -> list[Any]:
        results = _run(ledger, program_of(equation), list(zip(values, kinds, strict=True)))
        found[:] = [kind for _, kind in results]
        return [value for value, _ in results]

    if equation.primitive is prims.remat_p:
        kept = {name: equation.params[name] for name in ("prevent_cse", "policy")}
        return jax.checkpoint(inside, **kept)(*values), found
    return inside(*values), found


def _has_convolution(program: ClosedJaxpr) -> bool:
    """Whether there is a convolution to be done the quick way."""
    inner = (program_of(equation) for equation in program.eqns if equation.primitive in CALLS)
    here = any(equation.primitive.name == "conv_general_dilated" for equation in program.eqns)
    return here or any(map(_has_convolution, inner))
