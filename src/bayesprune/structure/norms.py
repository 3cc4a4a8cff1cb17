"""Which weights belong to a normalisation: those that scale or shift an activation right after it was divided by its size.

They are found by their arithmetic, not by names. A square root makes a value the (inverse) standard deviation; what is
multiplied by the inverse is normalised. A weight that multiplies the result is a scale, one that is added a shift, one that
bounds it a threshold. A scale may also multiply the inverse first (batch norms), or the activation before it meets the inverse
(filter response norms).
"""

from dataclasses import replace

from bayesprune.structure.graph import Signals, Value, Weights
from bayesprune.structure.primitive import Params, Primitive

DEVIATION, INVERSE, SCALED_INVERSE = "deviation", "inverse", "scaled inverse"
NORMAL, SCALED, SHIFTED = "normal", "scaled", "shifted"


def after(op: Primitive, params: Params, operands: list[Value], result: Value) -> tuple[Value, int]:
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
