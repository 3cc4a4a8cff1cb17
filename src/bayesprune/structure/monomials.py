"""Elementwise operations as sums of products, as far as zeros go: what must be nonzero so that the result may be?

``mul`` is one product of both operands; ``add`` the sum of either; ``exp`` its operand, and a constant that is always there.
An empty product stands for that constant. Operands that only choose or divide are named beside what they act on, so that they
are found to matter where it does.
"""

from collections.abc import Callable, Sequence
from typing import Any

Monomials = list[tuple[int, ...]]
Numbers = Sequence[float | None]  # an operand that is a number written in the program, else None

_KEEPING_ZERO = """
neg tanh sign abs sqrt cbrt square sin tan asin atan sinh asinh atanh erf expm1 log1p convert_element_type copy copy_p floor
ceil round real imag conj stop_gradient reduce_precision optimization_barrier gt lt ne
"""
_OTHER = """
exp exp2 log logistic cos acos acosh cosh erfc erf_inv rsqrt is_finite not eq ge le atan2 nextafter lgamma digamma bessel_i0e
bessel_i1e population_count integer_pow pow max min mul div rem select_n clamp and
"""
ZERO_AT_ZERO = frozenset(_KEEPING_ZERO.split())
SUMS = frozenset({"add", "sub", "add_any", "or", "xor", "gt", "lt", "ne"})
ELEMENTWISE = ZERO_AT_ZERO | SUMS | frozenset(_OTHER.split())


def _each(count: int) -> Monomials:
    return [(i,) for i in range(count)]


def _bounded(numbers: Numbers, holds: Callable[[float], bool]) -> Monomials:
    """max and min: a written bound on the right side of zero leaves zero alone."""
    kept = [(i,) for i, number in enumerate(numbers) if number is None]
    return kept + [() for number in numbers if number is not None and not holds(number)]


def _clamp(numbers: Numbers) -> Monomials:
    low, high = numbers[0], numbers[2]
    if low is not None and high is not None:
        return [(1,)] if low <= 0 <= high else [(1,), ()]
    return _each(3)


def monomials(name: str, params: dict[str, Any], numbers: Numbers) -> Monomials:
    """The products of operands of which an elementwise operation is a sum.

    >>> monomials("mul", {}, [None, None]), monomials("exp", {}, [None]), monomials("max", {}, [None, 0.0])
    ([(0, 1)], [(0,), ()], [(0,)])
    """
    count = len(numbers)
    match name:
        case "mul" | "and":
            return [(0, 1)]
        case "div" | "rem":
            return [(0,), (0, 1)]
        case "select_n":
            return [term for case in range(1, count) for term in ((case,), (case, 0))]
        case "max":
            return _bounded(numbers, lambda bound: bound <= 0)
        case "min":
            return _bounded(numbers, lambda bound: bound >= 0)
        case "clamp":
            return _clamp(numbers)
        case "integer_pow":
            return [(0,)] if params["y"] > 0 else [(0,), ()]
        case "pow":
            exponent = numbers[1]
            return [(0,), (0, 1)] if exponent is not None and exponent > 0 else [*_each(2), ()]
    if name in SUMS or (name in ZERO_AT_ZERO and count == 1):
        return _each(count)
    return [*_each(count), ()]
