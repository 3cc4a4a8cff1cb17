"""What zeros do to an elementwise operation, against the operation itself."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from bayesprune.structure.ops import PRIMITIVES

NUMBERS = (0.3, 0.7)  # in general position, and in the domain of every function
ONE = [name for name, record in sorted(PRIMITIVES.items()) if record.terms is not None and hasattr(lax, name)]
MADE_UP = {
    "integer_pow 3": ("integer_pow", {"y": 3}, lambda x: lax.integer_pow(x, 3)),
    "integer_pow -1": ("integer_pow", {"y": -1}, lambda x: lax.integer_pow(x, -1)),
    "select_n": ("select_n", {}, lambda p, a, b: lax.select_n(p > 0, a, b)),
    "clamp": ("clamp", {}, lax.clamp),
    "convert_element_type": ("convert_element_type", {}, lambda x: lax.convert_element_type(x, jnp.bfloat16)),
    "reduce_precision": ("reduce_precision", {}, lambda x: lax.reduce_precision(x, 8, 7)),
}
BINARY = (
    *("add", "sub", "mul", "div", "max", "min", "pow", "rem", "atan2", "nextafter", "gt", "lt", "ge", "le", "eq", "ne"),
    *("igamma", "igammac", "polygamma", "zeta", "complex"),
)
ON_INTEGERS = (
    "and",
    "or",
    "xor",
    "not",
    "population_count",
    "clz",
    "shift_left",
    *(f"shift_right_{kind}" for kind in ("arithmetic", "logical")),
)
CASES = {name: (name, {}, getattr(lax, name)) for name in ONE if name not in ON_INTEGERS} | MADE_UP


def arity(name: str) -> int:
    return 3 if name in ("clamp", "select_n", "regularized_incomplete_beta") else 2 if name in BINARY else 1


NO_NUMBERS = {"integer_pow", "optimization_barrier", "copy_p", "real", "imag", "conj"}  # other signatures, or complex


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", sorted(set(CASES) - NO_NUMBERS))
def test_where_no_product_is_left_the_result_is_zero(case) -> None:
    """Of every choice of operands that are zero: what no product of the others supports is exactly zero."""
    name, params, run = CASES[case]
    count = arity(name)
    checked = 0
    for zero in itertools.product((False, True), repeat=count):
        products = PRIMITIVES[name].terms(params, [None] * count)
        if any(not any(zero[i] for i in product) for product in products):
            continue
        for numbers in itertools.product((-NUMBERS[0], *NUMBERS), repeat=count):
            operands = [jnp.float32(0.0 if z else n) for z, n in zip(zero, numbers, strict=True)]
            out = np.asarray(run(*operands), np.float64)
            if name in ("div", "rem") and zero[1]:
                continue  # no finite result
            assert out == 0, (case, operands)
            checked += 1
    if () not in PRIMITIVES[name].terms(params, [None] * count):
        assert checked > 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("name", "function", "numbers"),
    [
        ("max", lambda x, b: lax.max(x, b), [(-1.0,), (0.0,), (2.0,)]),
        ("min", lambda x, b: lax.min(x, b), [(-1.0,), (0.0,), (2.0,)]),
        ("pow", lambda x, b: lax.pow(x, b), [(0.5,), (2.0,), (-1.0,)]),
        ("clamp", lambda x, a, b: lax.clamp(a, x, b), [(-1.0, 1.0), (0.0, 6.0), (0.5, 6.0), (-3.0, -1.0)]),
    ],
)
def test_a_bound_that_is_written_in_the_program_decides(name, function, numbers) -> None:
    for known in numbers:
        given = [known[0], None, known[1]] if name == "clamp" else [None, *known]
        at_zero = float(jax.jit(function)(jnp.float32(0.0), *map(jnp.float32, known)))
        assert (() in PRIMITIVES[name].terms({}, given)) == (at_zero != 0), known


@pytest.mark.parametrize(("name", "run"), [("max", max), ("min", min)])
def test_of_written_numbers_alone_zero_is_what_is_zero(name, run) -> None:
    for numbers in itertools.product((-2.0, -1.0, 0.0, 1.0, 2.0), repeat=2):
        assert bool(PRIMITIVES[name].terms({}, numbers)) == (run(numbers) != 0), numbers
