"""Missing targets: the sum runs over what is observed, for densities, noise and figures alike."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from numpyro.handlers import seed, substitute, trace

import bayesprune as bp
from bayesprune.infer import refit_noise
from bayesprune.infer.evaluate import scored
from bayesprune.model.families import MeanFieldFamily

L = bp.likelihoods
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2)).astype(np.float32)
Y = (X @ np.array([[1.0, 0.5], [-0.5, 1.0]]) + np.array([0.2, 1.0]) * RNG.normal(size=(300, 2))).astype(np.float32)
GAPS = RNG.random((300, 2)) < np.array([0.0, 0.7])
VAGUE = L.Normal(noise_shape=1.0, noise_rate=1e-3)


def network(likelihood, outputs=2, posterior="mean_field") -> bp.BNN:
    net = bp.nets.MLP((), outputs)
    return bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(2,), posterior=posterior)


def log_density(likelihood, outputs, y, **sites):
    found = trace(substitute(seed(likelihood.observe, 0), data=sites)).get_trace(jnp.asarray(outputs), jnp.asarray(y))["obs"]
    return np.asarray(found["fn"].log_prob(found["value"]))


LOGITS = RNG.normal(size=(4, 3, 5))
LABELS = np.array([[0, 4, -1], [1, -1, -1], [-1, -1, -1], [2, 3, 1]])
REAL = np.array([[0.5, np.nan], [np.nan, np.nan], [0.2, 0.7]])
F = RNG.normal(size=(3, 2))
SHARES = np.where(np.isnan(REAL), 0.5, REAL)
PLAIN = dist.Laplace
CASES = {
    "padded labels": (
        L.Masked(L.Categorical(), missing=-1), LOGITS, LABELS,
        np.where(LABELS < 0, 0.0, np.take_along_axis(scipy.special.log_softmax(LOGITS, -1), LABELS[..., None], -1)[..., 0]),
    ),
    "labels with NaN": (
        L.Masked(L.Categorical()), LOGITS[:, 0], np.array([0.0, np.nan, 3.0, 1.0]),
        np.array([1, 0, 1, 1]) * scipy.special.log_softmax(LOGITS[:, 0], -1)[np.arange(4), [0, 0, 3, 1]],
    ),
    "reals": (L.Masked(L.Normal(0.5)), F, REAL, np.nan_to_num(scipy.stats.norm.logpdf(REAL, F, 0.5))),
    "shares": (
        L.Masked(L.Beta(4.0)), F, REAL,
        np.where(
            np.isnan(REAL), 0.0, scipy.stats.beta.logpdf(SHARES, 4 * scipy.special.expit(F), 4 * scipy.special.expit(-F))
        ),
    ),
    "counts": (
        L.Masked(L.Poisson(), missing=-100), F, np.array([[3, -100], [0, 1], [-100, -100]]),
        np.array([[1, 0], [1, 1], [0, 0]]) * scipy.stats.poisson.logpmf([[3, 0], [0, 1], [0, 0]], np.exp(F)),
    ),
    "known noise": (
        L.Masked(L.Normal(noise="known")), F, np.hstack([REAL, np.where(np.isnan(REAL), np.nan, 0.3)]),
        np.nan_to_num(scipy.stats.norm.logpdf(REAL, F, 0.3)),
    ),
    "any": (L.Masked(L.Custom(lambda f: PLAIN(f, 0.5))), F, REAL, np.nan_to_num(scipy.stats.laplace.logpdf(REAL, F, 0.5))),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_density_is_that_of_what_is_observed(case) -> None:
    likelihood, outputs, y, each = CASES[case]
    wanted = each.reshape(len(outputs), -1).sum(1)
    likelihood.check(y, outputs.shape[1:])
    np.testing.assert_allclose(log_density(likelihood, outputs, y), wanted, rtol=1e-4, atol=1e-5)
    slope = jax.grad(lambda f: jnp.sum(jnp.asarray(_density(likelihood, f, y))))(jnp.asarray(outputs))
    assert np.isfinite(slope).all()


def _density(likelihood, outputs, y):
    site = trace(seed(likelihood.observe, 0)).get_trace(outputs, jnp.asarray(y))["obs"]
    return site["fn"].log_prob(site["value"])


@pytest.fixture(scope="module")
def fit() -> bp.FitResult:
    data = bp.Dataset(X, np.where(GAPS, np.nan, Y))
    bnn = network(L.Masked(VAGUE), posterior=MeanFieldFamily(init_range=0.1))
    return bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1000, batch_size=100, progress=False)


@pytest.mark.slow
def test_every_output_is_fitted_by_the_rows_that_have_it(fit) -> None:
    """Least squares of the observed rows of each output; within a posterior deviation of .03 (the second: 90 rows, .11)."""
    kernel, bias = (np.asarray(fit.params[f"Dense_0.{name}_dense_loc"]) for name in ("kernel", "bias"))
    noise = network(VAGUE).likelihood.read_noise_scale(fit.params)
    for place in range(2):
        seen = ~GAPS[:, place]
        design = np.column_stack([X[seen], np.ones(seen.sum())])
        best, residual = np.linalg.lstsq(design, Y[seen, place])[:2]
        np.testing.assert_allclose(np.append(kernel[:, place], bias[place]), best, atol=0.04)
        np.testing.assert_allclose(noise[place], np.sqrt(residual[0] / seen.sum()), rtol=0.1)
    again = bp.refit_noise(jax.random.key(1), network(L.Masked(VAGUE)), fit.params, bp.Dataset(X, np.where(GAPS, np.nan, Y)))
    np.testing.assert_allclose(again[refit_noise.LOC], fit.params[refit_noise.LOC], atol=0.2)
    np.testing.assert_allclose(again[refit_noise.SCALE], (1.0 + 0.5 * (~GAPS).sum(0)) ** -0.5, rtol=1e-5)


@pytest.mark.slow
def test_figures_are_of_what_is_observed(fit) -> None:
    """Beside those of the whole rows, output by output, where an output is missing throughout."""
    gone = np.zeros((300, 2), bool)
    gone[:, 1] = True
    key, whole, bnn = jax.random.key(1), bp.Dataset(X, np.where(gone, np.nan, Y)), network(L.Masked(VAGUE))
    figures = bp.evaluate(key, bnn, fit.params, whole)
    draws = bp.predict_draws(key, bnn, fit.params, X)[..., :1]
    scale = float(VAGUE.read_noise_scale(fit.params)[0])
    wanted = bp.metrics.regression_summary(draws, Y[:, :1], scale)
    for name, tolerance in {"rmse": 1e-5, "coverage": 0.02, "interval_width": 0.02, "crps": 0.01, "nll": 0.02}.items():
        assert figures[name] == pytest.approx(wanted[name], rel=tolerance, abs=0.01)
    everything = bp.Dataset(X, Y)
    one, other = (bp.evaluate(key, b, fit.params, everything) for b in (bnn, network(VAGUE)))
    assert one["rmse"] == pytest.approx(other["rmse"], rel=1e-5) and one["nll"] == pytest.approx(other["nll"], abs=0.01)


@pytest.mark.slow
def test_figures_of_padded_labels() -> None:
    bnn = network(L.Masked(L.Categorical(), missing=-1), 3)
    y = np.where(np.arange(300) % 3, np.argmax(X @ RNG.normal(size=(2, 3)), 1), -1)
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(X, y), num_steps=20, progress=False)
    figures, probabilities = scored(jax.random.key(1), bnn, fit.params, bp.Dataset(X, y), mask=None, num_samples=100)
    means = bp.predict(jax.random.key(1), bnn, fit.params, X)
    assert figures == bp.metrics.summary(means[y >= 0], y[y >= 0]) | figures
    assert probabilities.shape == (200, 3)


@pytest.mark.slow
def test_figures_of_counts_and_bits() -> None:
    counts = np.where(GAPS, np.nan, RNG.poisson(np.exp(0.3 * X)))
    bits = np.where(GAPS, -1, (X > 0).astype(int))
    for likelihood, y in ((L.Masked(L.Poisson()), counts), (L.Masked(L.Bernoulli(), missing=-1), bits)):
        bnn = network(likelihood)
        fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(X, y), num_steps=20, progress=False)
        figures = bp.evaluate(jax.random.key(1), bnn, fit.params, bp.Dataset(X, y), num_samples=10)
        mean = bp.predict(jax.random.key(1), bnn, fit.params, X, num_samples=10)
        error = float(np.mean((mean - y)[~GAPS] ** 2))
        assert figures["brier" if "brier" in figures else "rmse"] == pytest.approx(error if "brier" in figures else error**0.5)
        assert np.isfinite(list(figures.values())).all()


def test_the_baseline_is_of_what_is_observed() -> None:
    assert L.Masked(L.Categorical(), missing=-1).baseline(LABELS) == L.Categorical().baseline(LABELS[LABELS >= 0])
    assert L.Masked(L.Normal()).baseline(np.array([1.0, np.nan, 2.0])) == L.Normal().baseline(np.array([1.0, 2.0]))
    assert L.Masked(L.Normal()).baseline(REAL) is None


def test_equal_ones_are_equal_and_others_are_refused() -> None:
    assert (
        L.Masked(L.Normal()) == L.Masked(L.Normal(), np.nan) == L.Masked(L.Normal(), float("nan")) != L.Masked(L.Normal(), -1)
    )
    with pytest.raises(ValueError, match="masked already"):
        L.Masked(L.Masked(L.Normal()))
    with pytest.raises(TypeError, match="missing must be one number"):
        L.Masked(L.Normal(), missing=None)
    with pytest.raises(ValueError, match="no target at all"):
        L.Masked(L.Normal()).check(np.full((3, 2), np.nan), (2,))
    with pytest.raises(ValueError, match="labels from 0 to 7"):
        L.Masked(L.Categorical(), missing=-1).check(np.array([0, 7, -1]), (3,))
    with pytest.raises(TypeError, match="must hold integer class labels"):
        L.Masked(L.Categorical()).check(np.array([0.0, 0.5, np.nan]), (3,))
    for data in (bp.Dataset(X, np.where(GAPS, np.inf, Y)), bp.Dataset(np.where(GAPS, np.nan, X), Y)):
        with pytest.raises(ValueError, match="NaN or infinite"):
            bp.fit_svi(jax.random.key(0), network(L.Masked(VAGUE)), data, num_steps=1)


@pytest.mark.slow
def test_events_of_several_numbers_count_where_all_of_them_are_observed() -> None:
    """Of a bivariate normal with gaps the figures are those of the rows without: by the same networks, of points."""
    covariance = jnp.array([[1.0, 0.5], [0.5, 2.0]])
    bnn = network(L.Masked(L.Custom(lambda f: dist.MultivariateNormal(f, covariance))), posterior="map")
    data = bp.Dataset(X, np.where(GAPS, np.nan, Y))
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=50, progress=False)
    whole = ~GAPS.any(axis=1)
    figures, wanted = (
        bp.evaluate(jax.random.key(1), bnn, fit.params, rows, num_samples=1) for rows in (data, bp.Dataset(X[whole], Y[whole]))
    )
    assert 0 < whole.sum() < 300
    assert figures["nll"] == pytest.approx(wanted["nll"], rel=1e-5) and figures["rmse"] == pytest.approx(
        wanted["rmse"], rel=1e-5
    )
    mean = np.asarray(bp.predict(jax.random.key(1), bnn, fit.params, X[whole], num_samples=1))
    exact = np.mean([scipy.stats.multivariate_normal.logpdf(y, m, covariance) for y, m in zip(Y[whole], mean, strict=True)])
    assert figures["nll"] == pytest.approx(-exact, rel=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "missing", "unknown"),
    [(L.Normal(noise="known"), np.nan, np.nan), (L.Poisson(exposure="known"), -1, -1)],
)
def test_an_observed_target_has_its_own_noise_or_exposure(likelihood, missing, unknown) -> None:
    masked = L.Masked(likelihood, missing)
    rows = np.array([[2.0, 0.5], [missing, unknown], [missing, 3.0]])
    masked.check(rows, (1,))
    assert masked.filled(rows)[:, 1].tolist() == [0.5, 1.0, 3.0]
    with pytest.raises(ValueError, match="all positive"):
        masked.check(np.array([[2.0, unknown], [1.0, 0.5]]), (1,))
    assert L.Masked(likelihood, 99).filled(np.array([[2.0, 99.0]])).tolist() == [[2.0, 99.0]]


def test_what_is_missing_is_the_same_number_in_any_precision() -> None:
    of_double = L.Masked(L.Normal(), np.float64(-99.9))
    assert of_double == L.Masked(L.Normal(), -99.9)
    assert of_double.present(np.array([-99.9, 1.0], np.float32)).tolist() == [False, True]
