"""Outputs for every token of a row: trained, predicted and judged, against NumPy and SciPy on the very same numbers."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special
import scipy.stats
from flax import linen
from numpyro.infer.util import log_density

import bayesprune as bp
from tests.infer.test_predict import start

ROWS, TOKENS, FEATURES = 6, 3, 4
X = np.random.default_rng(0).normal(size=(ROWS, TOKENS, FEATURES)).astype(np.float32)
LABELS = np.argmax(X[..., :2], axis=-1).astype(np.int32)


def of_tokens(likelihood, outputs: int) -> bp.BNN:
    return bp.BNN(linen.Dense(outputs), prior=bp.priors.Gaussian(0.7), likelihood=likelihood, input_shape=(TOKENS, FEATURES))


CLASSES = of_tokens(bp.likelihoods.Categorical(), 2)
REAL = of_tokens(bp.likelihoods.Normal(0.5), 2)
BITS = of_tokens(bp.likelihoods.Bernoulli(), 1)


@pytest.mark.slow
def test_the_joint_density_sums_over_tokens() -> None:
    rng = np.random.default_rng(1)
    standard = {"kernel": rng.normal(size=(FEATURES, 2)), "bias": rng.normal(size=2)}
    priors = sum(scipy.stats.norm.logpdf(value).sum() for value in standard.values())
    logits = 0.7 * (X @ standard["kernel"] + standard["bias"])
    nats = scipy.special.log_softmax(logits, axis=-1)
    wanted = priors + sum(nats[i, t, LABELS[i, t]] for i in range(ROWS) for t in range(TOKENS))
    params = {name: jnp.asarray(value, jnp.float32) for name, value in standard.items()}
    found, sites = log_density(CLASSES.model, (X, LABELS), {}, params)
    assert sites["obs"]["fn"].batch_shape == (ROWS,) and sites["obs"]["fn"].event_shape == (TOKENS,)
    assert float(found) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_it_is_trained_predicted_and_judged_by_token(rng_key) -> None:
    assert CLASSES.output_shape == (TOKENS, 2) and CLASSES.num_outputs == 2
    data = bp.Dataset(X, LABELS)
    fit = bp.fit_svi(
        rng_key, CLASSES, data, num_steps=4, batch_size=3, optimizer=optax.adam(1e-2), estimator="local", eval_data=data,
        eval_every=2, eval_samples=2, progress=False,
    )  # fmt: skip
    assert np.isfinite(fit.losses).all()
    probs = bp.predict(rng_key, CLASSES, fit.params, X, num_samples=2)
    assert probs.shape == (ROWS, TOKENS, 2)
    np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
    figures = bp.evaluate(rng_key, CLASSES, fit.params, data, num_samples=2)
    assert figures["accuracy"] == pytest.approx(np.mean(probs.argmax(-1) == LABELS))
    told = np.take_along_axis(probs, LABELS[..., None], axis=-1)
    assert figures["nll"] == pytest.approx(-np.mean(np.log(told)), rel=1e-5)
    flat = bp.metrics.classification_summary(probs.reshape(-1, 2), LABELS.ravel())
    assert figures == flat


@pytest.mark.slow
def test_real_targets_of_tokens(rng_key) -> None:
    y = np.stack([X[..., 0], X[..., 1] - X[..., 2]], axis=-1)
    params = start(REAL)
    draws = bp.predict_draws(rng_key, REAL, params, X, num_samples=3)
    assert draws.shape == (3, ROWS, TOKENS, 2)
    np.testing.assert_allclose(bp.predict(rng_key, REAL, params, X, num_samples=3), draws.mean(0), rtol=1e-4, atol=1e-6)
    figures = bp.evaluate(rng_key, REAL, params, bp.Dataset(X, y), num_samples=3)
    density = scipy.stats.norm.pdf(y, draws.astype(np.float64), 0.5).prod(-1).mean(0)
    assert figures["nll"] == pytest.approx(-np.mean(np.log(density)), rel=1e-4)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((draws.mean(0) - y) ** 2)), rel=1e-4)


@pytest.mark.slow
def test_bits_of_tokens(rng_key) -> None:
    params = start(BITS)
    mean = bp.predict(rng_key, BITS, params, X, num_samples=3)
    assert mean.shape == (ROWS, TOKENS)
    assert bp.predict_draws(rng_key, BITS, params, X, num_samples=3).shape == (3, ROWS, TOKENS, 1)
    for y in (LABELS, LABELS[..., None]):
        figures = bp.evaluate(rng_key, BITS, params, bp.Dataset(X, y), num_samples=3)
        assert figures["accuracy"] == pytest.approx(np.mean((mean > 0.5) == LABELS))
        assert figures["brier"] == pytest.approx(np.mean((mean - LABELS) ** 2), rel=1e-5)


@pytest.mark.slow
def test_a_transformer_learns_a_label_for_every_patch(rng_key) -> None:
    """Which of the patches are bright, from pixels that say so plainly."""
    rng = np.random.default_rng(0)
    bright = rng.random((128, 2, 2)) < 0.5
    images = np.kron(2.0 * bright - 1.0, np.ones((2, 2)))[..., None] + 0.1 * rng.normal(size=(128, 4, 4, 1))
    data = bp.Dataset(images.astype(np.float32), bright.reshape(128, 4).astype(np.int32))
    net = bp.nets.ViT(2, 2, 4, 1, 2, 5, pool="none", frame=0)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4, 4, 1))
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=300, batch_size=32, optimizer=optax.adam(3e-2), progress=False)
    assert bp.evaluate(rng_key, bnn, fit.params, data, num_samples=10)["accuracy"] > 0.95


REFUSED = {
    "labels of rows": (CLASSES, LABELS[:, 0], r"\(6,\), but the network's outputs are \(rows, 3, 2\).*y of shape \(rows, 3\)"),
    "other tokens": (CLASSES, LABELS[:, :2], r"\(6, 2\), but the network's outputs are \(rows, 3, 2\)"),
    "reals of rows": (REAL, X[:, 0, :2], r"\(6, 2\), but the network's outputs are \(rows, 3, 2\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_targets_of_other_tokens_are_refused_at_the_door(case, rng_key) -> None:
    bnn, y, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        bp.fit_svi(rng_key, bnn, bp.Dataset(X, y), num_steps=1)
    with pytest.raises(ValueError, match=message):
        bp.evaluate(rng_key, bnn, {}, bp.Dataset(X, y))
