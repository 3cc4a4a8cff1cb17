"""Two dtypes leave the door; what they cannot hold is refused, wherever the array lives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.numbers import joined, real_numbers


@pytest.mark.parametrize("place", [np.asarray, jnp.asarray])
def test_floats_and_integers(place) -> None:
    for kind, wanted in (("float16", "float32"), (jnp.bfloat16, "float32"), ("uint8", "int32"), ("bool", "int32")):
        array = real_numbers(place(np.array([0, 1]), kind), "x")
        assert array.dtype == wanted and isinstance(array, jax.Array) == (place is jnp.asarray)
        np.testing.assert_array_equal(array, [0, 1])


def test_the_float_dtype_is_jax_s_own() -> None:
    x = np.array([1.0, 1.0 + 2.0**-40])
    assert real_numbers(x, "x").dtype == np.float32
    with jax.enable_x64(True):
        np.testing.assert_array_equal(real_numbers(x, "x"), x)
        assert real_numbers(np.array([3]), "x").dtype == np.int32


def test_nothing_is_copied_that_fits() -> None:
    x = np.zeros(3, np.float32)
    assert real_numbers(x, "x") is x


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.array([1e39]), ValueError, r"x holds 1 value\(s\) that are NaN or infinite"),
        (jnp.array([1.0, jnp.nan]), ValueError, r"x holds 1 value\(s\) that are NaN or infinite"),
        (np.array([2**31]), ValueError, "x holds integers from 2147483648 to 2147483648, beyond int32"),
        (np.array([2**32 - 1], np.uint32), ValueError, "beyond int32"),
        (jnp.array([1j]), TypeError, "x must hold real numbers"),
        (np.array(["a"]), TypeError, "x must hold numbers"),
        ([[1.0], [1.0, 2.0]], TypeError, "x must be an array, got list"),
        ([[np.ma.array([1.0, 99.0], mask=[0, 1])]], ValueError, "x is a masked array with 1 masked"),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, "x must hold numbers"),
        ([np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([3.0, 4.0])], ValueError, r"x is a masked array with 1 masked"),
        ([1.0, np.ma.masked], ValueError, r"x is a masked array with 1 masked"),
    ],
)
def test_the_rest_is_refused(value, kind, message) -> None:
    with pytest.raises(kind, match=message):
        real_numbers(value, "x")


def test_masked_rows_that_hide_nothing_are_an_array() -> None:
    np.testing.assert_array_equal(real_numbers([np.ma.array([1.0, 2.0]), [3.0, 4.0]], "x"), [[1, 2], [3, 4]])


def test_joined_blocks_are_let_go() -> None:
    blocks = [np.arange(2.0 * rows).reshape(2, rows, 1) for rows in (3, 3, 1)]
    wanted = np.concatenate(blocks, axis=1)
    np.testing.assert_array_equal(joined(blocks), wanted)
    assert blocks == []
