"""SGHMC-SPL as a kernel: any tree of weights. Its formula, its moments and the optax form are in `test_samplers`."""

import jax
import jax.numpy as jnp
import numpy as np

import bayesprune as bp

KERNEL = bp.kernels.SGHMCSPL(num_rows=50, num_cycles=0, step_size=0.1, decay=0.2)


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
