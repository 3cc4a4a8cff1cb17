"""SGHMC-SPL as a kernel: how it is called, and any tree of weights. For the rest see `test_samplers`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp

KERNEL = bp.kernels.SGHMCSPL(num_rows=50, num_cycles=0, step_size=0.1, decay=0.2)


def test_the_step_size_comes_first_as_of_every_sampler() -> None:
    """What samplers have in common is given by name."""
    for kind in (bp.kernels.SGLD, bp.kernels.SGHMC, bp.kernels.SGHMCSPL):
        assert kind(0.25) == kind(step_size=0.25)
        with pytest.raises(TypeError, match="positional"):
            kind(*[0.25] * 10)
    kernel = bp.kernels.SGHMCSPL(0.25, 0.2, temperature=0.5, num_cycles=2)
    assert (kernel.momentum, kernel.temperature, kernel.num_cycles) == (0.2, 0.5, 2)


def test_any_tree_moves_alike(rng_key) -> None:
    """Nested, or a bare array: the same numbers as by name."""
    flat = {"a": jnp.array([1.0, -2.0]), "b": jnp.array([[0.5]])}
    nested = {"a": [flat["a"]], "b": {"c": flat["b"]}}  # its leaves have the same order
    by_name, state = KERNEL.step(rng_key, flat, flat, KERNEL.init(flat))
    found, moved = KERNEL.step(rng_key, nested, nested, KERNEL.init(nested))
    assert jax.tree.structure(found) == jax.tree.structure(nested)
    for ours, theirs in ((found, by_name), (moved.rho, state.rho), (moved.momentum, state.momentum)):
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_array_equal(a, b)
    assert KERNEL.step(rng_key, flat["a"], flat["a"], KERNEL.init(flat["a"]))[0].shape == (2,)
