"""What becomes of a Gaussian weight in an operation: it stays one, or it meets data and makes noise, or it must be drawn.

Noise is exact where every element of the weight reaches one number of each row's result. With data x of rows n:

  x_nc W_cf          yes: a dense layer on a matrix of rows        x_npc W_cf  (tokens p)      no
  h_nf + b_f         yes                                           h_npf + b_f (positions p)   no
  convolution        with one position of its output, else by the custom that its positions have noises of their own
"""

import math

import jax.numpy as jnp

from bayesprune.model.transforms.dependence import Dependence, Image, Kind, Ledger, Use
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.ops import record_of

_SUMS = frozenset(("add", "sub"))


def meet(ledger: Ledger, equation: Equation, kinds: list[Kind], place: int) -> Kind | None:
    """What the operation gives whose operand number ``place`` is a weight's image and no other is; None: draw the weight."""
    name, others = equation.primitive.name, [kind for i, kind in enumerate(kinds) if i != place]
    shape, out = (tuple(variable.aval.shape) for variable in (equation.invars[place], equation.outvars[0]))
    record = record_of(equation)
    if record.keeps and record.linear and len(equation.invars) == 1:  # every element moves as a whole
        return kinds[place] if math.prod(shape) == math.prod(out) and _is_floating(equation) else None
    if all(kind == Dependence() for kind in others):  # constants
        if _lays_out(equation, place):
            return kinds[place]
        return kinds[place] if _keeps(name, place) and _padded(shape, out) == out else None
    if _makes_noise(name, place) and len(others) == 1:
        return _noise(ledger, equation, kinds, place)
    return None


def _is_floating(equation: Equation) -> bool:
    return bool(jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.inexact))


def _lays_out(equation: Equation, place: int) -> bool:
    """Whether every element of the weight is put in a place of its own."""
    if equation.primitive.name != "scatter" or place != 2 or not equation.params["unique_indices"]:
        return False
    return not equation.params["dimension_numbers"].update_window_dims


def _keeps(name: str, place: int) -> bool:
    """Whether a weight beside constants, element by element, stays Gaussian."""
    return name in _SUMS | {"mul"} or (name == "div" and place == 0) or (name == "select_n" and place > 0)


def _makes_noise(name: str, place: int) -> bool:
    at = {"div": 0, "conv_general_dilated": 1}
    return name in _SUMS | {"mul", "dot_general"} or at.get(name) == place


def _noise(ledger: Ledger, equation: Equation, kinds: list[Kind], place: int) -> Dependence | None:
    """Noise for every output, if the other operand has rows and the weight reaches each row's outputs but once."""
    weight, data = kinds[place], kinds[1 - place]
    assert isinstance(weight, Image) and isinstance(data, Dependence)
    axis = None if data.axis is None else record_of(equation).moved(equation, 1 - place, data.axis)
    if axis is None or any(use.site == weight.site for use in data.uses):
        return None
    reached = _reached(equation, place, axis)
    customary = reached > 1 and equation.primitive.name == "conv_general_dilated" and ledger.shared == "convolutions"
    if reached > 1 and not customary:
        return None
    found = ledger.join([data._replace(axis=axis)], linear=equation.primitive.name in _SUMS)
    return found._replace(uses=found.uses | {Use(weight.site, next(ledger.numbers), customary)})


def _reached(equation: Equation, place: int, axis: int) -> int:
    """How many numbers of one row's result an element of the weight enters."""
    shapes = [tuple(variable.aval.shape) for variable in equation.invars]
    out, params = tuple(equation.outvars[0].aval.shape), equation.params
    if equation.primitive.name == "dot_general":
        contracted, batch = (sides[1 - place] for sides in params["dimension_numbers"])
        free = [a for a in range(len(shapes[1 - place])) if a not in (*contracted, *batch)]
        rows_are_free = axis >= len(batch)
        return math.prod(shapes[1 - place][a] for a in free) // (out[axis] if rows_are_free else 1)
    if equation.primitive.name == "conv_general_dilated":
        return math.prod(out[a] for a in params["dimension_numbers"].out_spec[2:])
    weight = _padded(shapes[place], out)
    return math.prod(size for a, size in enumerate(out) if a != axis and weight[a] != size)


def _padded(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (len(out) - len(shape)) + shape
