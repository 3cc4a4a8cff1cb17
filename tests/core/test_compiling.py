"""Options of compilation: none where JAX is told to optimise nothing, names that XLA knows where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune import cli
from bayesprune.core import compiling
from bayesprune.core.compiling import bits_by_kernel, quickly, soundly


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


@pytest.mark.slow
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


def _for_a_gpu() -> str:
    draw = jax.jit(lambda key: jax.random.normal(key, (300, 400)))
    return draw.trace(jax.random.key(0)).lower(lowering_platforms=("cuda",)).as_text()


def test_a_gpu_draws_random_bits_by_one_kernel_where_the_process_is_ours(monkeypatch) -> None:
    monkeypatch.delenv(compiling.BITS_BY_KERNEL.upper(), raising=False)
    assert "threefry2x32_ffi" not in _for_a_gpu()
    with pytest.raises(KeyError), bits_by_kernel():
        assert "threefry2x32_ffi" in _for_a_gpu()
        raise KeyError
    assert "threefry2x32_ffi" not in _for_a_gpu()


def test_what_the_environment_says_of_it_stands(monkeypatch) -> None:
    monkeypatch.setenv(compiling.BITS_BY_KERNEL.upper(), "0")
    with bits_by_kernel():
        assert "threefry2x32_ffi" not in _for_a_gpu()


def test_a_command_of_the_command_line_runs_so(monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(cli, "_dispatch", lambda words: seen.append(jax.config.values[compiling.BITS_BY_KERNEL]) or 0)
    monkeypatch.delenv(compiling.BITS_BY_KERNEL.upper(), raising=False)
    before = jax.config.values[compiling.BITS_BY_KERNEL]
    assert cli.main(["methods"]) == 0
    assert (seen, jax.config.values[compiling.BITS_BY_KERNEL]) == ([True], before)
