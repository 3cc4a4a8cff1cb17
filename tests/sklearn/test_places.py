"""Rows in more places than there are: those that count are drawn as they are by themselves, and the others never."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.sklearn.places import Filled
from bayesprune.train import batches
from bayesprune.train.loop import compile_loop

OPTIMIZER = optax.adam(1e-2)
SETTINGS = {"num_steps": 12, "batch_size": 8, "optimizer": OPTIMIZER, "progress": False}
BNN = bp.BNN(bp.nets.MLP((3,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(0.5), input_shape=(2,))
PLACES = 24


def padded(num_rows: int, rest: float = 1e6) -> Filled:
    """Rows of standard normal numbers, and what must never be read."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in ((PLACES, 2), (PLACES,)))
    x[num_rows:], y[num_rows:] = rest, rest
    return Filled(x, y, num_rows)


@pytest.mark.parametrize("num_rows", [9, 20, 24])
def test_every_epoch_has_every_row_once_and_no_other(num_rows) -> None:
    number = jnp.asarray(num_rows, jnp.int32)
    take = jax.jit(lambda reading, number: batches.take(reading, 8, number))
    reading, seen = batches.start(jax.random.key(0), number, PLACES), []
    for _ in range(3 * num_rows):
        reading, rows = take(reading, number)
        seen += rows.tolist()
    epochs = np.reshape(seen, (-1, num_rows))
    assert (np.sort(epochs, axis=1) == np.arange(num_rows)).all()
    assert len(np.unique(epochs, axis=0)) == len(epochs)


def test_orders_are_as_likely_as_one_another() -> None:
    """Six orders of three rows in five places, 6,000 keys: by chance a count is off by five deviations once in 2e6."""
    order = jax.vmap(lambda key: batches.start(key, jnp.asarray(3), 5).current[:3])(jax.random.split(jax.random.key(0), 6000))
    counts = collections.Counter(map(tuple, order.tolist()))
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts.values()) < 5 * np.sqrt(6000 / 6 * 5 / 6)


@pytest.mark.slow
def test_a_fit_is_that_of_the_rows_that_count() -> None:
    """All rows the same, so that their order says nothing."""
    alike = Filled(np.full((PLACES, 2), 0.5, np.float32), np.full(PLACES, 0.3, np.float32), 20)
    alike.x[20:], alike.y[20:] = 1e6, 1e6
    one = bp.fit_svi(jax.random.key(0), BNN, alike, **SETTINGS)
    other = bp.fit_svi(jax.random.key(0), BNN, bp.Dataset(alike.x[:20], alike.y[:20]), **SETTINGS)
    np.testing.assert_allclose(one.losses, other.losses, rtol=2e-5)
    for name, value in other.params.items():
        np.testing.assert_allclose(one.params[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_what_fills_the_places_changes_nothing() -> None:
    fits = [bp.fit_svi(jax.random.key(1), BNN, padded(19, rest), **SETTINGS) for rest in (1e6, -1.0)]
    assert fits[0].losses.tobytes() == fits[1].losses.tobytes()


@pytest.mark.slow
def test_other_numbers_of_rows_compile_nothing() -> None:
    bp.fit_svi(jax.random.key(0), BNN, padded(18), **SETTINGS)
    before = compile_loop.cache_info()
    for num_rows in (17, 21, 24):
        bp.fit_svi(jax.random.key(0), BNN, padded(num_rows), **SETTINGS)
    assert compile_loop.cache_info().misses == before.misses


def test_a_prior_that_counts_rows_does_not_take_another_number_in_silence() -> None:
    """(5.3) is of a number that is known when the fit is compiled."""
    bnn = bp.BNN(bp.nets.MLP((3,), 1), prior=bp.priors.DiracSlab(), likelihood=bp.likelihoods.Normal(0.5), input_shape=(2,))
    with pytest.raises(TypeError):
        bp.fit_svi(jax.random.key(0), bnn, padded(20), **SETTINGS)


@pytest.mark.parametrize(("num_rows", "batch_size"), [(20, None), (20, 20), (25, 8)])
def test_rows_that_are_not_drawn_by_minibatches_are_refused(num_rows, batch_size) -> None:
    with pytest.raises(ValueError, match="are drawn by minibatches of fewer rows"):
        bp.fit_svi(jax.random.key(0), BNN, padded(num_rows), **SETTINGS | {"batch_size": batch_size})
