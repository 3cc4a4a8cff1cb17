"""Operations entry by entry: what zeros do to each, and what NumPy, ONNX and C call it.

As far as zeros go an operation is a sum of products of its operands: ``mul`` is one product of both; ``add`` the sum of either;
``exp`` its operand, and a constant that is always there, which an empty product stands for. Operands that only choose or divide
are named beside what they act on, so that they are found to matter where it does.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.structure.elementwise import read_elementwise
from bayesprune.structure.graph import Value
from bayesprune.structure.jaxprs import Equation
from bayesprune.structure.ops.movement import whole
from bayesprune.structure.primitive import Numbers, Params, Primitive, Products, Walk


def _each(params: Params, numbers: Numbers) -> Products:
    """Zero where all operands are."""
    return [(i,) for i in range(len(numbers))]


def _always(params: Params, numbers: Numbers) -> Products:
    """Never known to be zero."""
    return [*_each(params, numbers), ()]


def _product(params: Params, numbers: Numbers) -> Products:
    return [(0, 1)]


def _quotient(params: Params, numbers: Numbers) -> Products:
    return [(0,), (0, 1)]


def _choice(params: Params, numbers: Numbers) -> Products:
    return [term for case in range(1, len(numbers)) for term in ((case,), (case, 0))]


def _bounded(holds: Callable[[float], bool]) -> Callable[[Params, Numbers], Products]:
    """max and min: a written bound on the right side of zero leaves zero alone."""

    def terms(params: Params, numbers: Numbers) -> Products:
        kept: Products = [(i,) for i, number in enumerate(numbers) if number is None]
        kept += [() for number in numbers if number is not None and not holds(number)]
        return kept or [()] * all(numbers)  # of written numbers alone: zero where one of them is

    return terms


def _clamped(params: Params, numbers: Numbers) -> Products:
    low, high = numbers[0], numbers[2]
    if low is not None and high is not None:
        return [(1,)] if low <= 0 <= high else [(1,), ()]
    return _each(params, numbers)


def _whole_power(params: Params, numbers: Numbers) -> Products:
    return [(0,)] if params["y"] > 0 else [(0,), ()]


def _power(params: Params, numbers: Numbers) -> Products:
    exponent = numbers[1]
    return _quotient(params, numbers) if exponent is not None and exponent > 0 else _always(params, numbers)


# Giles (2011), Approximating the erfinv function: two polynomials in w = -log(1 - x²), below 5 and beyond it, from the highest
# power, as XLA has them.
_NEAR_AND_FAR = (
    (2.81022636e-08, -0.000200214257),
    (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322),
    (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773),
    (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047),
    (0.246640727, 1.00167406),
    (1.50140941, 2.83297682),
)


def _erf_inv(params: Params, shapes: Sequence[Any], known: Sequence[Any]) -> Any:
    """x p(w), exact to the digits of float32; infinite at the ends."""

    def function(x: jax.Array) -> jax.Array:
        w = -jnp.log1p(-x * x)
        near = w < 5
        w = jnp.where(near, w - 2.5, jnp.sqrt(jnp.maximum(w, 5)) - 3)
        p = functools.reduce(lambda p, pair: jnp.where(near, *pair) + p * w, _NEAR_AND_FAR, jnp.zeros_like(x))
        return jnp.where(jnp.abs(x) == 1, x * jnp.inf, p * x)

    return function


def function(
    name: str, numpy: str = "", onnx: str | Callable[..., Any] = "", terms: Callable[..., Any] = _always, **more: Any
) -> Primitive:
    """The record of an operation entry by entry; one that NumPy has is in plans under its own name, if nothing else is said."""

    def read(walk: Walk, equation: Equation, inputs: list[Value]) -> list[Value]:
        return [read_elementwise(walk.recorder, record, equation.params, inputs)]

    record = Primitive(name, terms, read, **{"axis": whole, "plan": name if numpy else "", **more}, numpy=numpy, onnx=onnx)
    return record


def odd(name: str, numpy: str = "", onnx: str | Callable[..., Any] = "", **more: Any) -> Primitive:
    """Of one operand, zero at zero."""
    return function(name, numpy, onnx, _each, **more)


def same(name: str, **more: Any) -> Primitive:
    """Of numbers that stay what they are."""
    return function(name, terms=_each, **{"linear": "sum", "same": True, "keeps": True, **more})


def _of_c(name: str) -> dict[str, Any]:
    """The names of a function that C's library has under JAX's, as ONNX has; NumPy writes arc for the a of an inverse."""
    return {"numpy": f"arc{name[1:]}" if name.startswith("a") else name, "onnx": name.capitalize(), "c": f"{name}f({{0}})"}


# Of several nodes of ONNX; exp(a) - 1 and log(1 + a) as they stand would lose the digits of a small a.
_CBRT = lambda add, a: add("Mul", add("Sign", a), add("Pow", add("Abs", a), 1 / 3))  # noqa: E731
_EXPM1 = lambda add, a: add("Mul", add("Tanh", add("Mul", a, 0.5)), add("Add", add("Exp", a), 1))  # noqa: E731
_FINITE = lambda add, a: add("Not", add("Or", add("IsNaN", a, dtype=bool), add("IsInf", a, dtype=bool)))  # noqa: E731
_LOG1P = lambda add, a: add("Asinh", add("Mul", add("Add", a, add("Div", a, add("Add", a, 1))), 0.5))  # noqa: E731

_CLAMP = "{0} != {0} || {2} != {2} ? NAN : {1} < {0} ? ({0} < {2} ? {0} : {2}) : {1} > {2} ? {2} : {1}"

RECORDS = [
    # functions of one number
    *[function(name, **_of_c(name)) for name in ("acos", "acosh", "cos", "cosh", "exp", "log")],
    *[odd(name, **_of_c(name)) for name in ("asin", "asinh", "atan", "atanh", "sin", "sinh", "tan", "tanh")],
    *[odd(name, **_of_c(name)) for name in ("ceil", "erf", "floor", "sqrt")],
    odd("abs", "abs", "Abs", c="fabsf({0})"),
    odd("cbrt", "cbrt", _CBRT, c="cbrtf({0})"),
    function("erfc", "erfc", lambda add, a: add("Sub", 1, add("Erf", a)), c="erfcf({0})"),
    function("exp2", "exp2", lambda add, a: add("Pow", 2, a), c="exp2f({0})"),
    odd("expm1", "expm1", _EXPM1, c="expm1f({0})"),
    function("is_finite", "isfinite", _FINITE, c="isfinite({0})"),
    odd("log1p", "log1p", _LOG1P, c="log1pf({0})"),
    function("logistic", "logistic", "Sigmoid", c="1.0f / (1.0f + expf(-({0})))"),
    odd("neg", "negative", "Neg", linear="sum", keeps=True, c="-({0})"),
    function("not", "logical_not", "Not", kind="b", c="{0} == 0.0f"),
    odd("round", "round", "Round", c="rintf({0})"),
    function("rsqrt", "rsqrt", lambda add, a: add("Reciprocal", add("Sqrt", a)), c="1.0f / sqrtf({0})"),
    odd("sign", "sign", "Sign", kind="f", c="{0} != {0} ? {0} : (float)(({0} > 0.0f) - ({0} < 0.0f))"),
    odd("square", "square", lambda add, a: add("Mul", a, a), c="{0} * {0}"),
    function("integer_pow", "power", lambda add, a, y: add("Pow", a, y), _whole_power, kind="f"),
    # of two
    function("add", "add", "Add", _each, linear="sum", c="{0} + {1}"),
    function("add_any", "add", "Add", _each, linear="sum", plan="add"),
    function("and", "logical_and", "And", _product, kind="b", c="{0} != 0.0f && {1} != 0.0f"),
    function("div", "divide", "Div", _quotient, linear="sum", but=(1,), kind="f", c="{0} / {1}"),
    function("eq", "equal", "Equal", c="{0} == {1}"),
    function("ge", "greater_equal", "GreaterOrEqual", c="{0} >= {1}"),
    function("gt", "greater", "Greater", _each, c="{0} > {1}"),
    function("le", "less_equal", "LessOrEqual", c="{0} <= {1}"),
    function("lt", "less", "Less", _each, c="{0} < {1}"),
    function("max", "maximum", "Max", _bounded(lambda bound: bound <= 0), c="{0} > {1} || {0} != {0} ? {0} : {1}"),
    function("min", "minimum", "Min", _bounded(lambda bound: bound >= 0), c="{0} < {1} || {0} != {0} ? {0} : {1}"),
    function("mul", "multiply", "Mul", _product, linear="product", c="{0} * {1}"),
    function("ne", "not_equal", "Equal", _each, c="{0} != {1}"),
    function("or", "logical_or", "Or", _each, kind="b", c="{0} != 0.0f || {1} != 0.0f"),
    function("pow", "power", "Pow", _power, kind="f", c="powf({0}, {1})"),
    function("rem", "fmod", lambda add, a, b: add("Mod", a, b, fmod=1), _quotient, kind="f", c="fmodf({0}, {1})"),
    function("sub", "subtract", "Sub", _each, linear="sum", c="{0} - {1}"),
    function("xor", "logical_xor", "Xor", _each, kind="b", c="({0} != 0.0f) != ({1} != 0.0f)"),
    # of three
    function(
        "select_n", "where", "Where", _choice, plan="select", linear="sum", but=(0,), keeps=True, c="{0} != 0.0f ? {2} : {1}"
    ),
    function("clamp", "clip", lambda add, low, a, high: add("Min", add("Max", a, low), high), _clamped, c=_CLAMP),
    # numbers that stay what they are
    same("convert_element_type", plan="convert", linear="cast"),
    same("copy", plan="same"),
    same("copy_p", plan="same"),
    same("stop_gradient", plan="same"),
    same("sharding_constraint", plan="same"),
    same("reduce_precision"),
    Primitive("optimization_barrier", read=lambda walk, equation, inputs: inputs, same=True, keeps=True, plan="same"),
    # that neither NumPy nor ONNX has
    odd("erf_inv", written=_erf_inv),
    odd("real", linear="sum"),
    *[odd(name) for name in ("conj", "imag")],
    *[function(name) for name in ("atan2", "bessel_i0e", "bessel_i1e", "clz", "complex", "digamma", "igamma")],
    *[function(name) for name in ("igammac", "lgamma", "nextafter", "polygamma", "population_count", "zeta")],
    *[
        function(name)
        for name in ("regularized_incomplete_beta", "shift_left", "shift_right_arithmetic", "shift_right_logical")
    ],
    Primitive("bitcast_convert_type", axis=whole),
]
