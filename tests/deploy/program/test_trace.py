"""Networks as operations on data, against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from bayesprune.deploy import reader
from bayesprune.deploy.program.run import run
from tests.deploy.functions import program_of, rows


@pytest.mark.parametrize("mode", ["edge", "linear_ramp", "mean", "maximum"])
def test_what_a_pad_makes_of_the_axis_of_the_rows_is_left_out(mode) -> None:
    """JAX pads that axis too, by nothing: the edge that it takes for it, of several rows, comes to no result."""
    sides, x = ((0, 0), (2, 1), (1, 1)), rows(np.random.default_rng(0), 5, 4, 3)
    program = program_of(lambda w, x: jnp.pad(x, sides, mode=mode) * w["a"], {"a": ()}, (4, 3))
    assert not program.opaque and not program.one_by_one
    values = {**program.constants, program.weights["a"]: np.float32(2), program.rows: x}
    made = reader.run(program.ops, values, len(x))[program.output]
    np.testing.assert_allclose(made, 2 * np.pad(x, sides, mode=mode), rtol=1e-5, atol=1e-6)


def _eight_bits(x):
    return lax.dot(x.astype(jnp.int8), jnp.full((5, 2), 100, jnp.int8), preferred_element_type=jnp.int32).astype(jnp.float32)


def _window(x):
    whole = x.astype(jnp.int32)
    return lax.reduce_window(whole, jnp.iinfo(jnp.int32).min, lax.max, (1, 2), (1, 1), "SAME").astype(jnp.float32)


@pytest.mark.parametrize("function", [_eight_bits, _window])
def test_what_numpy_computes_in_another_type_is_left_to_jax(function) -> None:
    """A product of bytes in longer numbers; the largest of whole numbers, beside which stands no infinity."""
    program, x = program_of(lambda w, x: function(x), {}, (5,)), 50 * rows(np.random.default_rng(0), 1, 5)
    assert len(program.opaque) == 1
    np.testing.assert_array_equal(run(program, {}, x), function(x))
