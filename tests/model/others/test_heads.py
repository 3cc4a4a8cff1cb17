"""Nets of several outputs: one is chosen, or all go to one likelihood; a variational autoencoder in one net."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from flax import linen
from numpyro.infer.util import log_density

import bayesprune as bp
from bayesprune.model.likelihoods.targets import observe_rows

X = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
Y = np.arange(10) % 3


class Described(linen.Module):
    """The outputs, and what was on the way to them, by name."""

    @linen.compact
    def __call__(self, x):
        out = {"hidden": linen.tanh(linen.Dense(5)(x))}
        out["logits"] = linen.Dense(3)(out["hidden"])
        return out["logits"], out


class MeanAndScale(linen.Module):
    """Two heads of one trunk."""

    @linen.compact
    def __call__(self, x):
        h = linen.tanh(linen.Dense(5)(x))
        return {"mean": linen.Dense(1)(h), "log_scale": linen.Dense(1)(h), "idle": linen.Dense(2)(h)}


class ListOfRow(eqx.Module):
    linear: eqx.nn.Linear

    def __init__(self, key):
        self.linear = eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x):
        return [self.linear(x), x]


def build(net, likelihood=None, **settings) -> bp.BNN:
    given = bp.likelihoods.Categorical() if likelihood is None else likelihood
    return bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=given, input_shape=(4,), **settings)


def outputs_of(bnn: bp.BNN):
    rng = np.random.default_rng(1)
    weights = {str(spec.path): rng.normal(size=spec.shape).astype(np.float32) for spec in bnn.layout}
    return weights, bnn.forward(weights, {}, X)


def joint(bnn: bp.BNN, weights, y) -> float:
    """log p(y, weights) as NumPyro has it."""
    values = {site: jnp.asarray(value) for site, value in weights.items()}
    return float(jax.jit(lambda: log_density(bnn.model, (X, y), {}, values)[0])())


CHOICES = {"index": 0, "function": lambda out: out[1]["logits"], "of a list": 0}


@pytest.mark.parametrize("name", CHOICES)
def test_one_output_is_chosen(name) -> None:
    net = ListOfRow(jax.random.key(0)) if name == "of a list" else Described()
    bnn = build(net, output=CHOICES[name])
    weights, outputs = outputs_of(bnn)
    assert bnn.output_shape == (3,) and bnn == build(net, output=CHOICES[name])
    if name == "of a list":
        wanted = X @ weights["linear.weight"].T + weights["linear.bias"]
    else:
        hidden = np.tanh(X @ weights["Dense_0.kernel"] + weights["Dense_0.bias"])
        wanted = hidden @ weights["Dense_1.kernel"] + weights["Dense_1.bias"]
    np.testing.assert_allclose(outputs, wanted, rtol=1e-4, atol=1e-5)


def noisy(out):
    return dist.Normal(out["mean"][:, 0], jnp.exp(out["log_scale"][:, 0]))


HEADS = build(MeanAndScale(), bp.likelihoods.Custom(noisy), prunable=bp.select.everything)


def test_all_outputs_go_to_a_likelihood_that_takes_them() -> None:
    assert HEADS.output_shape == {"idle": (2,), "log_scale": (1,), "mean": (1,)} and HEADS.tokens == ()
    weights, out = outputs_of(HEADS)
    y = X[:, 0]
    found = joint(HEADS, weights, y)
    of_data = scipy.stats.norm.logpdf(y, out["mean"][:, 0], np.exp(out["log_scale"][:, 0])).sum()
    of_weights = sum(scipy.stats.norm.logpdf(value).sum() for value in weights.values())
    assert found == pytest.approx(of_data + of_weights, rel=1e-4)


def test_each_head_is_an_output_of_the_graph() -> None:
    """Without what the first head reads of it, a hidden unit is in use by the second."""
    kernels = {str(spec.path): np.ones(spec.shape, bool) for spec in HEADS.layout if spec.prunable}
    for head in ("Dense_1", "Dense_2", "Dense_3"):
        kernels[f"{head}.kernel"][0] = False
    kernels["Dense_1.kernel"][1] = False
    used = bp.connected(HEADS, kernels)["Dense_0.kernel"]
    assert not used[:, 0].any() and used[:, 1:].all()


@pytest.mark.slow
def test_heads_are_trained_and_judged(rng_key) -> None:
    data = bp.Dataset(X, X[:, 0])
    fit = bp.fit_svi(rng_key, HEADS, data, num_steps=2, estimator="local", progress=False)
    assert bp.predict(rng_key, HEADS, fit.params, X, num_samples=3).shape == (10,)
    assert np.isfinite(list(bp.evaluate(rng_key, HEADS, fit.params, data, num_samples=3).values())).all()
    small = bp.compact(HEADS, fit.params)
    assert small.certify().holds and small.predict(X).shape == (10,)


class Autoencoder(linen.Module):
    """Encoder and decoder in one: a code is drawn in training, and its mean taken in prediction."""

    @linen.compact
    def __call__(self, x, train: bool = False):
        h = linen.tanh(linen.Dense(5)(x))
        mean, log_scale = linen.Dense(2)(h), linen.Dense(2)(h)
        code = mean + jnp.exp(log_scale) * jax.random.normal(self.make_rng("code"), mean.shape) if train else mean
        return linen.Dense(4)(linen.tanh(linen.Dense(5)(code))), mean, log_scale


class Reconstruction:
    """Rows of unit noise about what is decoded; each row's code costs its divergence from N(0, 1)."""

    heads: ClassVar[bool] = True

    def observe(self, outputs, y):
        decoded, mean, log_scale = outputs
        nats = 0.5 * (jnp.exp(2 * log_scale) + mean**2 - 1) - log_scale
        numpyro.factor("codes", -nats.sum())
        return observe_rows(dist.Normal(decoded, 1.0), y)

    def guide(self, family):
        pass

    def mean(self, outputs):
        return outputs[0]

    def check(self, y, output_shape):
        assert y.shape[1:] == output_shape[0]


def test_an_autoencoder_is_one_net_and_its_likelihood() -> None:
    """The log density of rows given weights: SciPy's, and the divergence by quadrature over the codes."""
    bnn = build(Autoencoder(), Reconstruction())
    weights, (decoded, mean, log_scale) = outputs_of(bnn)
    points = np.linspace(-60, 60, 24_001)
    codes = 0.0
    for at, scale in zip(np.ravel(mean), np.exp(np.ravel(log_scale)), strict=True):
        grid = at + scale * points / 6
        density = scipy.stats.norm.pdf(grid, at, scale)
        ratio = scipy.stats.norm.logpdf(grid, at, scale) - scipy.stats.norm.logpdf(grid)
        codes += np.trapezoid(density * ratio, grid)
    found = joint(bnn, weights, X)
    of_weights = sum(scipy.stats.norm.logpdf(value).sum() for value in weights.values())
    wanted = scipy.stats.norm.logpdf(X, decoded).sum() - codes + of_weights
    assert found == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_an_autoencoder_is_trained_and_predicts(rng_key) -> None:
    bnn = build(Autoencoder(), Reconstruction())
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, X), num_steps=2, progress=False)
    assert np.isfinite(fit.losses).all()
    found = bp.predict(rng_key, bnn, fit.params, X, num_samples=2)
    assert found.shape == (10, 4) and np.array_equal(found, bp.predict(rng_key, bnn, fit.params, X, num_samples=2))


REFUSED = {
    "several to one": (Described, {}, TypeError, r"several outputs.*Categorical takes one.*output=.*Custom"),
    "no such index": (Described, {"output": 2}, ValueError, r"output=2 is no entry.*has \[0, 1\]"),
    "no index": (Described, {"output": True}, ValueError, r"output=True is no entry.*has \[0, 1\]"),
    "no such name": (MeanAndScale, {"output": "sd"}, ValueError, r"output='sd'.*\['mean', 'log_scale', 'idle'\]"),
    "an entry of one": (lambda: linen.Dense(3), {"output": 0}, ValueError, "is one array"),
    "no array": (Described, {"output": lambda out: "logits"}, TypeError, "arrays of outputs"),
    "a sum over rows": (
        Described, {"output": lambda out: (out[0], out[0].sum())}, ValueError, r"output\[1\] has shape \(\) for one row",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_likelihood_takes_is_refused(name) -> None:
    make, settings, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        build(make(), **settings)
