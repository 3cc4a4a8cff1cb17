"""Bytes become the real numbers that the host would have made of them, to the bit; all other rows are refused."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.model.byte_scaling import ByteScaling
from bayesprune.model.inputs import Inputs, inputs_of, rows_taken

PIXELS = bp.data.Scaling(0.0, 255.0)
BYTES = np.arange(256, dtype=np.uint8).reshape(64, 4)


def test_every_byte_is_the_nearest_float_to_the_exact_quotient() -> None:
    made = jax.jit(inputs_of((4,), None, PIXELS).as_rows)(BYTES)
    for byte, value in zip(BYTES.ravel().tolist(), np.asarray(made).ravel(), strict=True):
        exact, gap = Fraction(byte, 255), Fraction(float(np.spacing(np.float32(value))))
        assert abs(Fraction(float(value)) - exact) <= gap / 2
    np.testing.assert_array_equal(made, BYTES.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("several", [True, False])
def test_a_number_for_each_channel_is_what_the_host_makes_of_it(several) -> None:
    scaling = bp.data.Scaling(np.array([125.3, 123.0, 113.9]), np.array([63.0, 62.1, 66.7]) if several else np.array(64.0))
    images = np.random.default_rng(0).integers(0, 256, (5, 2, 2, 3), dtype=np.uint8)
    np.testing.assert_array_equal(inputs_of((2, 2, 3), None, scaling).as_rows(images), scaling.apply(images))


def test_an_example_of_bytes_is_a_network_of_real_numbers() -> None:
    inputs = inputs_of(None, BYTES[:1], PIXELS)
    assert (
        inputs == inputs_of((4,), None, PIXELS) != inputs_of((4,), None)
        and inputs.is_real
        and inputs.leaves == (((4,), "float32"),)
    )
    assert hash(inputs) == hash(inputs_of((4,), None, bp.data.Scaling(np.zeros(()), np.array(255))))


def test_rows_that_were_scaled_before_are_not_scaled_again() -> None:
    inputs = inputs_of((4,), None, PIXELS)
    once = inputs.as_rows(BYTES)
    assert inputs.as_rows(once) is once
    with pytest.raises(TypeError, match=r"must be bytes.*x\.astype\(np\.uint8\)"):
        inputs.as_rows(jnp.ones((2, 4), jnp.int32))


def test_rows_of_a_program_without_a_network_stay_as_they_are() -> None:
    assert rows_taken(object(), BYTES) is BYTES


@pytest.mark.parametrize("dtype", [np.float32, np.int32, bool])
def test_what_is_no_bytes_is_refused_at_the_door(dtype) -> None:
    with pytest.raises(TypeError, match=r"test\.x must be bytes.*before they were scaled, or build the BNN without scaling="):
        inputs_of((4,), None, PIXELS).check(BYTES.astype(dtype), "test.x")
    inputs_of((4,), None, PIXELS).check(BYTES, "test.x")


REFUSED = {
    "a number": (255.0, TypeError, r"fields loc and scale, got 255\.0: give bp\.data\.Scaling"),
    "a class": (bp.data.Scaling, TypeError, "fields loc and scale"),
    "of other columns": (bp.data.Scaling(np.zeros(3), np.ones(3)), ValueError, r"shape \(3,\), and rows have \(4,\)"),
    "no scale": (bp.data.Scaling(0.0, 0.0), ValueError, "a scale above 0"),
    "no number": (bp.data.Scaling(np.nan, 1.0), ValueError, "finite numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_scaling_is_refused(case) -> None:
    scaling, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        inputs_of((4,), None, scaling)


def test_several_inputs_scale_their_own() -> None:
    with pytest.raises(TypeError, match="let its first lines scale them"):
        ByteScaling.of(PIXELS, Inputs.of_example({"a": BYTES, "b": BYTES}).leaves)
