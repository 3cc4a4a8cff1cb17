"""Hand-written programs by minibatches and with scales of their own, against exact posteriors of linear regression."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer.autoguide import AutoNormal

import bayesprune as bp

ROWS, BATCH, NOISE = 120, 30, 0.5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 2)).astype(np.float32)
Y = (X @ [1.0, -0.5] + NOISE * RNG.normal(size=ROWS)).astype(np.float32)
DATA = bp.Dataset(X, Y)


def weights(scale: Any = 1.0) -> Any:
    return numpyro.sample("w", dist.Normal(0.0, scale).expand([2]).to_event(1))


def seen(x: Any, y: Any, w: Any) -> None:
    numpyro.sample("y", dist.Normal(x @ w, NOISE), obs=y)


def pseudo(x: Any, y: Any = None, scale: Callable[[Any], float] | None = None) -> None:
    """One observation of the first weight, which is no row's."""
    w = weights()
    with numpyro.handlers.scale(scale=scale(y)) if scale else contextlib.nullcontext():
        numpyro.sample("said", dist.Normal(w[0], 0.05), obs=0.2)
    seen(x, y, w)


def local(x: Any, y: Any = None) -> None:
    w = weights()
    with numpyro.plate("rows", len(x)):
        u = numpyro.sample("u", dist.Normal(0.0, 0.3))
        numpyro.sample("y", dist.Normal(x @ w + u, 0.4), obs=y)


def subsampled(x: Any, y: Any = None) -> None:
    w = weights()
    with numpyro.plate("rows", ROWS, subsample_size=len(x)):
        seen(x, y, w)


def half_seen(x: Any, y: Any = None) -> None:
    numpyro.sample("y", dist.Normal(x @ weights(), NOISE), obs=y, obs_mask=x[:, 0] > 0)


def some_weights(x: Any, y: Any = None) -> None:
    """A plate that takes a part of what it has, and no observed site."""
    w = weights()
    with numpyro.plate("others", 10, subsample_size=2):
        numpyro.sample("v", dist.Normal(0.0, 1.0))
    seen(x, y, w)


def plated(x: Any, y: Any = None) -> None:
    w = weights()
    with numpyro.plate("rows", len(x)):
        seen(numpyro.subsample(x, 1), y, w)


def factored(x: Any, y: Any = None) -> None:
    """A likelihood as one number, the sum over the rows."""
    numpyro.factor("likelihood", dist.Normal(x @ weights(), NOISE).log_prob(y).sum())


def fit(model: Any, batch: int | None, guide: Any = None, steps: int = 1500) -> Any:
    rate = optax.cosine_decay_schedule(2e-2, steps)
    program = bp.Program(model, guide or AutoNormal(model))
    options = {"num_steps": steps, "batch_size": batch, "optimizer": optax.adam(rate), "kl_weight": 1.0, "progress": False}
    return program, bp.fit_svi(jax.random.key(0), program, DATA, **options)


def exact(prior_precision: Any, said: float = 0.0) -> np.ndarray:
    """The posterior's mean; ``said``: precision of an observation .2 of the first weight."""
    precision = X.T @ X / NOISE**2 + np.diag(np.broadcast_to(prior_precision, 2)) + np.diag([said, 0.0])
    return np.linalg.solve(precision, X.T @ Y / NOISE**2 + np.array([0.2 * said, 0.0]))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (pseudo, r"observed site 'said' does not depend on the rows.*scale\(scale=len\(y\) / 120\).*batch_size=None: 120 rows"),
        (local, r"latent site 'u' has a value for each row.*scale\(scale=120 / len\(y\)\), in model and guide"),
        (half_seen, r"obs_mask= makes 'y_unobserved' a latent site of single rows: put the site under numpyro\.handlers\.mask"),
        (subsampled, r"plate 'rows' scales what it holds by 120 / 30.*write plate\('rows', len\(y\)\)"),
    ],
)
def test_what_a_minibatch_would_count_wrongly_is_refused(model: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        fit(model, BATCH, steps=1)
    fit(model, None, steps=1)


@pytest.mark.parametrize("model", [plated, factored, some_weights])
def test_rows_in_a_plate_or_in_one_number_are_taken(model: Any) -> None:
    _, found = fit(model, BATCH, steps=1)
    assert np.isfinite(found.losses).all()


@pytest.mark.slow
def test_the_remedies_give_the_posterior_of_all_rows() -> None:
    """Optimisation noise of 1,500 steps: within a third of a posterior standard deviation, .05."""
    _, found = fit(lambda x, y=None: pseudo(x, y, lambda rows: len(rows) / ROWS), BATCH)
    np.testing.assert_allclose(found.params["w_auto_loc"], exact(1.0, said=400.0), atol=0.015)

    def model(x: Any, y: Any = None) -> None:
        w = weights()
        with numpyro.plate("rows", len(x)):
            with numpyro.handlers.scale(scale=ROWS / len(x)):
                u = numpyro.sample("u", dist.Normal(0.0, 0.3))
            numpyro.sample("y", dist.Normal(x @ w + u, 0.4), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        loc = numpyro.param("loc", jnp.zeros(2))
        spread = numpyro.param("spread", jnp.full(2, 0.1), constraint=dist.constraints.positive)
        w = numpyro.sample("w", dist.Normal(loc, spread).to_event(1))
        slope = numpyro.param("slope", 0.1)
        width = numpyro.param("width", 0.1, constraint=dist.constraints.positive)
        with numpyro.plate("rows", len(x)), numpyro.handlers.scale(scale=ROWS / len(x)):
            numpyro.sample("u", dist.Normal(slope * (y - x @ w), width))

    _, found = fit(model, BATCH, guide)
    assert found.params["slope"] == pytest.approx(0.09 / 0.25, abs=0.03)  # of u given its row, exactly
    assert found.params["width"] == pytest.approx((0.09 * 0.16 / 0.25) ** 0.5, abs=0.03)
    np.testing.assert_allclose(found.params["loc"], exact(1.0), atol=0.015)


@pytest.mark.slow
def test_a_prior_under_a_scale_of_its_own_is_that_prior_to_a_power() -> None:
    def model(x: Any, y: Any = None) -> None:
        with numpyro.handlers.scale(scale=0.01):
            w = weights(0.05)
        seen(x, y, w)

    program, found = fit(model, None)
    np.testing.assert_allclose(found.params["w_auto_loc"], exact(0.01 / 0.05**2), atol=0.015)
    with pytest.raises(ValueError, match="is no fixed Gaussian about zero"):
        bp.bmr_prune(found.params, program=program, data=DATA)


def test_evidence_is_under_the_fitted_scale_of_a_prior() -> None:
    """Of a hand-written model: log of the posterior's density at 0 over the prior's, which the fitted parameter sets."""

    def model(x: Any, y: Any = None) -> None:
        seen(x, y, weights(numpyro.param("tau", 3.0, constraint=dist.constraints.positive)))

    program, found = fit(model, None, steps=60)
    assert "w$prior_scale" not in found.params and float(found.params["tau"]) < 2.5
    with pytest.raises(ValueError, match="give program="):
        bp.bmr_prune(found.params)
    node = program.read(found.params | program.describe(found.params, DATA))["w"]
    np.testing.assert_allclose(node.prior_scale, found.params["tau"], rtol=1e-6)
    loc, scale = (found.params[f"w_auto_{name}"] for name in ("loc", "scale"))
    at_zero = dist.Normal(loc, scale).log_prob(0.0) - dist.Normal(0.0, found.params["tau"]).log_prob(0.0)
    np.testing.assert_allclose(node.gain(), at_zero, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 16])
def test_an_improper_prior_is_fitted_as_by_numpyro(batch_size: int | None) -> None:
    """It has no draws to look at a model by; the posterior's mean is the least squares solution."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -0.7, 0.2]) + 0.5 * rng.normal(size=64)).astype(np.float32)

    def model(x: Any, y: Any = None) -> None:
        w = numpyro.sample("w", dist.ImproperUniform(dist.constraints.real, (), (3,)))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("obs", dist.Normal(x @ w, 0.5), obs=y)

    program = bp.Program(model, AutoNormal(model))
    fit = bp.fit_svi(jax.random.key(0), program, bp.Dataset(x, y), num_steps=2000, batch_size=batch_size, progress=False)
    np.testing.assert_allclose(fit.params["w_auto_loc"], np.linalg.lstsq(x, y, rcond=None)[0], atol=0.02)
    with pytest.raises(ValueError, match="no fixed Gaussian prior"):
        bp.bmr_prune(fit.params)
