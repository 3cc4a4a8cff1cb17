"""Constants of a network: what is known of them, and what is computed from them alone."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params

from bayesprune.structure.costs import PRIMITIVES
from bayesprune.structure.movement import NOTHING
from bayesprune.structure.recorder import LARGEST
from bayesprune.structure.values import CONSTANT, Signals, Value

COUNTED = frozenset(["iota", "platform_index"])  # operations without operands whose results are plain numbers


def known(value: Any) -> Signals:
    """A constant of the program: zero, or taken for nonzero everywhere."""
    if jax.dtypes.issubdtype(getattr(value, "dtype", np.asarray(0).dtype), jax.dtypes.extended):
        return Signals(np.full((1,) * value.ndim, CONSTANT))
    array = np.asarray(value)
    label = CONSTANT if array.any() else NOTHING
    plain = array.dtype.kind in "biuf" and array.size <= LARGEST
    literal = float(array) if plain and array.ndim == 0 else None
    return Signals(np.full((1,) * array.ndim, label), literal=literal, array=array if plain and array.ndim else None)


def computed(equation: Any, inputs: Sequence[Value]) -> list[Value] | None:
    """The results where all operands are known arrays, as masks that a net is written with, or counters; None: they are not."""
    name, params = equation.primitive.name, equation.params
    avals = [atom.aval for atom in equation.invars]
    known_array = any(isinstance(value, Signals) and value.array is not None for value in inputs)
    is_counter = all(getattr(getattr(aval, "dtype", None), "kind", "none") in "iub" for aval in avals)
    if not (known_array or (avals and is_counter) or name in COUNTED):
        return None
    if name in PRIMITIVES or equation.effects or any(jaxprs_in_params(params)):
        return None
    pairs = zip(inputs, avals, strict=True)
    numbers = [value.numbers(aval.shape, aval.dtype) if isinstance(value, Signals) else None for value, aval in pairs]
    if any(array is None for array in numbers) or max(math.prod(v.aval.shape) for v in equation.outvars) > LARGEST:
        return None
    with jax.ensure_compile_time_eval():  # the network may be read within another trace
        made = equation.primitive.bind(*numbers, **params)
    return [known(one) for one in (made if equation.primitive.multiple_results else [made])]
