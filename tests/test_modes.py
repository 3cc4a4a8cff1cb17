"""The main paths under JAX's stricter modes: no NaN is made, nothing is promoted unasked, and double precision is double.

One path in all is fast; the others, which compile a program each, are slow.
"""

import contextlib
import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import seed, trace

import bayesprune as bp
from bayesprune.infer.refit_noise import noise_of
from tests import main_paths


@contextlib.contextmanager
def without_promotion() -> Iterator[None]:
    with jax.debug_nans(True), jax.numpy_dtype_promotion("strict"):
        yield


@contextlib.contextmanager
def in_double_precision() -> Iterator[None]:
    with jax.debug_nans(True), jax.enable_x64(True):
        yield


@contextlib.contextmanager
def without_ranks_promoted() -> Iterator[None]:
    with jax.numpy_rank_promotion("raise"):
        yield


MODES = {"strict": without_promotion, "x64": in_double_precision, "ranks": without_ranks_promoted}


@pytest.mark.slow_cases(8)
@pytest.mark.slow
@pytest.mark.parametrize(("path", "mode"), list(zip(main_paths.PATHS, itertools.cycle(MODES), strict=False)))
def test_a_main_path_runs(path: str, mode: str, rng_key: jax.Array) -> None:
    """Each under one of the modes, in turn: every part of the library is in several paths."""
    with MODES[mode]():
        main_paths.PATHS[path](rng_key)


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("path", ["bmr", "ssvi active", "local", "dirac hard", "mbnn", "replicates"])
def test_a_main_path_runs_by_another_generator(path: str) -> None:
    """The key, and every key that is made on the way."""
    with jax.default_prng_impl("rbg"):
        main_paths.PATHS[path](jax.random.key(0))


@pytest.mark.slow
def test_training_pruning_and_prediction_without_promotion_and_without_nan(rng_key: jax.Array) -> None:
    with without_promotion():
        bnn = main_paths.net(bp.priors.Gaussian())
        fit = main_paths.fit(rng_key, bnn, num_steps=2, sparsifier=bp.methods.BMR(), every=1)
        bp.predict(rng_key, bnn, fit.params, main_paths.ROWS, mask=fit.mask, num_samples=1)


def test_the_modes_object() -> None:
    """That the two above can fail."""
    with pytest.raises(ValueError, match="promotion"), without_promotion():
        jnp.ones(2, jnp.int32) * jnp.ones(2)
    with pytest.raises(FloatingPointError), in_double_precision():
        jnp.log(-jnp.ones(2))
    with pytest.raises(ValueError, match="rank_promotion"), without_ranks_promoted():
        jnp.ones((3, 1)) + jnp.ones(1)


@pytest.mark.slow
def test_importance_promotes_no_ranks() -> None:
    posterior = {"a": jnp.full((3, 2), 0.5), "b": jnp.full((2, 2), 0.25)}
    expected = bp.features.importance(list(posterior.values())).scaled
    with without_ranks_promoted():
        np.testing.assert_array_equal(bp.features.importance(list(posterior.values())).scaled, expected)


@pytest.mark.slow
def test_training_and_prediction_leak_no_tracer(rng_key: jax.Array) -> None:
    jax.clear_caches()  # what is traced already leaks nothing
    with jax.checking_leaks():
        bnn = main_paths.net(bp.priors.Gaussian())
        fit = main_paths.fit(rng_key, bnn, num_steps=1)
        main_paths.finish(rng_key, bnn, fit)


@pytest.mark.slow
def test_what_is_sent_to_the_device_is_sent_by_intent(rng_key: jax.Array) -> None:
    """Under a guard that lets explicit transfers pass alone; what there is at hand is NumPy's."""
    key = jax.random.key(1)
    with jax.transfer_guard("disallow"):
        bnn = main_paths.net(bp.priors.Gaussian())
        settings = {"sparsifier": bp.methods.BMR(), "every": 2, "eval_data": main_paths.CLASSES, "eval_every": 2}
        fit = main_paths.fit(rng_key, bnn, **settings)
        main_paths.finish(key, bnn, jax.tree.map(np.asarray, fit._replace(state=None)))  # as it is loaded
        bp.predict_draws(key, bnn, fit.params, main_paths.ROWS, num_samples=2)
        bp.from_trained(bnn, bnn.net_params(fit.params))


@pytest.mark.slow_cases(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["magnitude", "ssvi masked", "ssvi active", "units", "mbnn", "gaussian slab", "horseshoe", "group horseshoe"]
)
def test_a_main_path_sends_by_intent(path: str, rng_key: jax.Array) -> None:
    """Methods with a start of their own, one-shot pruning, samples, priors that read weights through other sites."""
    with jax.transfer_guard("disallow"):
        main_paths.PATHS[path](rng_key)


@pytest.mark.slow
def test_one_shot_pruning_and_samplers_send_by_intent(rng_key: jax.Array) -> None:
    key, bnn = jax.random.key(1), main_paths.net(bp.priors.Gaussian())
    fit = main_paths.fit(rng_key, bnn, num_steps=2)
    loaded = {name: np.asarray(value) for name, value in fit.params.items() if "_auto_" in name}
    with jax.transfer_guard("disallow"):
        bp.prune_once(fit.params, bp.methods.SNR(0.5), mask=fit.mask)
        bp.bmr_prune(fit.params, program=bnn, data=main_paths.CLASSES, rng_key=key)
        pruned = bp.bmr_prune(loaded, prior_scale=0.3)
        kernel, method = bp.kernels.SGHMCSPL(num_cycles=1), bp.methods.SGHMCSPL(hard=0.1, warm_up=0)
        settings = {"num_steps": 6, "batch_size": 12, "num_samples": 2, "every": 2, "progress": False}
        bp.fit_sgmcmc(key, bnn, main_paths.CLASSES, kernel=kernel, sparsifier=method, **settings)
    assert {site: alive.shape for site, alive in pruned.mask.items()} == {"Dense_0.kernel": (4, 5), "Dense_0.bias": (5,)}


def test_importance_sends_by_intent_and_makes_no_nan() -> None:
    """With a path and without one; all inputs alike, of which none stands out."""
    kernels = [np.full((3, 2), 0.5, np.float32), np.ones((2, 1), np.float32)]
    masks = [[np.ones((3, 2), bool), np.ones((2, 1), bool)], [np.ones((3, 2), bool), np.zeros((2, 1), bool)]]
    with jax.transfer_guard("disallow"), jax.debug_nans(True):
        found = [bp.features.importance(kernels, mask) for mask in masks]
    assert [np.asarray(each.scaled).tolist() for each in found] == [[0.0, 0.0, 0.0]] * 2
    assert np.asarray(found[0].log_raw).tolist() == pytest.approx([np.log(0.5)] * 3)
    assert np.isneginf(np.asarray(found[1].log_raw)).all()


@pytest.mark.slow
def test_the_other_doors_send_by_intent(rng_key: jax.Array) -> None:
    """Going on with the optimiser's state, and from parameters alone; replications, chains, budgets, estimators."""
    key, bnn = jax.random.key(1), main_paths.net(bp.priors.Gaussian())
    fit = main_paths.fit(rng_key, bnn, num_steps=2)
    rows = bp.Dataset(main_paths.CLASSES.x[None], main_paths.CLASSES.y[None])
    with jax.transfer_guard("disallow"):
        on = bp.fit_svi(key, bnn, main_paths.CLASSES, num_steps=2, progress=False, init=fit)
        bp.fit_svi(key, bnn, main_paths.CLASSES, num_steps=2, progress=False, init_params=on.params, mask=on.mask)
        bp.fit_replicates(key, bnn, rows, num_steps=1, progress=False)
        bp.laplace(key, bnn, on.params, main_paths.CLASSES, structure="exact")
        bp.reduce_scales(key, bnn, on.params, bp.priors.Horseshoe(), num_steps=2)
        bp.prune_to(on, bnn, main_paths.CLASSES, bytes=10_000, rng_key=key)
        settings = {"num_steps": 4, "num_samples": 2, "progress": False}
        chain = bp.fit_sgmcmc(key, bnn, main_paths.CLASSES, **settings)
        bp.fit_sgmcmc(key, bnn, main_paths.CLASSES, **settings, init=chain)
        estimator = bp.BayesianSparseClassifier(hidden=(3,), num_steps=2, num_samples=2)
        estimator.fit(main_paths.CLASSES.x, main_paths.CLASSES.y).predict_proba(main_paths.CLASSES.x)


@pytest.mark.slow
def test_laplace_and_compact_networks_send_by_intent(rng_key: jax.Array) -> None:
    key, bnn = jax.random.key(1), main_paths.net(bp.priors.Gaussian())
    trained = main_paths.fit(rng_key, bnn, num_steps=2)
    with jax.transfer_guard("disallow"):
        fit = bp.laplace(key, bnn, trained.params, main_paths.CLASSES)
        pruned = bp.bmr_prune(fit.params)
        bp.prune_layers(bnn, trained, main_paths.CLASSES.x, density=0.5)
        bp.evaluate(key, bnn, pruned.params, main_paths.CLASSES, mask=pruned.mask, num_samples=2)
        small = bp.compact(bnn, pruned.params, pruned.mask)
        probs = small.predict(main_paths.ROWS)
        assert small.certify().holds
    assert probs.shape == (24, 3)


def test_noise_is_sent_by_intent() -> None:
    """Of `laplace` and `refit_noise` of numbers."""
    params = {"noise_precision_log_loc": jax.numpy.zeros(2), "noise_precision_log_scale": jax.numpy.ones(2)}
    with jax.transfer_guard("disallow"):
        found = noise_of(bp.likelihoods.Normal(), params, np.array([3.0, 4.0]), np.array([5, 6]))
    assert found["noise_precision_log_loc"].shape == (2,)


def _every_door(key: jax.Array) -> None:
    """One-shot pruning, samples, Laplace, compact."""
    bnn = main_paths.net(bp.priors.Gaussian())
    fit = main_paths.fit(key, bnn, num_steps=2)
    bp.prune_once(fit.params, bp.methods.SNR(0.5), mask=fit.mask)
    settings = {"num_steps": 4, "batch_size": 12, "num_samples": 2, "progress": False}
    bp.fit_sgmcmc(key, bnn, main_paths.CLASSES, kernel=bp.kernels.SGHMC(step_size=1e-4), **settings)
    around = bp.laplace(key, bnn, fit.params, main_paths.CLASSES)
    pruned = bp.bmr_prune(around.params)
    bp.evaluate(key, bnn, pruned.params, main_paths.CLASSES, mask=pruned.mask, num_samples=2)
    small = bp.compact(bnn, pruned.params, pruned.mask)
    assert small.certify().holds and small.predict(main_paths.ROWS).shape == (24, 3)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ranks", "leaks"])
def test_the_doors_beside_the_fit_promote_no_ranks_and_leak_no_tracer(mode: str, rng_key: jax.Array) -> None:
    jax.clear_caches()  # what is traced already neither leaks nor promotes
    with without_ranks_promoted() if mode == "ranks" else jax.checking_leaks():
        _every_door(rng_key)


@pytest.mark.slow
def test_parameters_are_double_in_double_precision(rng_key: jax.Array) -> None:
    with in_double_precision():
        sites = trace(seed(main_paths.net(bp.priors.DiracSlab()).guide, rng_key)).get_trace()
        values = jax.tree.leaves({name: site["value"] for name, site in sites.items() if site["type"] in ("param", "sample")})
        assert {value.dtype for value in values} == {np.dtype(np.float64)}


@pytest.mark.slow
def test_double_precision_is_double_from_the_data_to_the_prediction(rng_key: jax.Array) -> None:
    """One rule for dtypes: see `docs/dtypes.md`."""
    with in_double_precision():
        bnn = main_paths.net(bp.priors.Gaussian())
        fit = main_paths.fit(rng_key, bnn, num_steps=2, sparsifier=bp.methods.SNR(density=0.5), every=1)
        for site, node in bnn.read(fit.params).items():
            assert node.loc.dtype == node.scale.dtype == np.float64
            assert fit.mask[site].dtype == bool
        assert fit.losses.dtype == np.float64
        assert fit.losses[0] != np.float32(fit.losses[0])
        assert bp.predict(rng_key, bnn, fit.params, main_paths.ROWS, num_samples=1).dtype == np.float64
