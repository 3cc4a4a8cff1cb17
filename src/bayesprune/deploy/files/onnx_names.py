"""What ONNX calls the operations of a plan, and how it makes those that it has no name for."""

from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "div": "Div", "erf": "Erf", "exp": "Exp", "floor": "Floor",
    "log": "Log", "logistic": "Sigmoid", "max": "Max", "min": "Min", "mul": "Mul", "neg": "Neg", "pow": "Pow", "round": "Round",
    "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "sub": "Sub", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
COMPARE = {"eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less", "ne": "Equal"}
LOGIC = {"and": "And", "not": "Not", "or": "Or", "xor": "Xor"}
REDUCE = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum"}
POOL = {"window_sum": ("AveragePool", 0.0), "window_max": ("MaxPool", -np.inf), "window_min": ("MaxPool", np.inf)}
# Of several nodes; exp(a) - 1 and log(1 + a) as they stand would lose the digits of a small a.
MADE: dict[str, Callable[..., Any]] = {
    "cbrt": lambda add, a: add("Mul", add("Sign", a), add("Pow", add("Abs", a), 1 / 3)),
    "clamp": lambda add, low, a, high: add("Min", add("Max", a, low), high),
    "erfc": lambda add, a: add("Sub", 1, add("Erf", a)),
    "exp2": lambda add, a: add("Pow", 2, a),
    "expm1": lambda add, a: add("Mul", add("Tanh", add("Mul", a, 0.5)), add("Add", add("Exp", a), 1)),
    "integer_pow": lambda add, a, y: add("Pow", a, y),
    "is_finite": lambda add, a: add("Not", add("Or", add("IsNaN", a, dtype=bool), add("IsInf", a, dtype=bool))),
    "log1p": lambda add, a: add("Asinh", add("Mul", add("Add", a, add("Div", a, add("Add", a, 1))), 0.5)),
    "rem": lambda add, a, b: add("Mod", a, b, fmod=1),
    "rsqrt": lambda add, a: add("Reciprocal", add("Sqrt", a)),
    "square": lambda add, a: add("Mul", a, a),
}
