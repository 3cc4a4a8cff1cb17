"""`recalibrate`: NumPy's averages of the pruned network's activations, whatever the module and its momentum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import bayesprune as bp
from tests.infer import programs

RNG = np.random.default_rng(0)
DATA = bp.Dataset((2.0 + 3.0 * RNG.normal(size=(24, 3))).astype(np.float32), RNG.integers(0, 2, 24))


class LinenNormed(linen.Module):
    momentum: float = 0.9

    @linen.compact
    def __call__(self, x, train=False):
        x = linen.BatchNorm(use_running_average=not train, momentum=self.momentum)(linen.Dense(4)(x))
        # A buffer that no batch changes.
        offset = self.variable("constants", "offset", lambda: jnp.array([1.0, -1.0]))
        return linen.Dense(2)(x) + offset.value


class NnxNormed(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)
        self.norm = nnx.BatchNorm(4, momentum=0.97, rngs=rngs)

    def __call__(self, x):
        return self.last(self.norm(self.first(x)))


NETS = {
    "linen": (LinenNormed, "Dense_0"),
    "linen, other momentum": (lambda: LinenNormed(0.99), "Dense_0"),
    "linen, no memory": (lambda: LinenNormed(0.0), "Dense_0"),
    "nnx": (lambda: NnxNormed(nnx.Rngs(0)), "first"),
}


def fitted(name, **settings):
    make, layer = NETS[name]
    bnn = bp.BNN(
        make(),
        prior=bp.priors.Gaussian(1.0),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(3,),
        posterior="map",
        **settings,
    )
    return bnn, bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=5, batch_size=8), layer


def statistics(params):
    flat, _ = jax.tree_util.tree_flatten_with_path(params["net$state"])
    named = {jax.tree_util.keystr(path): np.asarray(value) for path, value in flat}
    only = lambda word: next(value for path, value in named.items() if word in path)  # noqa: E731
    return only("mean"), only("var")


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_statistics_are_numpys_over_the_pruned_network(name, rng_key) -> None:
    bnn, fit, layer = fitted(name)
    mask = {f"{layer}.kernel": np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0]], bool)}
    kernel = np.asarray(fit.params[f"{layer}.kernel_map_loc"], np.float64) * mask[f"{layer}.kernel"]
    hidden = DATA.x @ kernel + np.asarray(fit.params[f"{layer}.bias_map_loc"], np.float64)
    new = bp.recalibrate(rng_key, bnn, fit.params, DATA, mask=mask, batch_size=24)
    mean, var = statistics(new)
    np.testing.assert_allclose(mean, hidden.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(var, hidden.var(axis=0), rtol=1e-4, atol=1e-5)
    assert np.all(var >= 0), "the last unit has no weights left: a variance below zero would end as NaN"
    # An average of batches: means of equal parts average to the whole's, variances to less than the whole's.
    mean, var = statistics(bp.recalibrate(rng_key, bnn, fit.params, DATA, mask=mask, batch_size=8))
    np.testing.assert_allclose(mean, hidden.mean(axis=0), rtol=1e-4, atol=1e-5)
    assert np.all(var[:3] < hidden.var(axis=0)[:3]) and np.all(var[:3] > 0.3 * hidden.var(axis=0)[:3])


@pytest.mark.slow
def test_the_statistics_alone_change_and_prediction_uses_them(rng_key) -> None:
    bnn, fit, _ = fitted("linen")
    before = jax.tree.map(np.array, fit.params)
    new = bp.recalibrate(rng_key, bnn, fit.params, DATA, batch_size=8)
    jax.tree.map(np.testing.assert_array_equal, fit.params, before)
    assert set(new) == set(fit.params) and all(new[name] is fit.params[name] for name in new if name != "net$state")
    assert jax.tree.structure(new) == jax.tree.structure(fit.params)
    np.testing.assert_array_equal(new["net$state"]["constants"]["offset"], [1.0, -1.0])
    probs = [bp.predict(rng_key, bnn, params, DATA.x, num_samples=1) for params in (fit.params, new)]
    assert np.abs(probs[0] - probs[1]).max() > 0.01
    figures = [bp.evaluate(rng_key, bnn, params, DATA, num_samples=1)["nll"] for params in (fit.params, new)]
    assert figures[0] != figures[1]
    again = bp.recalibrate(rng_key, bnn, new, DATA, batch_size=8)
    for one, other in zip(statistics(again), statistics(new), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_weights_are_drawn_anew_for_every_minibatch(rng_key) -> None:
    make, layer = NETS["linen"]
    bnn = bp.BNN(make(), prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=1, batch_size=8)
    kernel, scale = (np.asarray(fit.params[f"{layer}.kernel_auto_{part}"]) for part in ("loc", "scale"))
    bias, spread = (np.asarray(fit.params[f"{layer}.bias_auto_{part}"]) for part in ("loc", "scale"))
    count = 100
    mean, _ = statistics(bp.recalibrate(rng_key, bnn, fit.params, DATA, batch_size=24, num_batches=count))
    inputs = DATA.x.mean(axis=0)
    deviation = np.sqrt((inputs**2) @ scale**2 + spread**2)
    # Four means of 100 draws: beyond five standard errors with another key in 2e-6 of all cases; one draw for all would be.
    assert np.all(np.abs(mean - (inputs @ kernel + bias)) < 5 * deviation / np.sqrt(count))
    assert np.any(np.abs(mean - (inputs @ kernel + bias)) > 1e-3 * deviation / np.sqrt(count))


@pytest.mark.slow
def test_one_compilation_serves_all_minibatches_and_masks(rng_key, caplog) -> None:
    bnn, fit, layer = fitted("linen")
    masks = [{f"{layer}.kernel": np.full((3, 4), alive)} for alive in (True, False)]
    with jax.log_compiles(), caplog.at_level("WARNING"):
        for mask in masks:
            bp.recalibrate(rng_key, bnn, fit.params, DATA, mask=mask, batch_size=9)  # as no other test, whose net is equal
    compiled = [r.getMessage() for r in caplog.records if "Finished XLA compilation of jit(update)" in r.getMessage()]
    assert len(compiled) == 1


class Spectral(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        return linen.SpectralNorm(linen.Dense(2))(x, update_stats=train)


def test_a_state_that_is_no_average_is_refused(rng_key) -> None:
    bnn = bp.BNN(Spectral(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    params = bp.from_trained(bnn, Spectral().init(rng_key, DATA.x))
    with pytest.raises(ValueError, match="more than running averages of batches"):
        bp.recalibrate(rng_key, bnn, params, DATA, batch_size=8)  # as the kernel's norm became 0


@pytest.mark.slow
def test_what_cannot_be_recalibrated_is_refused(rng_key) -> None:
    bnn, fit, _ = fitted("linen")
    plain = programs.small_bnn()
    params = bp.fit_svi(rng_key, plain, programs.classes(), num_steps=1, batch_size=16).params
    with pytest.raises(ValueError, match="params hold no running statistics"):
        bp.recalibrate(rng_key, plain, params, programs.classes(), batch_size=16)
    with pytest.raises(ValueError, match="batch_size=128 is larger than the data set of 24 rows"):
        bp.recalibrate(rng_key, bnn, fit.params, DATA)
    with pytest.raises(ValueError, match="num_batches must be an integer of at least 1, got 0"):
        bp.recalibrate(rng_key, bnn, fit.params, DATA, batch_size=8, num_batches=0)
    with pytest.raises(ValueError, match=r"unknown site in mask 'Dense_9\.kernel'"):
        bp.recalibrate(rng_key, bnn, fit.params, DATA, mask={"Dense_9.kernel": np.ones(3, bool)}, batch_size=8)
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN"):
        bp.recalibrate(rng_key, bp.Program(plain.model, plain.guide), params, DATA)
