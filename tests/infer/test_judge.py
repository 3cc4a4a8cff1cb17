"""Figures of likelihoods other than classes and one noise, against SciPy on the very networks that were drawn.

A twin of the network under ``Normal(1.0)`` has the same sites, so that the same key draws the same networks: its predictions
are the raw outputs. Failure budgets: fixed keys; stochastic comparisons allow five standard errors.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from flax import linen

import bayesprune as bp
from tests.infer.test_predict import start

ROWS = 20
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
Y = (X[:, 0] - X[:, 1]).astype(np.float32)
COUNTS = np.random.default_rng(1).poisson(2.0, ROWS)


def net(likelihood, outputs: int = 1, shape: tuple[int, ...] = (3,)) -> bp.BNN:
    return bp.BNN(linen.Dense(outputs), prior=bp.priors.Gaussian(0.5), likelihood=likelihood, input_shape=shape)


def raw(bnn, params, x, num_samples: int) -> np.ndarray:
    """Outputs of the networks that the fixed key draws, (num_samples, rows, ..., outputs), in double precision."""
    twin = net(bp.likelihoods.Normal(1.0), bnn.num_outputs, bnn.input_shape)
    return bp.predict_draws(jax.random.key(0), twin, params, x, num_samples=num_samples).astype(np.float64)


@pytest.mark.slow
def test_predicted_noise_is_judged_exactly(rng_key) -> None:
    bnn = net(bp.likelihoods.Normal("predicted"), 2)
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, Y), num_samples=4)
    outputs = raw(bnn, params, X, 4)
    loc, scale = outputs[..., 0], outputs[..., 1] + np.sqrt(1 + outputs[..., 1] ** 2)
    nats = scipy.special.logsumexp(scipy.stats.norm.logpdf(Y, loc, scale), axis=0) - np.log(4)
    assert figures["nll"] == pytest.approx(-np.mean(nats), rel=1e-4)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((loc.mean(0) - Y) ** 2)), rel=1e-5)
    assert figures["crps"] == pytest.approx(bp.metrics.gaussian_crps(loc, Y, scale), rel=1e-4)
    assert figures["coverage"] == bp.metrics.coverage(loc, Y, scale)
    np.testing.assert_allclose(bp.predict(rng_key, bnn, params, X, num_samples=4), loc.mean(0), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_counts_are_judged_by_samples(rng_key) -> None:
    bnn = net(bp.likelihoods.Poisson())
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, COUNTS), num_samples=4)
    rates = np.exp(raw(bnn, params, X, 4)[..., 0])
    assert figures["nll"] == pytest.approx(-np.mean(np.log(scipy.stats.poisson.pmf(COUNTS, rates).mean(0))), rel=1e-4)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((rates.mean(0) - COUNTS) ** 2)), rel=1e-4)
    up_to = scipy.stats.poisson.cdf(np.arange(200)[:, None, None], rates).mean(1)  # of the mixture, (values, rows)
    exact = ((up_to - (np.arange(200)[:, None] >= COUNTS)) ** 2).sum(0)
    spread = np.sqrt((rates + rates**2).mean(0) - rates.mean(0) ** 2)  # |dCRPS/dF| <= 2: within 2 sd / sqrt(1000) for a row
    assert figures["crps"] == pytest.approx(exact.mean(), abs=5 * 2 * spread.mean() / np.sqrt(1000))
    assert 0.0 <= figures["coverage"] <= 1.0 < figures["interval_width"]


@pytest.mark.slow
def test_several_labels_are_judged_together(rng_key) -> None:
    bnn, y = net(bp.likelihoods.Bernoulli(), 3), (X > 0).astype(np.int32)
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y), num_samples=4)
    probs = scipy.special.expit(raw(bnn, params, X, 4))
    together = np.where(y == 1, probs, 1 - probs).prod(-1).mean(0)
    assert figures["nll"] == pytest.approx(-np.mean(np.log(together)), rel=1e-4)
    assert figures["accuracy"] == pytest.approx(np.mean((probs.mean(0) > 0.5) == y))
    assert set(figures) == {"accuracy", "nll", "brier"}


@pytest.mark.slow
def test_tokens_count_as_rows(rng_key) -> None:
    x = np.random.default_rng(2).normal(size=(ROWS, 5, 3)).astype(np.float32)
    y = np.random.default_rng(3).poisson(1.0, (ROWS, 5, 2))
    bnn = net(bp.likelihoods.Poisson(), 2, (5, 3))
    params = start(bnn)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(x, y), num_samples=3)
    rates = np.exp(raw(bnn, params, x, 3))
    together = scipy.stats.poisson.pmf(y, rates).prod(-1).mean(0)  # a token's targets share their network
    assert figures["nll"] == pytest.approx(-np.mean(np.log(together)), rel=1e-4)
    noisy = net(bp.likelihoods.Normal("predicted"), 2, (5, 3))
    params, real = start(noisy), x[..., 0]
    figures = bp.evaluate(rng_key, noisy, params, bp.Dataset(x, real), num_samples=3)
    outputs = raw(noisy, params, x, 3)
    scale = outputs[..., 1] + np.sqrt(1 + outputs[..., 1] ** 2)
    nats = scipy.special.logsumexp(scipy.stats.norm.logpdf(real, outputs[..., 0], scale), axis=0) - np.log(3)
    assert figures["nll"] == pytest.approx(-np.mean(nats), rel=1e-3)


@pytest.mark.slow
def test_ordered_classes(rng_key) -> None:
    bnn, y = net(bp.likelihoods.Ordinal(4)), np.digitize(Y, [-1.0, 0.0, 1.0])
    params = start(bnn) | {"cut_gaps_log_scale": jnp.full(2, 1e-6)}
    probs = bp.predict(rng_key, bnn, params, X, num_samples=3)
    assert probs.shape == (ROWS, 4) and bp.predict_draws(rng_key, bnn, params, X, num_samples=3).shape == (3, ROWS, 4)
    points = bnn.likelihood.read_cut_points(params)
    up_to = scipy.special.expit(points - raw(bnn, params, X, 3)).mean(0)
    np.testing.assert_allclose(probs.cumsum(-1)[:, :-1], up_to, atol=1e-4)
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, y), num_samples=3)
    assert figures["accuracy"] == pytest.approx(np.mean(probs.argmax(1) == y))
    assert figures["rps"] == pytest.approx(np.mean(((up_to - (np.arange(3) >= y[:, None])) ** 2).sum(1)), abs=1e-4)


@pytest.mark.slow
def test_targets_are_drawn_with_their_noise(rng_key) -> None:
    """200 draws at each of 300 rows of one network: mean and variance within five standard errors, and no noise twice."""
    bnn = net(bp.likelihoods.StudentT(10.0, 0.5))
    params = jax.tree.map(jnp.zeros_like, start(bnn))
    y = bp.sample_targets(rng_key, bnn, params, np.zeros((300, 3), np.float32), num_samples=200)
    assert y.shape == (200, 300) and len(np.unique(y)) > 0.999 * y.size  # float32 meets itself
    variance = 0.25 * 10 / 8
    assert np.mean(y) == pytest.approx(0.0, abs=5 * np.sqrt(variance / y.size))
    assert np.var(y) == pytest.approx(variance, abs=5 * variance * np.sqrt(3.0 / y.size))  # kurtosis of t_10 is 4
    with pytest.raises(ValueError, match="x must have shape"):
        bp.sample_targets(rng_key, bnn, params, X[:, :2])
    known = net(bp.likelihoods.Normal(noise="known"))
    with pytest.raises(TypeError, match=r"Normal knows the noise of each row, .*add yours to the means"):
        bp.sample_targets(rng_key, known, start(known), X)
