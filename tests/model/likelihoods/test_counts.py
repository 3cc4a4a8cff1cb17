"""Counts far from one: outputs of zero stand for their mean; and counts over known exposures."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpyro.handlers import seed, substitute, trace

import bayesprune as bp
from bayesprune.model.likelihoods.poisson import _Poisson
from bayesprune.sklearn import network

L = bp.likelihoods
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2)).astype(np.float32)
EXPOSURE = RNG.uniform(0.1, 50.0, size=400)
KINDS = {"poisson": L.Poisson, "negative binomial": L.NegativeBinomial}


def linear(likelihood, outputs=1) -> bp.BNN:
    return bp.BNN(bp.nets.MLP((), outputs), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(2,))


def log_density(kind, y, mean):
    return scipy.stats.poisson.logpmf(y, mean) if kind is L.Poisson else scipy.stats.nbinom.logpmf(y, 3.0, 3.0 / (3.0 + mean))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", KINDS)
def test_the_density_is_that_of_start_times_exposure(name) -> None:
    kind, outputs = KINDS[name], RNG.normal(size=(4, 2))
    y, exposure = RNG.integers(0, 3000, size=(4, 2)), RNG.uniform(0.1, 2.0, size=(4, 2))
    given = {} if kind is L.Poisson else {"concentration": 3.0}
    for start in (1000.0, (1000.0, 10.0)):
        mean = np.asarray(start) * np.exp(outputs)
        plain, known = kind(start=start, **given), kind(start=start, exposure="known", **given)
        for likelihood, targets, wanted in (
            (plain, y, log_density(kind, y, mean)),
            (known, np.hstack([y, exposure]), log_density(kind, y, exposure * mean)),
        ):
            site = trace(seed(likelihood.observe, 0)).get_trace(jnp.asarray(outputs), jnp.asarray(targets))["obs"]
            np.testing.assert_allclose(site["fn"].log_prob(site["value"]), wanted.sum(1), rtol=2e-4)
            np.testing.assert_allclose(likelihood.mean(jnp.asarray(outputs)), mean, rtol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_by_softplus_counts_grow_as_the_output_and_are_never_none(name) -> None:
    """(21.34) by NumPy in double precision; beyond what single precision holds of it, it stays positive with a slope."""
    outputs = np.array([-200.0, -60.0, -21.0, -3.0, 0.0, 2.0, 30.0, 1e4])
    likelihood = KINDS[name](start=5.0, link="softplus")
    found = np.asarray(likelihood.mean(jnp.asarray(outputs, jnp.float32)[:, None]))
    np.testing.assert_allclose(found[3:], 5.0 * np.logaddexp(0.0, outputs[3:]) / np.log(2.0), rtol=1e-5)
    np.testing.assert_allclose(found[:3], 5.0 * np.exp(-20.0) / (-outputs[:3] - 19.0) / np.log(2.0), rtol=1e-5)
    assert (found > 0).all() and np.isfinite(found).all() and found[4] == pytest.approx(5.0)
    slopes = jax.vmap(jax.grad(lambda f: likelihood.mean(f[None, None])[0]))(jnp.asarray(outputs, jnp.float32))
    assert np.isfinite(slopes).all() and (np.asarray(slopes) > 0).all()
    y = jnp.arange(8.0)
    site = trace(seed(likelihood.observe, 0)).get_trace(jnp.asarray(outputs, jnp.float32)[:, None], y)["obs"]
    assert np.isfinite(site["fn"].log_prob(y)).all()
    with pytest.raises(ValueError, match="unknown link 'log'"):
        KINDS[name](link="log")


@pytest.mark.slow
def test_a_learned_concentration_has_a_prior_in_units_of_the_mean() -> None:
    """Var[y] = m + m² / c, and c / start is Gamma(2, 0.1), of mean 20."""
    for likelihood, start in (
        (L.NegativeBinomial(), 1.0),
        (L.NegativeBinomial(start=1000.0), 1000.0),
        (L.NegativeBinomial(start=(1000.0, 10.0)), np.array([1000.0, 10.0])),
        (L.NegativeBinomial(start=(1000.0, 500.0), noise="shared"), np.array([1000.0, 500.0])),
    ):
        sites = trace(seed(likelihood.observe, 0)).get_trace(jnp.zeros((3, np.size(start))), None)
        c = np.asarray(sites["concentration"]["value"])
        variance = sites["obs"]["fn"].base_dist.variance if np.size(start) > 1 else sites["obs"]["fn"].variance
        np.testing.assert_allclose(variance[0], start + start**2 / c, rtol=1e-4)
        unit = np.mean(start) if likelihood.noise == "shared" else start
        np.testing.assert_allclose(sites["concentration"]["fn"].mean, 20 * unit, rtol=1e-5)
        np.testing.assert_allclose(sites["concentration"]["fn"].variance, 200 * unit**2, rtol=1e-5)


@pytest.mark.slow
def test_the_first_gradients_do_not_grow_with_the_mean() -> None:
    """Where the guide starts, c = 1: |d log p / d f| = c |y - m| / (m + c), at most about 1 for counts of any size."""
    for mean in (1.0, 1e4):
        likelihood = L.NegativeBinomial(start=mean)
        bnn = linear(likelihood)
        c = np.exp(trace(seed(bnn.guide, 0)).get_trace(jnp.zeros((1, 2)), None)["concentration_log_loc"]["value"])
        y = jnp.asarray(RNG.poisson(2 * mean, size=50), jnp.float32)

        def log_density(f, likelihood=likelihood, c=c, y=y):
            site = trace(seed(substitute(likelihood.observe, {"concentration": c}), 0)).get_trace(f, y)["obs"]
            return site["fn"].log_prob(site["value"]).sum()

        gradient = jax.grad(log_density)(jnp.zeros((50, 1)))[:, 0]
        np.testing.assert_allclose(gradient, c * (y - mean) / (mean + c), rtol=1e-3, atol=1e-4)
        assert np.median(np.abs(gradient)) < 2.0


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "spread", "mean"),
    [("poisson", False, m) for m in (300.0, 1e4)]
    + [("negative_binomial", True, m) for m in (300.0, 1e4)]
    + [("negative_binomial", False, 300.0)],
)
def test_the_spread_of_large_counts_is_theirs(kind, spread, mean) -> None:
    """Of known true means: sqrt(m), and of concentration 10 sqrt(m + m²/10), which 400 rows give to a tenth.

    Of eight draws of X and y a kind, the relative error of the mean was at most .062 and .013.
    """
    rates = mean * np.exp(0.3 * X[:, 0])
    variance = rates + rates**2 / 10 if spread else rates
    y = RNG.poisson(rates * RNG.gamma(10.0, 0.1, size=400) if spread else rates)
    model = bp.BayesianSparseRegressor(hidden=(10,), likelihood=kind, random_state=0).fit(X, y)
    found, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(np.median(std / np.sqrt(variance)), 1.0, atol=0.3)
    assert np.sqrt(np.mean((found / rates - 1) ** 2)) < (0.1 if spread else 0.02)


@pytest.mark.slow
def test_exposures_give_the_rates_of_a_regression_with_offsets() -> None:
    """Beside the maximum likelihood that SciPy finds: at most .01 away, for the prior's pull; a standard error is .01."""
    rates = np.exp(0.5 + X @ [0.4, -0.3])
    y = RNG.poisson(EXPOSURE * rates)
    data = bp.Dataset(X, np.column_stack([y, EXPOSURE]).astype(np.float32))
    bnn = linear(L.Poisson(exposure="known"))
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1000, progress=False)
    design = np.column_stack([X, np.ones(400)])
    loss = lambda w: -np.sum(y * (design @ w) - EXPOSURE * np.exp(design @ w))  # noqa: E731
    best = scipy.optimize.minimize(loss, np.zeros(3)).x
    found = np.append(fit.params["Dense_0.kernel_dense_loc"], fit.params["Dense_0.bias_dense_loc"])
    np.testing.assert_allclose(found, best, atol=0.01)
    np.testing.assert_allclose(bp.predict(jax.random.key(1), bnn, fit.params, X), np.exp(design @ best), rtol=0.05)
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, data, num_samples=20)
    assert figures["nll"] == pytest.approx(-scipy.stats.poisson.logpmf(y, EXPOSURE * np.exp(design @ best)).mean(), abs=0.02)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((y - EXPOSURE * np.exp(design @ best)) ** 2)), rel=0.02)


def test_the_best_constant_rate() -> None:
    y, exposure = RNG.poisson(3.0 * EXPOSURE[:20]), EXPOSURE[:20]
    loss = lambda f: -scipy.stats.poisson.logpmf(y, exposure * np.exp(f)).sum()  # noqa: E731
    best = scipy.optimize.minimize_scalar(loss, bounds=(-5, 5), method="bounded").fun
    assert L.Poisson(exposure="known").baseline(np.column_stack([y, exposure])) == pytest.approx(best, rel=1e-6)
    assert L.NegativeBinomial(2.0, exposure="known").baseline(np.column_stack([y, exposure])) is None


@pytest.mark.slow
def test_large_counts_without_a_start_are_said() -> None:
    large = bp.Dataset(X[:50], np.r_[np.full(25, 990), np.full(25, 1010)])
    with pytest.warns(UserWarning, match=r"counts of mean 1e\+03.*likelihoods.Poisson\(start=1e\+03\)"):
        bp.fit_svi(jax.random.key(0), linear(L.Poisson()), large, num_steps=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bp.fit_svi(jax.random.key(0), linear(L.Poisson(start=1000.0)), large, num_steps=1, progress=False)


def test_the_estimators_start_at_the_mean_and_share_networks() -> None:
    for name in ("poisson", "negative_binomial"):
        one, other = (network.started(network.read_likelihood(name), RNG.poisson(1000.0, size=(50, 1))) for _ in range(2))
        assert one == other and one.start == 1024.0
    assert network.started(L.Poisson(start=3.0), np.ones((5, 1))).start == 3.0
    for wrong in (L.Poisson(exposure="known"), L.Normal(noise="known")):
        with pytest.raises(ValueError, match="takes further columns of y"):
            bp.BayesianSparseRegressor(likelihood=wrong).fit(X[:5], np.ones((5, 2)))


@pytest.mark.parametrize("kind", KINDS.values())
def test_what_is_none_is_refused(kind) -> None:
    with pytest.raises(ValueError, match="start must be positive"):
        kind(start=0.0)
    with pytest.raises(ValueError, match="exposure must be None, or 'known'"):
        kind(exposure=2.0)
    with pytest.raises(ValueError, match="one for each of 1 outputs, got 2"):
        kind(start=(1.0, 2.0)).check(np.ones(3), (1,))
    with pytest.raises(ValueError, match=r"must hold exposures.*positive, got 0\.0"):
        kind(exposure="known").check(np.array([[1.0, 0.0]]), (1,))
    with pytest.raises(ValueError, match="compares with y of shape"):
        kind(exposure="known").check(np.ones(3), (1,))


@pytest.mark.parametrize("mean", [1e-3, 0.5, 15.0, 17.0, 1e3, 1e5, 1.5e7])
def test_the_density_of_large_counts_holds_in_single_precision(mean: float) -> None:
    """By SciPy in double precision, near the mean and far from it; and the slope, (y - m) / m."""
    rng = np.random.default_rng(0)
    m = np.float32(mean)
    y = np.concatenate([rng.poisson(mean, 200), [0, 1, 16, 17, int(1.05 * mean), int(1.5 * mean) + 1, int(0.6 * mean)]])
    found = np.asarray(_Poisson(m).log_prob(y.astype(np.float32)), float)
    wanted = scipy.stats.poisson.logpmf(y.astype(np.float32).astype(float), float(m))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=6e-6)
    slopes = jax.vmap(jax.grad(lambda rate, count: _Poisson(rate).log_prob(count)), (None, 0))(m, jnp.asarray(y, jnp.float32))
    np.testing.assert_allclose(slopes, y / float(m) - 1.0, rtol=1e-4, atol=2e-6)


def test_counts_that_single_precision_does_not_hold_are_refused() -> None:
    bp.likelihoods.Poisson().check(np.array([0.0, 2.0**24]), (1,))
    for likelihood in (bp.likelihoods.Poisson(), bp.likelihoods.NegativeBinomial()):
        with pytest.raises(ValueError, match=r"a count of 3,000,000,000 .*logarithms of the counts by Normal"):
            likelihood.check(np.array([0, 3_000_000_000]), (1,))


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda: bp.likelihoods.NegativeBinomial(1e8), r"Poisson\("),
        (lambda: bp.likelihoods.StudentT(1e6), r"Normal\("),
        (lambda: bp.likelihoods.Beta(1e6), r"Normal\(...\) of the shares' logits"),
    ],
)
def test_laws_that_are_nearly_their_limit_are_refused(make, limit: str) -> None:
    with pytest.raises(ValueError, match=f"must be at most 1.*take {limit}"):
        make()
