"""Options of compilation: none where JAX is told to optimise nothing, names that XLA knows where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.compiling import quickly, soundly


@pytest.mark.parametrize("options", [lambda: quickly(0), lambda: quickly(1), soundly])
def test_xla_takes_them_and_gives_the_same_numbers(options) -> None:
    """A wrong name would be refused by XLA."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        made = options()
        found = jax.jit(lambda x: jnp.sin(x) + x, compiler_options=made)(jnp.arange(5.0))
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
    assert bool(made) == (jax.default_backend() == "cpu")
    np.testing.assert_allclose(found, np.sin(np.arange(5.0)) + np.arange(5.0), rtol=1e-6)


def test_there_are_none_where_nothing_is_to_be_optimised() -> None:
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        assert quickly() == soundly() == {}
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
