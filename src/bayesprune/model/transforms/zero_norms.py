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
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from bayesprune.core.types import PyTree
from bayesprune.structure.jaxprs import CALLS, Equation, JaxprLike, again

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
    _of_weights(jaxpr.jaxpr, [True] * num_weights + [False] * rest, found)
    return bool(found)


def _of_weights(jaxpr: JaxprLike, inputs: Sequence[Alone], found: list[bool]) -> list[Alone]:
    """What results are made of; ``found`` grows by every root of weights alone."""
    known: dict[Any, Alone] = dict(zip(jaxpr.invars, inputs, strict=True))
    tells = lambda atom: None if isinstance(atom, Literal) else known.get(atom)  # noqa: E731
    for equation in jaxpr.eqns:
        of_weights = list(map(tells, equation.invars))
        if (inner := _inner(equation)) is not None:
            made = _of_weights(inner.jaxpr, of_weights, found)
        else:
            made = [_made_of(of_weights)] * len(equation.outvars)
            if made[0] and equation.primitive.name in ROOTS:
                found.append(True)
        known.update(zip(equation.outvars, made, strict=True))
    return list(map(tells, jaxpr.outvars))


def _made_of(of_weights: Sequence[Alone]) -> Alone:
    if False in of_weights:
        return False
    return True if True in of_weights else None


def _inner(equation: Equation) -> ClosedJaxpr | None:
    """The program that an equation calls, if it is but called."""
    if equation.primitive.name not in CALLS or "custom" in equation.primitive.name:
        return None
    inner = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
    return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())


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
        made = _run(traced, leaves, [True] * number + [False] * (len(leaves) - number))[0]
        return jax.tree.unflatten(jax.tree.structure(shapes), made)

    return sound


def _apart(tree: jax.tree_util.PyTreeDef, leaves: Sequence[Any]) -> tuple[Any, ...]:
    params, others = jax.tree.unflatten(tree, leaves)
    return params, *others


def _run(program: ClosedJaxpr, arrays: Sequence[Any], of_weights: Sequence[Alone]) -> tuple[list[Any], list[Alone]]:
    """Results, and what they are made of."""
    jaxpr = program.jaxpr
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *arrays], strict=True))
    known: dict[Any, Alone] = dict(zip(jaxpr.invars, of_weights, strict=True))
    read = lambda atom: atom.val if isinstance(atom, Literal) else values[atom]  # noqa: E731
    tells = lambda atom: None if isinstance(atom, Literal) else known.get(atom)  # noqa: E731
    for equation in jaxpr.eqns:
        given, of_weights = list(map(read, equation.invars)), list(map(tells, equation.invars))
        if (inner := _inner(equation)) is not None:
            made, marks = _run(inner, given, of_weights)
        else:
            made = _bound(jaxpr, equation, given, of_weights)
            marks = [_made_of(of_weights)] * len(made)
        values.update(zip(equation.outvars, made, strict=True))
        known.update(zip(equation.outvars, marks, strict=True))
    return list(map(read, jaxpr.outvars)), list(map(tells, jaxpr.outvars))


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
