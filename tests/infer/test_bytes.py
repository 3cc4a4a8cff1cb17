"""Rows of bytes stay bytes until the network runs; what is fitted and predicted is that of rows scaled on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.infer.data import check_program_data, feed_of
from tests.infer import programs

KEY = jax.random.key(0)
PIXELS = bp.data.Scaling(np.full(4, 100.0), np.full(4, 60.0))
RAW = bp.Dataset(np.random.default_rng(0).integers(0, 256, (60, 4), dtype=np.uint8), programs.classes().y)
SCALED = RAW._replace(x=PIXELS.apply(RAW.x))
OF_BYTES, OF_FLOATS = programs.small_bnn(scaling=PIXELS), programs.small_bnn()
SETTINGS = {"num_steps": 8, "batch_size": 16, "progress": False}


def shifted(rng_key, x):
    """An augmentation that only real numbers survive."""
    return x + 0.1 * jax.random.normal(rng_key, x.shape, x.dtype)


@pytest.fixture(scope="module")
def fit() -> bp.FitResult:
    return bp.fit_svi(KEY, OF_BYTES, RAW, augment=shifted, **SETTINGS)


@pytest.mark.slow
def test_a_fit_of_bytes_is_the_fit_of_scaled_rows_to_the_bit(fit) -> None:
    wanted = bp.fit_svi(KEY, OF_FLOATS, SCALED, augment=shifted, **SETTINGS)
    np.testing.assert_array_equal(fit.losses, wanted.losses)
    assert programs.same_bits(fit.params, wanted.params)
    pairs = ((OF_BYTES, RAW), (OF_FLOATS, SCALED))
    figures, same = (bp.evaluate(KEY, bnn, fit.params, data, num_samples=3) for bnn, data in pairs)
    assert figures == same


@pytest.mark.slow
def test_bytes_of_a_file_too(fit, tmp_path) -> None:
    np.save(tmp_path / "x.npy", RAW.x)
    mapped = RAW._replace(x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(bp.fit_svi(KEY, OF_BYTES, mapped, augment=shifted, **SETTINGS).losses, fit.losses)


def test_bytes_are_bytes_in_memory_and_in_blocks(tmp_path) -> None:
    np.save(tmp_path / "x.npy", RAW.x)
    for x in (RAW.x, jnp.asarray(RAW.x), np.load(tmp_path / "x.npy", mmap_mode="r")):
        for bnn in (OF_BYTES, OF_FLOATS):
            feed, _ = feed_of(bnn, RAW._replace(x=x), None, 16, None)
            shown = jax.tree.leaves(feed.first)[0]
            assert shown.dtype == jnp.uint8 and feed.example.leaves[0] == ((60, 4), jnp.uint8)
    assert check_program_data(programs.linear_program(), bp.Dataset(RAW.x, SCALED.y), "data").x.dtype == jnp.int32


def test_floats_are_refused_wherever_rows_come_in(fit) -> None:
    twice = np.stack([SCALED.x, SCALED.x])
    one = jax.tree.map(lambda leaf: leaf[None], fit.params)
    for call in (
        lambda: bp.fit_svi(KEY, OF_BYTES, SCALED, **SETTINGS),
        lambda: bp.fit_svi(KEY, OF_BYTES, RAW, eval_data=SCALED, **SETTINGS),
        lambda: bp.predict(KEY, OF_BYTES, fit.params, SCALED.x, num_samples=1),
        lambda: bp.predict_draws(KEY, OF_BYTES, fit.params, SCALED.x, num_samples=1),
        lambda: bp.evaluate(KEY, OF_BYTES, fit.params, SCALED, num_samples=1),
        lambda: bp.fit_sgmcmc(KEY, OF_BYTES, SCALED, num_steps=2),
        lambda: bp.fit_replicates(KEY, OF_BYTES, bp.Dataset(twice, np.stack([RAW.y, RAW.y])), **SETTINGS),
        lambda: bp.predict_replicates(KEY, OF_BYTES, one, SCALED.x[None], num_samples=1),
    ):
        with pytest.raises(TypeError, match="must be bytes"):
            call()


@pytest.mark.every
@pytest.mark.slow
def test_replicates_take_bytes() -> None:
    x, y = np.stack([RAW.x, RAW.x]), np.stack([RAW.y, RAW.y])
    fits = bp.fit_replicates(KEY, OF_BYTES, bp.Dataset(x, y), **SETTINGS)
    wanted = bp.fit_replicates(KEY, OF_FLOATS, bp.Dataset(np.stack([SCALED.x, SCALED.x]), y), **SETTINGS)
    np.testing.assert_array_equal(fits.losses, wanted.losses)


def test_tokens_that_are_bytes_stay_bytes_on_their_way() -> None:
    class Tokens(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(3)(linen.Embed(256, 3)(x).sum(1))

    bnn = bp.BNN(Tokens(), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), example=RAW.x[:1])
    weights = {str(s.path): jnp.asarray(np.random.default_rng(0).normal(size=s.shape), jnp.float32) for s in bnn.layout}
    as_bytes, as_ints = (bnn.forward(weights, {}, bnn.inputs.as_rows(RAW.x.astype(t))) for t in (np.uint8, np.int64))
    np.testing.assert_array_equal(as_bytes, as_ints)
    assert check_program_data(bnn, RAW, "data").x.dtype == jnp.uint8
