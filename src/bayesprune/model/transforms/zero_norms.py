"""Weights that a network divides by their own norm: a direction that is cut to zero is a dead unit, not 0/0.

    w = g v / |v|,  and w = 0 where v = 0

which is what is left of it as every gradient and every factor goes to zero with the weights that are cut. Networks that norm no
weights, or add to the norm, as Flax's `WeightNorm` does, are left as they are.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from bayesprune.core.types import PyTree
from bayesprune.model.transforms.settle import program_of
from bayesprune.structure.jaxprs import CALLS, Equation, again, followed

ROOTS = ("sqrt", "rsqrt")
Alone = bool | None  # whether an array is made of weights alone; None: of constants


def norms_weights(jaxpr: ClosedJaxpr, num_weights: int) -> bool:
    """Whether anything is divided by a function of weights alone that has a root in it; the first inputs are the weights.

    >>> net = lambda v, x: x @ (v / jnp.sqrt((v * v).sum(0)))
    >>> norms_weights(jax.make_jaxpr(net)(jnp.ones((2, 3)), jnp.ones((1, 2))), 1)
    True
    """
    found: list[bool] = []
    rest = len(jaxpr.jaxpr.invars) - num_weights
    _of_weights(jaxpr, [True] * num_weights + [False] * rest, found)
    return bool(found)


def _of_weights(program: ClosedJaxpr, inputs: Sequence[Alone], found: list[bool]) -> list[Alone]:
    """What results are made of; ``found`` grows by every root of weights alone."""

    def step(equation: Equation, of_weights: list[Alone]) -> list[Alone]:
        if (inner := _inner(equation)) is not None:
            return _of_weights(inner, of_weights, found)
        made = _made_of(of_weights)
        if made and equation.primitive.name in ROOTS:
            found.append(True)
        return [made] * len(equation.outvars)

    return followed(program, inputs, step, lambda constant: None)


def _made_of(of_weights: Sequence[Alone]) -> Alone:
    if False in of_weights:
        return False
    return True if True in of_weights else None


def _inner(equation: Equation) -> ClosedJaxpr | None:
    """The program that an equation calls, if it is but called."""
    name = equation.primitive.name
    return program_of(equation) if name in CALLS and "custom" not in name else None


def with_zero_norms(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function(params, *others)`` in which what is divided by the norm of weights alone is zero where that is zero.

    Roots of such have gradient zero at zero. Whatever else it does, it does as it did. All arguments are trees of arrays.

    >>> net = lambda params, x: x @ (params["v"] / jnp.linalg.norm(params["v"], axis=0))
    >>> print(with_zero_norms(net)({"v": jnp.array([[3.0, 0.0], [4.0, 0.0]])}, jnp.ones((1, 2))).round(2))
    [[1.4 0. ]]
    """

    def sound(params: PyTree, *others: PyTree) -> Any:
        leaves, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, (params, others)))
        number = len(jax.tree.leaves(params))
        abstract = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        traced, shapes = jax.make_jaxpr(lambda *flat: function(*_apart(tree, flat)), return_shape=True)(*abstract)
        made = _run(traced, [(leaf, place < number) for place, leaf in enumerate(leaves)])
        return jax.tree.unflatten(jax.tree.structure(shapes), [value for value, _ in made])

    return sound


def _apart(tree: jax.tree_util.PyTreeDef, leaves: Sequence[Any]) -> tuple[Any, ...]:
    params, others = jax.tree.unflatten(tree, leaves)
    return params, *others


def _run(program: ClosedJaxpr, inputs: Sequence[tuple[Any, Alone]]) -> list[tuple[Any, Alone]]:
    """Results, each with what it is made of."""

    def step(equation: Equation, given: list[tuple[Any, Alone]]) -> list[tuple[Any, Alone]]:
        if (inner := _inner(equation)) is not None:
            return _run(inner, given)
        of_weights = [mark for _, mark in given]
        made = _bound(program.jaxpr, equation, [value for value, _ in given], of_weights)
        return [(value, _made_of(of_weights)) for value in made]

    return followed(program, inputs, step, lambda constant: (constant, None))


def _bound(program: Jaxpr, equation: Equation, given: list[Any], of_weights: Sequence[Alone]) -> list[Any]:
    bind = functools.partial(equation.primitive.bind, **equation.params)
    if equation.primitive.name in ROOTS and of_weights[0]:
        zero = given[0] == 0
        return [jnp.where(zero, jnp.zeros_like(given[0]), bind(jnp.where(zero, jnp.ones_like(given[0]), given[0])))]
    if equation.primitive.name == "div" and of_weights[1]:
        zero = given[1] == 0
        quotient = bind(given[0], jnp.where(zero, jnp.ones_like(given[1]), given[1]))
        return [jnp.where(zero, jnp.zeros_like(quotient), quotient)]
    return again(program, equation, given)
