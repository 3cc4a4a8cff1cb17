"""`bp.uncertainty`: two parts that add up, beside SciPy's entropies, and where the parts are known by closed form."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

import bayesprune as bp
from bayesprune.infer import uncertainty as module

L = bp.likelihoods
RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 2)).astype(np.float32)
KEY = jax.random.key(1)


def drawn(likelihood, outputs=1, spread=0.5, num=40):
    """A linear network, its posterior so many stored samples, and the outputs of each."""
    bnn = bp.BNN(bp.nets.MLP((), outputs), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(2,))
    weights = {
        "Dense_0.kernel": RNG.normal(1.0, spread, (num, 2, outputs)),
        "Dense_0.bias": RNG.normal(0.0, spread, (num, outputs)),
    }
    return bnn, bp.stored_samples(bnn, weights), X @ weights["Dense_0.kernel"] + weights["Dense_0.bias"][:, None]


def check(parts, total, aleatoric):
    np.testing.assert_allclose(parts.total, total, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(parts.aleatoric, aleatoric, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(parts.total, parts.aleatoric + parts.epistemic, rtol=1e-12)
    assert (parts.epistemic >= 0).all()


def test_of_classes_it_is_entropy_and_mutual_information() -> None:
    """(21.15)"""
    bnn, params, outputs = drawn(L.Categorical(), 3)
    p = scipy.special.softmax(outputs, -1)
    parts = bp.uncertainty(KEY, bnn, params, X)
    check(parts, scipy.stats.entropy(p.mean(0), axis=-1), scipy.stats.entropy(p, axis=-1).mean(0))
    # I(y; w | x) as the divergence of the joint law of label and network from the product of its margins.
    joint, apart = p / len(p), p.mean(0)[None] / len(p)
    np.testing.assert_allclose(parts.epistemic, np.sum(joint * np.log(joint / apart), axis=(0, 2)), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("outputs", [1, 2])
def test_of_bits_each_label_has_its_own(outputs) -> None:
    bnn, params, f = drawn(L.Bernoulli(), outputs)
    p = scipy.special.expit(f)
    squeeze = lambda values: values[..., 0] if outputs == 1 else values  # noqa: E731
    wanted = (scipy.stats.bernoulli(p.mean(0)).entropy(), scipy.stats.bernoulli(p).entropy().mean(0))
    check(bp.uncertainty(KEY, bnn, params, X), *map(squeeze, wanted))


LAWS = {
    "normal": (L.Normal(0.3), 1, lambda f: (f[..., 0], 0.09)),
    "several": (L.Normal(0.3), 2, lambda f: (f, 0.09)),
    "predicted": (L.Normal("predicted"), 2, lambda f: (f[..., 0], np.exp(2 * np.arcsinh(f[..., 1])))),
    "counts": (L.Poisson(start=3.0), 1, lambda f: (3 * np.exp(f[..., 0]), 3 * np.exp(f[..., 0]))),
    "tails": (L.StudentT(4.0, 0.5), 1, lambda f: (f[..., 0], 0.5)),
    "any": (L.Custom(lambda f: dist.Gamma(2.0, jax.numpy.exp(-f[..., 0]))), 1,
            lambda f: (2 * np.exp(f[..., 0]), 2 * np.exp(2 * f[..., 0]))),
    "masked": (L.Masked(L.Normal(0.3)), 1, lambda f: (f[..., 0], 0.09)),
}  # fmt: skip


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("law", LAWS)
def test_of_numbers_it_is_the_law_of_total_variance(law, monkeypatch) -> None:
    """(21.16)"""
    likelihood, outputs, moments = LAWS[law]
    monkeypatch.setattr(module, "NUMBERS", 3 * 40 * outputs)  # three rows at once
    bnn, params, f = drawn(likelihood, outputs)
    mean, variance = moments(f)
    noise = np.broadcast_to(variance, mean.shape).mean(0)
    check(bp.uncertainty(KEY, bnn, params, X), mean.var(0) + noise, noise)


@pytest.mark.slow
def test_more_data_lessen_what_comes_of_the_network_alone() -> None:
    """A conjugate model: the epistemic variance of 10 and 1,000 rows differs by about 100; aleatoric stays."""
    found = []
    for rows in (10, 1000):
        x = RNG.normal(size=(rows, 2)).astype(np.float32)
        data = bp.Dataset(x, (x[:, 0] + 0.5 * RNG.normal(size=rows)).astype(np.float32))
        bnn = bp.BNN(bp.nets.MLP((), 1), prior=bp.priors.Gaussian(), likelihood=L.Normal(0.5), input_shape=(2,))
        fit = bp.fit_svi(KEY, bnn, data, num_steps=600, progress=False)
        found.append(bp.uncertainty(KEY, bnn, fit.params, X, num_samples=200))
    assert (found[0].aleatoric == found[1].aleatoric).all()
    assert 20 < found[0].epistemic.mean() / found[1].epistemic.mean() < 500
    small = bp.uncertainty(KEY, bp.compact(bnn, fit.params), None, X, num_samples=2000)
    np.testing.assert_allclose(small.aleatoric, 0.25, rtol=1e-5)
    np.testing.assert_allclose(small.epistemic, found[1].epistemic, rtol=0.5)


def test_what_has_no_such_parts_is_refused() -> None:
    bnn, params, _ = drawn(L.Normal(noise="known"))
    with pytest.raises(TypeError, match=r"does not say the distribution of new targets.*predict_draws"):
        bp.uncertainty(KEY, bnn, params, X)
    bnn, params, _ = drawn(L.Poisson())
    with pytest.raises(TypeError, match="give the BNN with its parameters"):
        bp.uncertainty(KEY, bp.compact(bnn, params), None, X)
    odd = L.Custom(lambda f: dist.CategoricalLogits(f), mean_of=lambda f: f)
    bnn, params, _ = drawn(odd, 3)
    with pytest.raises(TypeError, match="no probability of each"):
        bp.uncertainty(KEY, bnn, params, X)
    with pytest.raises(TypeError, match="rng_key must be a JAX random key"):
        bp.uncertainty(0, bnn, params, X)
