"""Training on simulated data finds the numbers that it was simulated with.

Failure budget: 1,000 rows, one fixed key for data and fit. Tolerances are five standard errors of the maximum-likelihood
estimate or more, so that a random key would fail once in a million times for each number.
"""

import jax
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from scipy.special import expit

import bayesprune as bp
from bayesprune.model.families import MeanFieldFamily

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2)).astype(np.float32)
WEIGHTS = np.array([0.8, -0.5])
F = 0.3 + X @ WEIGHTS
OPTIMIZER = optax.adam(optax.cosine_decay_schedule(0.05, 600))
NEAR = MeanFieldFamily(init_range=0.1)
LAPLACE = bp.likelihoods.Custom(lambda f, width: dist.Laplace(f[..., 0], width), learned={"width": dist.Gamma(2.0, 2.0)})

CASES = {  # likelihood, outputs, targets, tolerance of weights, learned number: (name, how it reads, value, tolerance)
    "counts": (bp.likelihoods.Poisson(), 1, RNG.poisson(np.exp(F)), 0.15, {}),
    "spread counts": (
        bp.likelihoods.NegativeBinomial(), 1, RNG.negative_binomial(3.0, 3 / (3 + np.exp(F))), 0.25,
        {"concentration": (3.0, 1.6)},
    ),
    "shares": (
        bp.likelihoods.Beta(), 1, RNG.beta(8 * expit(F), 8 * expit(-F)).clip(1e-6, 1 - 1e-6), 0.15,
        {"concentration": (8.0, 1.8)},
    ),
    "heavy tails": (
        bp.likelihoods.StudentT(3.0), 1, F + 0.5 * RNG.standard_t(3.0, 1000), 0.12, {"noise_precision": (4.0, 1.4)},
    ),
    "ordered": (
        bp.likelihoods.Ordinal(4), 1, np.digitize(F + RNG.logistic(size=1000), [-1.0, 0.5, 2.0]), 0.35,
        {"cut_gaps": (1.5, 0.45)},
    ),
    "predicted noise": (
        bp.likelihoods.Normal("predicted"), 2, F + np.exp(np.arcsinh(X[:, 1])) * RNG.normal(size=1000), 0.25, {},
    ),
    "any": (LAPLACE, 1, F + 0.4 * RNG.laplace(size=1000), 0.12, {"width": (0.4, 0.07)}),
    "several labels": (bp.likelihoods.Bernoulli(), 1, (RNG.random(1000) < expit(F)).astype(int), 0.45, {}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_finds_what_the_data_were_made_with(case, rng_key) -> None:
    likelihood, outputs, y, tolerance, numbers = CASES[case]
    bnn = bp.BNN(bp.nets.MLP((), outputs), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(2,), posterior=NEAR)
    y = y.astype(np.int32 if y.dtype.kind == "i" else np.float32)
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, y), num_steps=600, optimizer=OPTIMIZER, estimator="local", progress=False)
    kernel, bias = (np.asarray(fit.params[f"Dense_0.{name}_dense_loc"]) for name in ("kernel", "bias"))
    np.testing.assert_allclose(kernel[:, 0], WEIGHTS, atol=tolerance)
    # The cut points that the data were made with have their mean at 0.5, and are centred in the likelihood.
    np.testing.assert_allclose(bias[0], 0.3 - (0.5 if case == "ordered" else 0.0), atol=tolerance)
    for name, (value, within) in numbers.items():
        np.testing.assert_allclose(np.exp(fit.params[f"{name}_log_loc"]), value, atol=within)
    if outputs == 2:
        np.testing.assert_allclose(kernel[:, 1], [0.0, 1.0], atol=0.35)


@pytest.mark.slow
def test_local_noise_leaves_the_loss_as_it_is() -> None:
    """Means of 400 losses by either estimator within five standard errors, for outputs that are parted and used again."""
    likelihood = bp.likelihoods.Normal("predicted")
    bnn = bp.BNN(bp.nets.MLP((), 2), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(2,))
    x, y = X[:8], F[:8].astype(np.float32)
    params = {
        f"Dense_0.{name}_dense_{field}": np.full(shape, value, np.float32)
        for name, shape in (("kernel", (2, 2)), ("bias", (2,)))
        for field, value in (("loc", 0.3), ("scale", 0.2))
    }
    means, errors = [], []
    for elbo in (bp.MeanFieldELBO(), bp.LocalELBO()):
        loss = jax.jit(jax.vmap(lambda key, elbo=elbo: elbo.loss(key, params, bnn.model, bnn.guide, x, y)))
        losses = np.asarray(loss(jax.random.split(jax.random.key(0), 400)), np.float64)
        means.append(losses.mean())
        errors.append(losses.std() / 20)
    assert abs(means[0] - means[1]) < 5 * np.hypot(*errors)
