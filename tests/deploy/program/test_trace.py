"""Networks as operations on data, against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.deploy import reader
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
