"""Operations entry by entry: activations, biases, scales, residual sums, gates; and which weights belong to a normalisation.

These scale or shift an activation right after it was divided by its size. They are found by their arithmetic, not by names. A
square root makes a value the (inverse) standard deviation; what is multiplied by the inverse is normalised. A weight that
multiplies the result is a scale, one that is added a shift, one that bounds it a threshold. A scale may also multiply the
inverse first (batch norms), or the activation before it meets the inverse (filter response norms).
"""

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from bayesprune.structure.graph import CONSTANT, NOTHING, Labels, Signals, Terms, Value, Weights, bits_of, expand, made_of
from bayesprune.structure.primitive import Params, Primitive, Products
from bayesprune.structure.recorder import LARGEST, Recorder


def read_elementwise(recorder: Recorder, op: Primitive, params: Params, operands: list[Value]) -> Value:
    """The value of an elementwise operation, its terms written down."""
    rank = max(len(value.shape) for value in operands)
    operands = [_of_rank(value, rank) for value in operands]
    numbers = [value.literal if isinstance(value, Signals) else None for value in operands]
    assert op.terms is not None
    name, products = op.name, op.terms(params, numbers)
    moving = [value for value in operands if isinstance(value, Weights) or not value.steady]
    if moving and all(isinstance(value, Weights) for value in moving):
        result: Value = _of_weights(recorder, products, operands, name)
    else:
        result = _of_signals(recorder, products, operands)
        result = replace(result, literal=numbers[0] if op.same else None)
    result, found = _normalised(op, params, operands, result)
    recorder.norms |= found
    return result


def _of_weights(recorder: Recorder, products: Products, operands: list[Value], name: str) -> Value:
    """Weights and constants: still weights, those of the largest array; others that enter are given up on."""
    weights = {i: value for i, value in enumerate(operands) if isinstance(value, Weights)}
    main = min(weights.values(), key=lambda value: (-math.prod(value.shape), value.solid))
    same = {i for i, value in weights.items() if value.shows_what(main)}
    for i in weights.keys() - same:
        recorder.pin(weights[i], f"{name} with other weights before any data")
    shape = np.broadcast_shapes(*(value.shape for value in operands))
    if shape != main.shape:
        main = main.showing(np.broadcast_to(main.entries, shape))
    left = [product for product in products if not _vanishes(product, operands)]
    if any(same.isdisjoint(product) for product in left) and main.listed is not None and (main.entries == NOTHING).any():
        return recorder.pin(main, f"{name} where zeros had been put beside them")
    zeros = functools.reduce(np.logical_and, (_zeros(name, product, operands) for product in left), np.True_)
    if zeros.any():
        main = main.showing(np.where(zeros, NOTHING, main.entries))
    zeroing = {i for i in same if not weights[i].solid}
    return replace(main, solid=any(zeroing.isdisjoint(product) for product in left), form="")


def _zeros(name: str, product: tuple[int, ...], operands: list[Value]) -> Any:
    """Where a product is zero for a constant of it is, such as a mask; or where another case is chosen by one."""
    known = [(i, value.array) for i, value in enumerate(operands) if isinstance(value, Signals) and value.array is not None]
    if name == "select_n":
        return functools.reduce(np.logical_or, (array != product[0] - 1 for i, array in known if i == 0 and product), np.False_)
    return functools.reduce(np.logical_or, (array == 0 for i, array in known if i in product), np.False_)


def _of_signals(recorder: Recorder, products: Products, operands: list[Value]) -> Signals:
    heads = bits_of(value.heads for value in operands if isinstance(value, Signals))
    for value in operands:
        if isinstance(value, Weights):
            recorder.use(value, heads)
    return made_of(_result(recorder, products, operands), operands)


def _of_rank(value: Value, rank: int) -> Value:
    """A number stands for an array of itself."""
    missing = rank - len(value.shape)
    if not missing:
        return value
    wide = (1,) * missing + value.shape
    if isinstance(value, Signals):
        return value.labelled(value.labels.reshape(wide))
    return value.showing(value.entries.reshape(wide), (0,) * missing + value.axes)


def _result(recorder: Recorder, products: Products, operands: list[Value]) -> Labels:
    """Labels of the result: those of an operand where it alone decides, else new ones, one for each combination."""
    signals = [(i, value.labels) for i, value in enumerate(operands) if isinstance(value, Signals)]
    changing = [i for i, labels in signals if ((labels != CONSTANT) & (labels != NOTHING)).any()]
    weighty = any(isinstance(value, Weights) for value in operands)
    if not changing and not weighty:
        shape = np.broadcast_shapes(*(labels.shape for _, labels in signals))
        zero = all(any(operands[i].zero for i in product) for product in products)  # type: ignore[union-attr]
        return np.full(shape, NOTHING if zero else CONSTANT)
    if len(changing) == 1 and not weighty and _alone(changing[0], products, operands):
        own = dict(signals)[changing[0]]
        return np.broadcast_to(own, np.broadcast_shapes(*(labels.shape for _, labels in signals)))
    target = _combinations(recorder, operands)
    for product in products:
        _write(recorder, target, [operands[i] for i in product])
    for _, labels in signals:
        recorder.tie_each(target, labels)
    return target


def _alone(one: int, products: Products, operands: list[Value]) -> bool:
    """Whether the result is nonzero just where one operand may be: the others are constants that only multiply it."""
    terms = [[i for i in product if i != one] for product in products if not _vanishes(product, operands)]
    with_it = [product for product in products if one in product]
    others = [operands[i] for product in with_it for i in product if i != one]
    whole = all(isinstance(value, Signals) and (value.labels == CONSTANT).all() for value in others)
    return whole and len(terms) == len(with_it) > 0


def _vanishes(product: tuple[int, ...], operands: list[Value]) -> bool:
    return any(isinstance(value, Signals) and value.zero for value in (operands[i] for i in product))


def _combinations(recorder: Recorder, operands: list[Value]) -> Labels:
    """New signals, one for each combination of the operands' signals; of entries too, where no signal is a unit's."""
    signals = [value.labels for value in operands if isinstance(value, Signals)]
    shape = np.broadcast_shapes(*(labels.shape for labels in signals))
    code = np.zeros(shape, np.int64)
    for labels in signals:
        _, code = np.unique(code * (recorder.num_signals + 1) + labels + 1, return_inverse=True)
        code = code.reshape(shape)
    blend = np.logical_and.reduce([np.broadcast_to(recorder.blend(labels), shape) for labels in signals])
    weights = [value.shape for value in operands if isinstance(value, Weights)]
    if weights and blend.all():
        wide = np.broadcast_shapes(shape, *weights)
        if math.prod(wide) <= LARGEST:
            return recorder.new(wide)
    count = int(code.max(initial=-1)) + 1
    mixed = np.zeros(count, bool)
    mixed[code.ravel()] = blend.ravel()
    return np.asarray(recorder.new((count,), mixed & (not weights))[code])


def _write(recorder: Recorder, target: Labels, factors: list[Value]) -> None:
    """One term: a product of at most two factors, of which one may be weights."""
    weights = [value for value in factors if isinstance(value, Weights)]
    sources: list[Labels] = [value.labels for value in factors if isinstance(value, Signals)]
    sources = sources or [np.full((1,) * target.ndim, CONSTANT)]
    if not weights:
        recorder.terms.append(Terms(target, sources[0], sources[1] if len(sources) > 1 else None))
        return
    for other in weights[1:]:
        recorder.pin(other, "chosen by another weight")
    view, arrays = weights[0], [target, *sources]
    # Signals that differ where the view does not: classes of one entry each.
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    apart = [axis for axis, size in enumerate(shape) if size > 1 and view.shape[axis] == 1]
    recorder.weigh(view, *(_in_classes(array, shape, apart) for array in arrays))


def _in_classes(labels: Labels, shape: tuple[int, ...], apart: list[int]) -> Labels:
    """Labels with the axes ``apart``, of full size, laid out along a new first one."""
    for axis in apart:
        labels = expand(labels, axis, shape[axis])
    kept = [axis for axis in range(labels.ndim) if axis not in apart]
    sizes = [1 if axis in apart else size for axis, size in enumerate(labels.shape)]
    return labels.transpose(*apart, *kept).reshape(-1, *sizes)


# ---- normalisations
DEVIATION, INVERSE, SCALED_INVERSE = "deviation", "inverse", "scaled inverse"
NORMAL, SCALED, SHIFTED = "normal", "scaled", "shifted"


def _normalised(op: Primitive, params: Params, operands: list[Value], result: Value) -> tuple[Value, int]:
    """The result of an elementwise operation with its form, and the bits of the weights found to be a norm's."""
    name = op.name
    if op.same:
        if isinstance(operands[0], Signals) and isinstance(result, Signals):
            result = replace(result, scaled_by=operands[0].scaled_by)
        return replace(result, form=operands[0].form), 0
    if len(operands) == 1 or (name in ("pow", "integer_pow") and isinstance(operands[0], Signals)):
        return replace(result, form=_root(name, params, operands)), 0
    if len(operands) != 2:
        return result, 0
    weights = [value for value in operands if isinstance(value, Weights)]
    if not weights:
        form, found = _of_two(name, *operands)
        return replace(result, form=form), found
    if len(weights) == 2:
        return result, 0
    other = operands[0] if operands[1] is weights[0] else operands[1]
    assert isinstance(other, Signals)
    return _with_weights(name, weights[0], other, result)


def _root(name: str, params: Params, operands: list[Value]) -> str:
    value = operands[0]
    # A root of weights alone is no statistic of data: weight normalisation divides by it.
    if not isinstance(value, Signals) or (value.upstream and not value.of_rows):
        return ""
    exponent = operands[1].literal if name == "pow" and isinstance(operands[1], Signals) else params.get("y")
    if name == "rsqrt" or (name == "pow" and exponent == -0.5):
        return INVERSE
    if name == "sqrt" or (name == "pow" and exponent == 0.5):
        return DEVIATION
    return INVERSE if name == "integer_pow" and exponent == -1 and value.form == DEVIATION else ""


def _of_two(name: str, one: Value, other: Value) -> tuple[str, int]:
    assert isinstance(one, Signals) and isinstance(other, Signals)
    forms = (one.form, other.form)
    if name == "mul" and INVERSE in forms:
        inverse, rest = (one, other) if one.form == INVERSE else (other, one)
        if rest.literal is not None:
            return INVERSE, 0
        # A scale that the inverse does not depend on came between the two.
        scales = rest.scaled_by & ~inverse.upstream
        return (SCALED if scales else NORMAL), scales
    if name == "mul" and SCALED_INVERSE in forms:
        return SCALED, 0
    if name == "div" and other.form == DEVIATION:
        return (INVERSE if one.literal is not None else NORMAL), 0
    if name in ("add", "max", "mul") and (one.literal is not None or other.literal is not None):
        form = other.form if one.literal is not None else one.form
        return (form if form == DEVIATION or (name == "mul" and form in (INVERSE, NORMAL)) else ""), 0
    return "", 0


def _with_weights(name: str, weights: Weights, other: Signals, result: Value) -> tuple[Value, int]:
    form, bits = other.form, weights.upstream
    if name == "mul" and weights.form == SCALED_INVERSE:
        return replace(result, form=SCALED), 0
    if name == "mul" and form == INVERSE:
        return replace(result, form=SCALED_INVERSE), bits
    if name == "mul" and form == NORMAL:
        return replace(result, form=SCALED), bits
    if name == "mul" and isinstance(result, Signals):
        return replace(result, scaled_by=bits), 0
    if name in ("add", "sub") and form in (NORMAL, SCALED):
        return replace(result, form=SHIFTED), bits
    if name == "max":  # a learned threshold, wherever it is: after a residual sum, too
        return result, bits
    return result, 0
