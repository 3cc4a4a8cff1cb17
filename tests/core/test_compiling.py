"""Options of compilation: none where JAX is told to optimise nothing, names that XLA knows where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core import compiling
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


@pytest.mark.skipif(not compiling.MAPS.exists(), reason="only Linux has the limit")
def test_near_the_limit_of_maps_programs_are_forgotten_and_fits_go_on(rng_key, tmp_path, monkeypatch) -> None:
    """A limit that the process is beyond: a fit gives its maps back, and the same fit has the same numbers."""
    bnn, data = programs.small_bnn(), programs.classes()
    fit = lambda: bp.fit_svi(rng_key, bnn, data, num_steps=3, progress=False)  # noqa: E731
    before = fit()
    assert not compiling.make_room()
    held, limit = compiling.MAPS.read_bytes().count(b"\n"), tmp_path / "limit"
    limit.write_text(str(held))
    monkeypatch.setattr(compiling, "MOST_MAPS", limit)
    assert compiling.make_room() and compiling.MAPS.read_bytes().count(b"\n") < held
    np.testing.assert_array_equal(fit().losses, before.losses)
    monkeypatch.setattr(compiling, "MAPS", tmp_path / "none")
    assert not compiling.make_room()
