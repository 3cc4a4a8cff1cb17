"""Posteriors read out of NumPyro parameters, and written back."""

import jax.numpy as jnp
import numpy as np

from bayesprune.posteriors.params import cut, read

PARAMS = {
    "net/a.kernel_auto_loc": jnp.array([1.0, 2.0]),
    "net/a.kernel_auto_scale": jnp.array([0.1, 0.2]),
    "b_auto_loc": jnp.array(3.0),
    "b_auto_scale": jnp.array(0.3),
    "c_auto_loc": jnp.ones(2),
    "d_dense_loc": jnp.ones(2),
    "d_dense_scale": jnp.ones(2),
    "e_map_loc": jnp.array([4.0, 5.0]),
    "net$params": {"a": {}},
}


def test_pairs_of_arrays_are_posteriors() -> None:
    nodes = read(PARAMS)
    assert set(nodes) == {"net/a.kernel", "e"}, "no scalars, no halves, nothing that is kept dense"
    assert not np.any(nodes["e"].scale), "points have no spread"
    np.testing.assert_array_equal(nodes["net/a.kernel"].loc, [1.0, 2.0])
    np.testing.assert_array_equal(nodes["net/a.kernel"].scale, np.array([0.1, 0.2], np.float32))


def test_what_dies_is_zero_and_all_else_the_same() -> None:
    before = {name: np.array(value) for name, value in PARAMS.items() if name != "net$params"}
    mask = {"net/a.kernel": jnp.array([False, True]), "e": jnp.array([True, False])}
    after = cut(PARAMS, mask)
    np.testing.assert_array_equal(after["net/a.kernel_auto_loc"], [0.0, 2.0])
    np.testing.assert_array_equal(after["net/a.kernel_auto_scale"], np.array([0.0, 0.2], np.float32))
    np.testing.assert_array_equal(after["e_map_loc"], [4.0, 0.0])
    assert set(after) == set(PARAMS)
    touched = {"net/a.kernel_auto_loc", "net/a.kernel_auto_scale", "e_map_loc"}
    assert all(after[name] is PARAMS[name] for name in set(PARAMS) - touched)
    assert all(np.array_equal(PARAMS[name], value) for name, value in before.items()), "the given parameters are left alone"


def test_a_dead_nan_is_gone() -> None:
    params = {"a_auto_loc": jnp.array([jnp.nan, 1.0]), "a_auto_scale": jnp.array([jnp.nan, 1.0])}
    after = cut(params, {"a": jnp.array([False, True])})
    np.testing.assert_array_equal(after["a_auto_loc"], [0.0, 1.0])


def test_a_dead_weight_that_is_one_number_has_no_spread_left() -> None:
    params = {"slope_auto_loc": jnp.asarray(0.5), "slope_auto_factor": jnp.full((1, 1), 0.3)}
    found = cut(params, {"slope": jnp.asarray(False)})
    assert float(found["slope_auto_loc"]) == float(found["slope_auto_factor"][0, 0]) == 0.0  # as the factor stayed at 0.3
