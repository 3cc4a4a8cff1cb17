"""Operations of the reader that are written for speed, against numbers that are counted one by one."""

import warnings
from decimal import Decimal, getcontext

import jax
import numpy as np
import pytest
from jax import lax

from bayesprune.deploy import reader
from bayesprune.deploy.program import run
from bayesprune.structure.ops import trees
from tests.deploy import small_trees
from tests.deploy.functions import rows

ONE_BY_ONE = {"window_sum": np.sum, "window_max": np.max, "window_min": np.min}
HOW = {
    "side by side": ([1, 2, 2, 1], [1, 2, 2, 1], [[0, 0]] * 4),
    "with a rest": ([1, 3, 2, 1], [1, 2, 4, 1], [[0, 0]] * 4),
    "overlapping, padded": ([1, 3, 3, 1], [1, 1, 2, 1], [[0, 0], [1, 1], [0, 2], [0, 0]]),
    "over rows and channels": ([2, 1, 1, 3], [1, 1, 1, 1], [[1, 0], [0, 0], [0, 0], [2, 0]]),
    "apart": ([1, 1, 2, 1], [1, 3, 3, 2], [[0, 0]] * 4),
    "as long as the image": ([1, 5, 8, 1], [1, 1, 1, 1], [[0, 0]] * 4),
    "longer than the image": ([1, 6, 1, 1], [1, 1, 2, 1], [[0, 0]] * 4),
    "longer than any image": ([1, 10**12, 1, 1], [1, 1, 2, 1], [[0, 0]] * 4),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", reader.WINDOW)
def test_pools_are_those_of_each_window(name, how) -> None:
    x, (window, strides, sides) = rows(np.random.default_rng(0), 3, 5, 8, 2), HOW[how]
    made = reader.step(name, {"window": window, "strides": strides, "sides": sides}, 3, x)
    padded = np.pad(x.astype(np.float64), sides, constant_values=reader.EMPTY[name])
    sizes = [max(0, (size - n) // by + 1) for size, n, by in zip(padded.shape, window, strides, strict=True)]
    expected = np.zeros(sizes)
    for place in np.ndindex(*sizes):
        corner = [i * by for i, by in zip(place, strides, strict=True)]
        expected[place] = ONE_BY_ONE[name](padded[tuple(slice(at, at + n) for at, n in zip(corner, window, strict=True))])
    assert (made.dtype, made.shape) == (np.float32, expected.shape)
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)


def test_trees_are_those_of_each_row_down_each_tree() -> None:
    x = np.concatenate([rows(np.random.default_rng(0), 50, 4), [[0.1, 0.3, 0.2, -0.5]]]).astype(np.float32)  # at all cuts
    wanted = small_trees.one_by_one(x)
    made = reader.step("trees", small_trees.HOW, len(x), x, *small_trees.NODES)
    assert made.dtype == np.float32 and len(np.unique(wanted, axis=0)) > 6
    np.testing.assert_allclose(made, wanted, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: trees.walked(x, *small_trees.NODES, **small_trees.HOW))(x), wanted, rtol=1e-6)
    several = jax.vmap(lambda x: trees.walked(x, *small_trees.NODES, **small_trees.HOW))(x.reshape((3, 17, 4)))
    np.testing.assert_allclose(several.reshape((51, 2)), wanted, rtol=1e-6)
    assert reader.step("trees", small_trees.HOW, 0, x[:0], *small_trees.NODES).shape == (0, 2)


@pytest.mark.parametrize("kind", ["int32", "uint8", "int8", "bool", "float32"])
def test_numbers_become_those_that_xla_makes_of_them_also_beyond_a_type(kind: str) -> None:
    x = np.array(
        [0.0, -0.7, 3.99, 127.5, 300.0, -129.0, 2.0**31, -(2.0**31), 3e9, -3e9, 1e38, np.inf, -np.inf, np.nan], np.float32
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = reader.step("convert", {"dtype": kind}, len(x), x)
    wanted = np.asarray(jax.jit(lambda x: lax.convert_element_type(x, kind))(x))  # without jit NumPy may convert
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)


def test_the_logistic_function_is_that_of_decimals() -> None:
    getcontext().prec = 40
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-15)):
        x = np.linspace(-87, 40, 200).astype(dtype)
        exact = [float(1 / (1 + (-Decimal(float(number))).exp())) for number in x]
        made = reader.step("logistic", {}, 1, x)
        assert made.dtype == dtype
        np.testing.assert_allclose(made, exact, rtol=tolerance)


def test_the_logistic_function_has_its_limits_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = reader.step("logistic", {}, 1, np.array([-np.inf, -1e30, -89, 0, 89, np.inf, np.nan], np.float32))
    np.testing.assert_allclose(made, [0, 0, 0, 0.5, 1, 1, np.nan], atol=1e-38)


CONVOLUTIONS = {
    "plain": ((5, 6, 4), (3, 2, 4, 6), {}),
    "in groups, with steps": ((6, 6, 4), (3, 3, 2, 6), {"strides": [2, 1], "groups": 2}),
    "dilated, padded": ((6, 7, 2), (2, 3, 2, 3), {"dilation": [2, 1], "sides": [[1, 0], [2, 2]]}),
}


@pytest.mark.parametrize("how", CONVOLUTIONS)
def test_convolutions_are_those_of_jax(how) -> None:
    shape, kernel, changed = CONVOLUTIONS[how]
    attributes = {"strides": [1, 1], "sides": [[0, 0], [0, 0]], "dilation": [1, 1], "groups": 1} | changed
    rng = np.random.default_rng(0)
    x, w = rows(rng, 3, *shape), rows(rng, *kernel)
    expected = lax.conv_general_dilated(
        x, w, attributes["strides"], [tuple(side) for side in attributes["sides"]], rhs_dilation=attributes["dilation"],
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=attributes["groups"], precision=lax.Precision.HIGHEST,
    )  # fmt: skip
    axes = {"data": [0, 3, 1, 2], "weights": [3, 2, 0, 1], "result": [0, 3, 1, 2]}
    made = reader.step("conv", axes | attributes, 3, x, w)
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


REFUSED = {
    "NaN": ("float32", [[1.0, np.nan]], "real numbers, and finite"),
    "beyond single precision": ("float32", [[1.0, 1e300]], "real numbers, and finite"),
    "complex numbers": ("float32", np.ones((1, 2), complex), "real numbers, and finite"),
    "dates": ("float32", np.zeros((1, 2), "M8[s]"), "real numbers, and finite"),
    "masked numbers": ("float32", np.ma.masked_equal([[1.0, 2.0]], 2.0), "without masked numbers"),
    "masked integers": ("int32", np.ma.masked_equal([[1, 2]], 2), "without masked numbers"),
    "the largest of 64 bits": ("int32", np.full((1, 2), 2**64 - 1, np.uint64), "integers beyond 16,777,216"),
    "the least of 64 bits": ("int32", np.full((1, 2), -(2**63)), "integers beyond 16,777,216"),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_single_precision_does_not_hold_are_refused(case) -> None:
    takes, x, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        reader.rows_of({"input_shape": [2], "takes": takes}, x)
    rows = reader.rows_of({"input_shape": [2], "takes": takes}, np.array([[3, -(2**24)]]))
    assert rows.tolist() == [[3.0, -(2.0**24)]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod"])
def test_whole_numbers_are_added_up_in_their_own_type(name, dtype) -> None:
    x = np.full((2, 5), 100, dtype)
    fold = {"reduce_sum": lax.add, "reduce_prod": lax.mul}[name]
    expected = np.asarray(lax.reduce(x, np.asarray(name == "reduce_prod", dtype), fold, (1,)))
    for made in (reader.step(name, {"axes": [1]}, 2, x), run.FUNCTIONS[name](jax.numpy.asarray(x), axes=[1])):
        assert made.dtype == dtype
        np.testing.assert_array_equal(made, expected)
