"""Operations entry by entry on `parts.Part` arrays: done on the slices outside of which the result is one number."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.send import send
from bayesprune.model.transforms.parts import Index, Part, moved
from bayesprune.structure.jaxprs import Equation

_EITHER = frozenset(("mul", "and"))  # zero where one factor is
_OVER = frozenset(("div", "rem"))  # zero where the first is


def bind(equation: Equation, values: list[Any], **changed: Any) -> Any:
    """The operation on other values, some of its parameters changed."""
    with equation.ctx.manager:
        return equation.primitive.bind(*values, **(equation.params | changed))


def entry_by_entry(equation: Equation, parts: list[Part], strict: bool) -> Part | None:
    """On the slices where the result is not one number; None where it is no such number elsewhere."""
    sizes = tuple(equation.outvars[0].aval.shape)
    if len(equation.outvars) > 1 or any(part.sizes and len(part.sizes) != len(sizes) for part in parts):
        return None
    left = [_left(equation, parts, axis) for axis in range(len(sizes))]
    rests = {rest for index, rest in left if index is not None}
    if len(rests) > 1:
        return None
    done = []
    for part in parts:
        for axis, (index, _) in enumerate(left):
            if part.sizes and not part.constant_along(axis) and part.sizes[axis] == sizes[axis]:
                part = moved(part, axis, index, strict)
        done.append(part)
    values = [part.value for part in done]
    if len(values) > 2:  # a choice among arrays, which have one shape
        shape = np.broadcast_shapes(*map(jnp.shape, values))
        values = [value if not jnp.ndim(value) else jnp.broadcast_to(value, shape) for value in values]
    kept = tuple(index for index, _ in left)
    number = _number(equation, parts)
    return Part(bind(equation, values), sizes, kept, number=number, rest=next(iter(rests), 0.0))


def _left(equation: Equation, parts: list[Part], axis: int) -> tuple[Index | None, float]:
    """The slices along an axis outside of which the result is one number, and that; None: all."""
    name = equation.primitive.name
    index = [part.kept[axis] if part.sizes else None for part in parts]
    zeros = [one if part.rest == 0 else None for one, part in zip(index, parts, strict=True)]
    there, empty = [one for one in index if one is not None], [one for one in zeros if one is not None]
    if not there:
        return None, 0.0
    if name in _EITHER and empty:
        return one_at_least(functools.reduce(np.intersect1d, empty), empty[0]), 0.0
    if name in _OVER and zeros[0] is not None and index[1] is None:
        return zeros[0], 0.0
    if name == "select_n":
        cases = [one for one, part in zip(zeros[1:], parts[1:], strict=True) if part.number != 0]
        if cases and all(one is not None for one in cases):
            return functools.reduce(np.union1d, [one for one in cases if one is not None]), 0.0
    rests = [part.number if one is None else part.rest for one, part in zip(index, parts, strict=True)]
    if any(rest is None for rest in rests):
        return None, 0.0
    rest = _value(equation, rests)
    return (functools.reduce(np.union1d, there), rest) if np.isfinite(rest) else (None, 0.0)


def _value(equation: Equation, numbers: list[Any]) -> float:
    """What an operation makes of numbers."""
    with jax.core.eval_context():  # whatever traces it
        values = [send(n, v.aval.dtype) for n, v in zip(numbers, equation.invars, strict=True)]
        return float(jax.device_get(equation.primitive.bind(*values, **equation.params)))


def _number(equation: Equation, parts: list[Part]) -> float | None:
    single = equation.primitive.name in ("convert_element_type", "neg", "copy")
    return _value(equation, [parts[0].number]) if single and parts[0].number is not None else None


def one_at_least(index: Index, other: Index) -> Index:
    """``index``, or the first of ``other`` where it is empty: no array is made of nothing."""
    return index if len(index) else other[:1]
