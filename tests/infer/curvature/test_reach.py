"""How far draws may go, (25.9): networks drawn around a trained one keep what it learnt, whatever it was trained by."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.posteriors.params import moments

GROUPS, EACH = 200, 5
NET = bp.nets.MLP((30,), 10)


class Table(nn.Module):
    """A logit for each group of rows: weights that no two rows' curvature couples."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(1, use_bias=False)(x)


@pytest.fixture(scope="module")
def table() -> tuple[bp.BNN, bp.Dataset, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.repeat(np.eye(GROUPS, dtype=np.float32), EACH, axis=0)
    bnn = bp.BNN(Table(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Bernoulli(), input_shape=(GROUPS,))
    return bnn, bp.Dataset(x, rng.integers(0, 2, GROUPS * EACH)), rng.normal(size=GROUPS)


def rise_of(weights: np.ndarray, y: np.ndarray, delta: float) -> tuple[float, float]:
    """Both sides of (25.9) in nats a row: of one weight each, an integral by Gauss-Hermite quadrature."""
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    p = 1 / (1 + np.exp(-weights))
    h = EACH * p * (1 - p)
    drawn = weights[:, None] + nodes / np.sqrt(h + delta)[:, None]
    ones = y.reshape(GROUPS, EACH).sum(axis=1)[:, None]
    nats = lambda w: ones * w - EACH * np.logaddexp(0, w)  # noqa: E731
    mean = (nats(drawn) * masses).sum(axis=1) / masses.sum()
    return float(0.5 * np.mean(h / (h + delta)) / EACH), float((nats(weights[:, None])[:, 0] - mean).mean() / EACH)


@pytest.mark.parametrize("delta", [0.1, 1.0, 10.0])
def test_both_sides_are_those_of_quadrature(table, delta: float) -> None:
    bnn, data, weights = table
    trained = {"params": {"Dense_0": {"kernel": weights[:, None].astype(np.float32)}}}
    fit = bp.laplace(jax.random.key(0), bnn, trained, data, prior_precision=delta)
    expected, rise = rise_of(weights, np.asarray(data.y), delta)
    np.testing.assert_allclose(fit.history["laplace/expected_rise"], expected, rtol=1e-4)
    # 500 of the 1,000 rows, 200 weights, eight pairs: over twenty keys the relative deviation was .05.
    np.testing.assert_allclose(fit.history["laplace/rise"], rise, rtol=0.25)


@pytest.fixture(scope="module")
def interpolating() -> tuple[bp.BNN, dict, bp.Dataset, bp.Dataset]:
    """A network trained without a decay, as most are, until it knows its rows by heart."""
    train, test = bp.data.load("digits")
    train = bp.Dataset(train.x[:500], train.y[:500])
    optimizer, x = optax.adam(3e-3), jnp.asarray(train.x)
    bnn = bp.BNN(NET, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))

    @jax.jit
    def step(variables, state):
        loss = lambda v: optax.softmax_cross_entropy_with_integer_labels(NET.apply(v, x), train.y).mean()  # noqa: E731
        updates, state = optimizer.update(jax.grad(loss)(variables), state)
        return optax.apply_updates(variables, updates), state

    variables = NET.init(jax.random.key(0), x[:1])
    state = optimizer.init(variables)
    for _ in range(400):
        variables, state = step(variables, state)
    return bnn, variables, train, test


def scores(bnn: bp.BNN, fit: bp.FitResult, test: bp.Dataset) -> tuple[float, float]:
    probs = bp.predict(jax.random.key(1), bnn, fit.params, test.x, num_samples=30)
    found = bp.metrics.summary(probs, test.y)
    return found["accuracy"], found["nll"]


@pytest.mark.parametrize(
    "curvature", ["diag", *(pytest.param(name, marks=pytest.mark.slow) for name in ("kron", "last_layer"))]
)
def test_drawn_networks_keep_what_was_learnt(interpolating, curvature: str) -> None:
    bnn, variables, train, test = interpolating
    rng_key = jax.random.key(2)
    logits = NET.apply(variables, jnp.asarray(test.x))
    whole = bp.metrics.summary(np.asarray(jax.nn.softmax(logits)), test.y)
    by_evidence = bp.laplace(rng_key, bnn, variables, train, curvature=curvature, excess=None)
    fit = bp.laplace(rng_key, bnn, variables, train, curvature=curvature)
    accuracy, nll = scores(bnn, fit, test)
    assert accuracy > whole["accuracy"] - 0.02 and nll < whole["nll"] + 0.02
    assert scores(bnn, by_evidence, test)[1] > whole["nll"] + 0.3  # why the factor is there
    factor = fit.history["laplace/factor"][0]
    assert factor >= 8 and np.log2(factor) % 1 == 0
    for name in ("prior_precision", "log_likelihood"):  # what the evidence says stays as it was
        np.testing.assert_array_equal(fit.history[f"laplace/{name}"], by_evidence.history[f"laplace/{name}"])
    np.testing.assert_array_equal(fit.losses, by_evidence.losses)
    priors = [moments(one.params)["Dense_1.kernel"][2] for one in (by_evidence, fit)]
    ratio = np.asarray(priors[0]) / np.asarray(priors[1])
    np.testing.assert_allclose(ratio, factor**0.5, rtol=1e-5)
    assert fit.history["laplace/rise"][0] <= max(2 * fit.history["laplace/expected_rise"][0], 0.01)


def test_held_out_rows_choose_the_factor_that_foresees_them_best(interpolating) -> None:
    bnn, variables, train, test = interpolating
    fit = bp.laplace(jax.random.key(2), bnn, variables, train, prior_precision="scalar", eval_data=test)
    chosen = scores(bnn, fit, test)[1]
    first = fit.history["laplace/prior_precision"][0]
    for other in first * 2.0 ** np.arange(2, 14, 2):
        rival = bp.laplace(jax.random.key(2), bnn, variables, train, prior_precision=float(other), excess=None)
        assert chosen < scores(bnn, rival, test)[1] + 0.01


def test_a_precision_that_is_given_stays_and_warns_where_draws_leave_it(interpolating) -> None:
    bnn, variables, train, test = interpolating
    with pytest.warns(UserWarning, match="where second derivatives say") as told:
        fit = bp.laplace(jax.random.key(2), bnn, variables, train, prior_precision=1.0)
    assert told[0].filename == __file__
    assert fit.history["laplace/factor"] == 1 and fit.history["laplace/prior_precision"][0] == 1
    with pytest.raises(ValueError, match="leave one of them out"):
        bp.laplace(jax.random.key(2), bnn, variables, train, prior_precision=1.0, eval_data=test)
    with pytest.raises(ValueError, match="excess"):
        bp.laplace(jax.random.key(2), bnn, variables, train, excess=0.0)


def test_a_linear_model_keeps_the_precisions_of_the_evidence() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    y = (x @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=300)).astype(np.float32)
    bnn = bp.BNN(bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(scale=0.5), input_shape=(4,))
    weights = np.linalg.lstsq(x, y, rcond=None)[0].astype(np.float32)[:, None]
    trained = {"params": {"Dense_0": {"kernel": weights, "bias": np.zeros(1, np.float32)}}}
    for curvature in ("diag", "full"):
        fit = bp.laplace(jax.random.key(0), bnn, trained, bp.Dataset(x, y), curvature=curvature)
        assert fit.history["laplace/factor"] == 1


def test_a_prior_made_of_it_is_that_of_the_evidence(interpolating) -> None:
    bnn, variables, train, _ = interpolating
    fit, by_evidence = (bp.laplace(jax.random.key(2), bnn, variables, train, excess=excess) for excess in (2.0, None))
    assert fit.history["laplace/factor"][0] > 1
    one, other = bp.priors.Empirical(fit).scale, bp.priors.Empirical(by_evidence).scale
    for site in one:
        np.testing.assert_allclose(one[site], other[site], rtol=1e-5)
