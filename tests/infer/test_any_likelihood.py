"""What learned numbers of a likelihood go through: pruning, files, replicates, samplers, and others' samples."""

import jax
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS

import bayesprune as bp
from bayesprune.report.export import load_posterior, save_fit
from tests.infer.test_predict import start

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
KEY = jax.random.key(0)
CASES = {
    "ordered": (bp.likelihoods.Ordinal(4), 1, np.digitize(X[:, 0], [-1.0, 0.0, 1.0]).astype(np.int32), ["cut_gaps"]),
    "counts": (bp.likelihoods.NegativeBinomial(), 1, RNG.poisson(2.0, 60).astype(np.int32), ["concentration"]),
    "tails": (bp.likelihoods.StudentT(None), 1, X[:, 0], ["df", "noise_precision"]),
    "predicted noise": (bp.likelihoods.Normal("predicted"), 2, X[:, 0], []),
}


def problem(case: str) -> tuple[bp.BNN, bp.Dataset, list[str]]:
    likelihood, outputs, y, names = CASES[case]
    net = bp.nets.MLP((4,), outputs)
    return bp.BNN(net, prior=bp.priors.Gaussian(0.5), likelihood=likelihood, input_shape=(3,)), bp.Dataset(X, y), names


@pytest.mark.slow
def test_a_learned_number_is_no_weight() -> None:
    bnn, _, _ = problem("ordered")
    params = start(bnn)
    assert np.shape(params["cut_gaps_log_loc"]) == (2,)
    assert sorted(bp.bmr_prune(params | bnn.describe(params)).mask) == ["Dense_0.bias", "Dense_0.kernel"]


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_pruning_and_files_leave_them_alone(case, tmp_path) -> None:
    bnn, data, names = problem(case)
    fit = bp.fit_svi(KEY, bnn, data, num_steps=6, progress=False, sparsifier=bp.methods.BMR(), every=3)
    assert sorted(bp.bmr_prune(fit.params).mask) == sorted(fit.mask) == ["Dense_0.bias", "Dense_0.kernel"]
    for name in names:
        assert np.exp(fit.params[f"{name}_log_loc"]).all()
    save_fit(tmp_path / "fit.safetensors", bnn, fit)
    saved = load_posterior(tmp_path / "fit.safetensors")
    one, other = (bp.predict(KEY, bnn, f.params, X, mask=f.mask, num_samples=3) for f in (fit, saved))
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_replicates_predict_as_their_networks_do(case) -> None:
    bnn, data, _ = problem(case)
    twice = bp.Dataset(np.stack([data.x] * 2), np.stack([data.y] * 2))
    fits = bp.fit_replicates(KEY, bnn, twice, num_steps=3, progress=False)
    draws = bp.predict_replicates(KEY, bnn, fits.params, twice.x, num_samples=2)
    second = jax.tree.map(lambda leaf: leaf[1], fits.params)
    mean = bp.predict(jax.random.split(KEY, 2)[1], bnn, second, X, num_samples=2)
    np.testing.assert_allclose(draws[1].mean(0), mean, rtol=1e-4, atol=1e-6)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_samplers_move_them_and_are_judged(case) -> None:
    bnn, data, names = problem(case)
    fit = bp.fit_sgmcmc(KEY, bnn, data, num_steps=40, num_samples=6, kernel=bp.kernels.SGHMC(step_size=1e-3), progress=False)
    for name in names:
        drawn = np.asarray(fit.params[f"{name}$draws"])
        assert drawn.shape[:2] == (1, 6) and (drawn > 0).all() and np.ptp(drawn) > 0
    figures = bp.evaluate(KEY, bnn, fit.params, data)
    assert np.isfinite(list(figures.values())).all()
    by_hand = MCMC(NUTS(bnn.model), num_warmup=5, num_samples=4, progress_bar=False)
    by_hand.run(KEY, *data)
    stored = bp.stored_samples(bnn, by_hand.get_samples())
    assert set(bp.evaluate(KEY, bnn, stored, data)) == set(figures)
