"""`refit_noise`: the noise that coordinate ascent gives, found by other means, and what it does to a pruned network."""

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import bayesprune as bp
from bayesprune.infer import refit_noise as module
from tests.infer import programs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)
DATA = bp.Dataset(X, (X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=40)).astype(np.float32))
NOISE = bp.likelihoods.Normal(noise_shape=2.0, noise_rate=0.5)


def linear(posterior="mean_field", likelihood=NOISE) -> bp.BNN:
    return bp.BNN(bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(3,), posterior=posterior)


@pytest.fixture(scope="module")
def fit() -> bp.FitResult:
    return bp.fit_svi(jax.random.key(0), linear(), DATA, num_steps=3, progress=False)


def test_the_log_normal_is_the_best_one() -> None:
    """Beside the maximum that SciPy finds: E[log p(y, c)] + entropy, the Gaussian terms written out, by quadrature."""
    squared, count = 7.0, 30
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()

    def negative_elbo(at: np.ndarray) -> float:
        loc, scale = at[0], np.exp(at[1])
        precision = np.exp(loc + scale * nodes)
        fit = 0.5 * count * np.log(precision) - 0.5 * precision * squared
        prior = scipy.stats.gamma.logpdf(precision, 2.0, scale=1 / 0.5)
        return -float(weights @ (fit + prior)) + float(-scipy.stats.norm(0, scale).entropy() - loc)

    best = scipy.optimize.minimize(negative_elbo, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    found = module.noise_of(NOISE, {module.LOC: np.float32(0), module.SCALE: np.float32(1)}, squared, count)
    np.testing.assert_allclose([found[module.LOC], np.log(found[module.SCALE])], best.x, atol=1e-5)


def test_a_point_is_the_mode() -> None:
    squared, count = 7.0, 30
    found = module.noise_of(NOISE, {module.LOC: np.float32(0)}, squared, count)
    density = lambda log_c: -scipy.stats.gamma.logpdf(np.exp(log_c), 2 + count / 2, scale=1 / (0.5 + squared / 2))  # noqa: E731
    best = scipy.optimize.minimize_scalar(density, bounds=(-3, 5), method="bounded", options={"xatol": 1e-9})
    np.testing.assert_allclose(found[module.LOC], best.x, atol=1e-5)


@pytest.mark.slow
def test_the_squared_errors_are_those_of_the_posterior(fit) -> None:
    """Of a linear network they have a closed form; 4,000 draws, four standard errors (a fixed key)."""
    bnn, node = linear(), linear().posterior(fit.params)
    moments = {site: (np.asarray(n.loc * n.unit, float), np.asarray(n.scale * n.unit, float)) for site, n in node.items()}
    (w, s), (b, t) = moments["Dense_0.kernel"], moments["Dense_0.bias"]
    means, variances = X @ w + b, X**2 @ s**2 + t**2
    expected = float(np.sum((DATA.y[:, None] - means) ** 2 + variances))
    draws = bp.predict_draws(jax.random.key(1), bnn, fit.params, X, num_samples=4000)
    each = np.sum((np.asarray(draws, float).reshape(4000, -1) - DATA.y) ** 2, axis=1)
    found = module.squared_errors(draws, DATA.y, fit.params, np.ones(40, bool))
    np.testing.assert_allclose(found, each.mean(), rtol=1e-6)
    assert abs(found - expected) < 4 * each.std() / np.sqrt(4000)


@pytest.mark.slow
def test_nothing_else_changes_and_rows_may_come_in_blocks(fit, rng_key, monkeypatch) -> None:
    bnn, mask = linear(), {"Dense_0.kernel": np.array([[True], [True], [False]])}
    given = {name: np.array(value) for name, value in fit.params.items()}
    once = bp.refit_noise(rng_key, bnn, fit.params, DATA, mask=mask, num_samples=5)
    assert [n for n in once if once[n] is not fit.params[n]] == [module.LOC, module.SCALE]
    assert all(np.array_equal(given[name], fit.params[name]) for name in given)
    assert {n: (v.shape, v.dtype) for n, v in once.items()} == {n: (v.shape, v.dtype) for n, v in fit.params.items()}
    assert once[module.LOC] != bp.refit_noise(rng_key, bnn, fit.params, DATA, num_samples=5)[module.LOC]
    monkeypatch.setattr(module, "ROWS", 25)
    again = bp.refit_noise(rng_key, bnn, fit.params, DATA, mask=mask, num_samples=5)
    np.testing.assert_allclose(once[module.LOC], again[module.LOC], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["mean_field", "map"])
def test_a_fit_that_has_converged_has_this_noise_already(posterior) -> None:
    """Log precision within .15, of a posterior deviation of .22: the fit's own noise of gradients."""
    bnn = linear(posterior)
    fit = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=6000, progress=False)
    again = bp.refit_noise(jax.random.key(1), bnn, fit.params, DATA, num_samples=400)
    assert abs(float(again[module.LOC] - fit.params[module.LOC])) < 0.15
    if posterior == "mean_field":
        np.testing.assert_allclose(again[module.SCALE], fit.params[module.SCALE], rtol=0.15)


@pytest.mark.every
@pytest.mark.slow
def test_intervals_of_a_pruned_network_narrow() -> None:
    """A spike and slab with 98 inputs of 100 that are noise: what they add in training the noise has explained."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 100)).astype(np.float32)
    y = (x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=300)).astype(np.float32)
    train, test = bp.Dataset(x[:200], y[:200]), bp.Dataset(x[200:], y[200:])
    bnn = bp.BNN(
        bp.nets.MLP((), 1),
        prior=bp.priors.DiracSlab(),
        likelihood=bp.likelihoods.Normal(noise_shape=1.0, noise_rate=1e-2),
        input_shape=(100,),
    )
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=300, progress=False)
    pruned = bp.prune_once(fit.params, bp.methods.SVBNN(), program=bnn)
    params = bp.refit_noise(jax.random.key(1), bnn, pruned.params, train, mask=pruned.mask)
    before, after = (
        bp.evaluate(jax.random.key(2), bnn, found, test, mask=pruned.mask)["nll"] for found in (pruned.params, params)
    )
    assert after < before - 0.1


def test_what_has_no_such_noise_is_refused(fit, rng_key) -> None:
    for likelihood in (bp.likelihoods.Normal(1.0), bp.likelihoods.StudentT(), bp.likelihoods.Normal("predicted")):
        with pytest.raises(ValueError, match=r"only the noise of likelihoods.Normal\(\), where fit_svi learns one"):
            bp.refit_noise(rng_key, linear(likelihood=likelihood), fit.params, DATA)
    samples = {"noise_precision$draws": np.ones((1, 4))}
    with pytest.raises(ValueError, match="Of samples each network has its own"):
        bp.refit_noise(rng_key, linear(), samples, DATA)
    with pytest.raises(TypeError, match=r"bp\.BNN"):
        bp.refit_noise(rng_key, bp.Program(linear().model, linear().guide), fit.params, DATA)
    with pytest.raises(ValueError, match="mask"):
        bp.refit_noise(rng_key, linear(), fit.params, DATA, mask={"Dense_9.kernel": np.ones(3, bool)})
    with pytest.raises(ValueError, match="data"):
        bp.refit_noise(rng_key, linear(), fit.params, programs.classes())


def test_a_point_without_a_mode_is_refused(rng_key) -> None:
    """Of one target A = 0.2 + 1/2, and (A - 1)/B is below zero; a density of the same numbers has a place."""
    flat, one = bp.likelihoods.Normal(noise_shape=0.2, noise_rate=0.2), bp.Dataset(DATA.x[:1], DATA.y[:1])
    params = {module.LOC: np.float32(0.0)}
    with pytest.raises(ValueError, match=r"of 1 targets A = noise_shape \+ N/2 is 0\.7.*larger noise_shape="):
        module.noise_of(flat, params, squared=0.5, count=len(one.y))
    found = module.noise_of(flat, params | {module.SCALE: np.float32(0.1)}, squared=0.5, count=len(one.y))
    assert all(np.isfinite(value) for value in found.values())
