"""Schedules: their stated values, in and out of jit, and what they refuse."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core import schedules

ALL = [
    schedules.Constant(0.3),
    schedules.LinearWarmup(5, 20),
    schedules.LinearWarmup(0, 22.5),
    schedules.Cubic(0.05, 10, 90),
    schedules.CosineReplacement(75),
    schedules.Geometric(0.01, 0.1),
    schedules.CyclicalCosine(0.3, 12),
    schedules.Halving(40),
]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("schedule", ALL)
def test_integer_float_traced_and_array_steps_agree(schedule: object) -> None:
    steps = np.arange(0, 100, 7)
    each = [float(schedule(int(step))) for step in steps]
    np.testing.assert_allclose(schedule(steps.astype(np.float32)), each, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jax.jit(schedule)(jnp.asarray(steps)), each, rtol=1e-6, atol=1e-7)
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_allclose(jax.jit(schedule)(jnp.asarray(steps, jnp.int32)), each, rtol=1e-6, atol=1e-7)
    assert hash(schedule) == hash(schedule) and jnp.asarray(schedule(3)).dtype == jnp.float32


def test_warmup_waits_then_climbs_then_stays() -> None:
    warmup = schedules.LinearWarmup(5, 20, peak=2.0)
    np.testing.assert_allclose([warmup(t) for t in (0, 5, 8, 20, 1000)], [0, 0, 0.4, 2, 2], rtol=1e-6)


def test_cubic_is_the_agp_sparsity_turned_round() -> None:
    begin, end, final = 100, 500, 0.05
    for step in (100, 173, 300, 499, 500):
        sparsity = (1 - final) + (0 - (1 - final)) * (1 - (step - begin) / (end - begin)) ** 3
        np.testing.assert_allclose(schedules.Cubic(final, begin, end)(step), 1 - sparsity, rtol=1e-5)
    assert schedules.Cubic(final, begin, end)(0) == 1


def test_cosine_falls_from_the_initial_fraction_to_nothing() -> None:
    rate = schedules.CosineReplacement(end=75_000)
    for step in (0, 100, 30_000, 74_900):
        np.testing.assert_allclose(rate(step), 0.15 * (1 + math.cos(math.pi * step / 75_000)), rtol=1e-4, atol=1e-8)
    assert rate(75_000) == 0 == rate(80_000)


def test_geometric_cuts_a_share_of_the_rest_until_the_floor() -> None:
    density = schedules.Geometric(final_density=0.3, rate=0.2)
    np.testing.assert_allclose([density(t) for t in (0, 1, 5, 6, 50)], [1, 0.8, 0.8**5, 0.3, 0.3], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: schedules.LinearWarmup(20, 5), "begin"),
        (lambda: schedules.LinearWarmup(-1, 5), "begin"),
        (lambda: schedules.LinearWarmup(0, float("inf")), "end"),
        (lambda: schedules.Cubic(0.0, 0, 10), "final_density"),
        (lambda: schedules.Cubic(0.5, 10, 10), "begin"),
        (lambda: schedules.CosineReplacement(0), "end"),
        (lambda: schedules.Geometric(0.1, rate=1.0), "rate"),
        (lambda: schedules.CosineReplacement(10, initial=1.5), "initial"),
    ],
)
def test_bad_knobs_are_refused_by_name(make: object, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize("num_batches", [1, 2, 7, 469])
def test_halving_spends_one_penalty_an_epoch_and_halves_it_from_batch_to_batch(num_batches: int) -> None:
    """r_i = 2^(M - i)/(2^M - 1) in whole numbers, M = 469 among them, where floats overflow."""
    weights = np.asarray(schedules.Halving(num_batches)(np.arange(num_batches)))
    exact = [Fraction(2 ** (num_batches - i), 2**num_batches - 1) for i in range(1, num_batches + 1)]
    assert sum(exact) == 1
    np.testing.assert_allclose(weights / num_batches, np.array([float(r) for r in exact]), rtol=1e-5, atol=1e-37)


def test_cycles_go_on_beyond_what_float32_counts() -> None:
    cycles = schedules.CyclicalCosine(0.2, 3)
    step = 2**25 + 1  # no float32; a multiple of 3
    assert step % 3 == 0
    np.testing.assert_array_equal(cycles(np.int32(step)), cycles(0))
