"""Fits whose devices change: a checkpoint goes on on others, and data may lie on axes of any kind."""

import json

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import bayesprune as bp
from bayesprune.model.families import MapFamily
from tests.infer import programs
from tests.infer.other_devices import WAYS
from tests.infer.processes import output_of

SETTINGS = {"num_steps": 4, "batch_size": 20, "progress": False}


@pytest.mark.slow
def test_a_fit_begun_without_a_mesh_goes_on_with_one(tmp_path, rng_key) -> None:
    """Here on one device, whose mesh is in the trace of a step as that of several is."""
    bnn, data = programs.small_bnn(), programs.classes()
    settings = {"batch_size": 20, "course": bp.courses.Plain(), "checkpoint": str(tmp_path), "progress": False}
    first = bp.fit_svi(rng_key, bnn, data, num_steps=2, **settings)
    resumed = bp.fit_svi(rng_key, bnn, data, num_steps=4, mesh=jax.make_mesh((1,), ("rows",)), **settings)
    assert resumed.losses.shape == (4,)
    np.testing.assert_array_equal(resumed.losses[:2], first.losses)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("fit", WAYS)
def test_a_checkpoint_goes_on_on_other_devices(fit, tmp_path) -> None:
    told = json.loads(output_of("other_devices.py", 4, fit, str(tmp_path)))
    assert told["devices"] == 4
    ways = [f"{first} -> {then}" for first, then in WAYS[fit]] + ["spread"] + (["read"] if fit == "svi" else [])
    # Sums over devices are taken in another order: float32's rounding, as in `test_eight_devices`.
    assert all(told[way] < 2e-5 for way in ways), told
    if fit == "svi":
        assert "batch_size was 16, now 8" in told["batch"]
        assert "training step was" in told["program"]


def on_explicit_axes(data: bp.Dataset) -> bp.Dataset:
    """Rows over the devices of a mesh as `jax.make_mesh` gives it: of one device here, which JAX treats as it does several."""
    mesh = jax.make_mesh((jax.device_count(),), ("rows",), axis_types=(AxisType.Explicit,))
    return bp.Dataset(*jax.device_put(tuple(data), NamedSharding(mesh, PartitionSpec("rows"))))


def by_svi(rng_key, bnn: bp.BNN, data: bp.Dataset) -> bp.FitResult:
    return bp.fit_svi(rng_key, bnn, data, **SETTINGS)


def by_sgmcmc(rng_key, bnn: bp.BNN, data: bp.Dataset) -> bp.FitResult:
    return bp.fit_sgmcmc(rng_key, bnn, data, num_samples=1, sample_every=1, **SETTINGS)


def by_laplace(rng_key, bnn: bp.BNN, data: bp.Dataset) -> bp.FitResult:
    start = bp.fit_svi(rng_key, bnn.under(MapFamily()), programs.classes(), num_steps=1, progress=False)
    return bp.laplace(rng_key, bnn, start, data)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("fit", [by_svi, by_sgmcmc, by_laplace])
def test_data_on_explicit_axes_are_as_good_as_others(fit, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    alone, laid = fit(rng_key, bnn, data), fit(rng_key, bnn, on_explicit_axes(data))
    np.testing.assert_allclose(laid.losses, alone.losses, rtol=2e-5)
