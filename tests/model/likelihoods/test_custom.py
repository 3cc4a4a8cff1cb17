"""Likelihoods of any distribution: trained, predicted and judged in three lines; what cannot be one is refused."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from tests.infer.test_predict import start

import bayesprune as bp

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = (X[:, 0] + 0.1 * X[:, 1] ** 2).astype(np.float32)


def net(likelihood, outputs: int = 1) -> bp.BNN:
    return bp.BNN(bp.nets.MLP((4,), outputs), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(3,))


@pytest.mark.slow
def test_three_lines(rng_key) -> None:
    laplace = bp.likelihoods.Custom(lambda f, scale: dist.Laplace(f[..., 0], scale), learned={"scale": dist.Gamma(2.0, 2.0)})
    fit = bp.fit_svi(rng_key, net(laplace), bp.Dataset(X, Y), num_steps=3, progress=False)
    figures = bp.evaluate(rng_key, net(laplace), fit.params, bp.Dataset(X, Y), num_samples=4)
    assert "scale_log_loc" in fit.params and np.isfinite(fit.losses).all()
    assert set(figures) == {"rmse", "nll", "crps", "coverage", "interval_width"}
    draws = bp.predict_draws(rng_key, net(laplace), fit.params, X, num_samples=4)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((draws.mean(0)[:, 0] - Y) ** 2)), rel=1e-5)


def test_equal_functions_make_equal_networks() -> None:
    fn = lambda f: dist.Gumbel(f[..., 0], 1.0)  # noqa: E731
    assert net(bp.likelihoods.Custom(fn)) == net(bp.likelihoods.Custom(fn))
    assert net(bp.likelihoods.Custom(fn)) != net(bp.likelihoods.Custom(lambda f: dist.Gumbel(f[..., 0], 1.0)))


@pytest.mark.slow
def test_a_mean_of_ones_own(rng_key) -> None:
    """Cauchy's distribution has none: its median is predicted, and everything that is left is said of it."""
    cauchy = bp.likelihoods.Custom(lambda f: dist.Cauchy(f[..., 0], 0.5), mean_of=lambda f: f[..., 0])
    bnn = net(cauchy)
    params = start(bnn)
    bp.likelihoods.Custom.check(cauchy, Y, (1,))
    figures = bp.evaluate(rng_key, bnn, params, bp.Dataset(X, Y), num_samples=2)
    draws = bp.predict_draws(rng_key, bnn, params, X, num_samples=2)[..., 0]
    density = scipy.stats.cauchy.pdf(Y, draws.astype(np.float64), 0.5).mean(0)
    assert figures["nll"] == pytest.approx(-np.mean(np.log(density)), rel=1e-4)


REFUSED = {
    "no distribution": (lambda f: f, Y, TypeError, "fn must give a NumPyro distribution, got"),
    "one for all rows": (lambda f: dist.Normal(0.0, 1.0), Y, ValueError, r"rows as its first batch axis, got batch_shape \(\)"),
    "one event of rows": (lambda f: dist.Normal(f, 1.0).to_event(2), Y, ValueError, "rows as its first batch axis"),
    "no mean": (lambda f: dist.Cauchy(f[..., 0], 1.0), Y, ValueError, "Cauchy has no finite mean of each row: give mean_of="),
    "support": (lambda f: dist.Gamma(jnp.exp(f[..., 0]), 1.0), Y - 9, ValueError, "outside the support of Gamma, .*row 0"),
    "shape": (lambda f: dist.Normal(f[..., 0], 1.0), np.stack([Y, Y], 1), ValueError, r"data.y has shape \(40, 2\).*Custom"),
    "large": (
        lambda f: dist.Poisson(jnp.exp(f[..., 0])),
        np.where(Y > 0, 3e9, 1.0),
        ValueError,
        "3,000,000,000 .* beyond int32",
    ),
    "labels": (lambda f: dist.Categorical(logits=f), np.full(40, 2), ValueError, "outside the support of CategoricalLogits"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_likelihood_of_the_targets_is_refused(case) -> None:
    fn, y, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        bp.likelihoods.Custom(fn).check(y, (1,))


def test_a_support_that_moves_with_the_outputs_is_nobodys_to_check() -> None:
    uniform = bp.likelihoods.Custom(lambda f: dist.Uniform(f[..., 0] - 1.0, f[..., 0] + 1.0))
    uniform.check(np.full(3, 5.0), (1,))


def test_settings_are_checked() -> None:
    with pytest.raises(TypeError, match="fn must be a function"):
        bp.likelihoods.Custom(dist.Normal(0.0, 1.0))
    for wrong in (dist.Normal(0.0, 1.0), dist.Gamma(jnp.ones(2), 1.0), 3.0):
        with pytest.raises(ValueError, match=r"learned\['s'\] must be a prior of one positive number"):
            bp.likelihoods.Custom(lambda f, s: dist.Normal(f, s), learned={"s": wrong})


NAMES = r"must take its arguments by the names in learned=, "


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"fn": lambda f, s: dist.Laplace(f[..., 0], s)},
            rf"^fn {NAMES}fn\(outputs, scale\), got fn\(f, s\): .*'s'.*lambda outputs, scale",
        ),
        ({"fn": lambda f: dist.Laplace(f[..., 0], 1.0)}, rf"^fn {NAMES}.*unexpected keyword argument 'scale'"),
        ({"fn": lambda f, scale, rate: dist.Gamma(scale, rate)}, rf"^fn {NAMES}.*missing a required argument: 'rate'"),
        ({"mean_of": lambda f: f[..., 0]}, rf"^mean_of {NAMES}mean_of\(outputs, scale\), got mean_of\(f\)"),
    ],
)
def test_functions_of_other_arguments_are_refused_where_they_are_given(settings, message) -> None:
    given = {"fn": lambda f, scale: dist.Laplace(f[..., 0], scale), "learned": {"scale": dist.Gamma(2.0, 2.0)}}
    with pytest.raises(TypeError, match=message):
        bp.likelihoods.Custom(**(given | settings))


def test_fractions_are_no_counts_whatever_the_support_depends_on() -> None:
    """They would be cut off where the density is taken: 2.7 would count as 2."""
    drawn_of = bp.likelihoods.Custom(lambda f: dist.Binomial(total_count=10 + jnp.round(f[..., 0]), logits=f[..., 0]))
    drawn_of.check(np.array([2.0, 3.0]), (1,))
    with pytest.raises(ValueError, match=r"whole numbers for a discrete Binomial\w*, got 2.7"):
        drawn_of.check(np.array([3.0, 2.7]), (1,))


@pytest.mark.parametrize(
    "fn", [dist.Poisson, lambda *args, **kwargs: dist.Poisson(*args), lambda f, scale=1.0: dist.Laplace(f, scale)]
)
def test_classes_open_signatures_and_defaults_are_functions(fn) -> None:
    assert bp.likelihoods.Custom(fn).fn is fn
