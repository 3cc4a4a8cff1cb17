"""Likelihoods: densities against SciPy, means, shapes of targets, gradients in the tails, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from numpyro.handlers import seed, substitute, trace

import bayesprune as bp
from bayesprune.model.families import MeanFieldFamily
from bayesprune.model.likelihoods import Likelihood
from bayesprune.model.likelihoods.links import bounded

RNG = np.random.default_rng(0)
ONE, THREE = RNG.normal(size=(5, 1)), RNG.normal(size=(5, 3))
LABELS, BITS = np.array([0, 2, 1, 1, 0]), np.array([0, 1, 1, 0, 1])
TOKENS = RNG.normal(size=(5, 2, 3))
TOKEN_LABELS = np.stack([LABELS, LABELS[::-1]], axis=1)
COUNTS, SHARES = np.array([0, 3, 1, 9, 2]), np.array([0.1, 0.9, 0.5, 0.01, 0.7])
TOKEN_COUNTS, TOKEN_SHARES = np.stack([COUNTS, COUNTS[::-1]], 1), np.stack([SHARES, SHARES[::-1]], 1)
WEIGHTS, SMOOTHING = np.array([0.5, 2.0, 1.0]), 0.1


def smoothed(logits, labels) -> float:
    """(21.2), label by label and class by class."""
    total, log_probs = 0.0, logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for i, label in enumerate(labels):
        for c in range(logits.shape[-1]):
            share = (1 - SMOOTHING) * (c == label) + SMOOTHING / logits.shape[-1]
            total += WEIGHTS[c] * share * log_probs[i, c]
    return total


def scales(outputs) -> np.ndarray:
    return outputs + np.sqrt(1 + outputs**2)  # (21.3)


def shares(outputs, y, r) -> np.ndarray:
    """(21.6)"""
    m = 1 / (1 + np.exp(-outputs))
    return scipy.stats.beta.logpdf(y, r * m, r * (1 - m))


def spread_counts(outputs, y, r) -> np.ndarray:
    """(21.5): SciPy's counts failures before the r-th success."""
    return scipy.stats.nbinom.logpmf(y, r, r / (r + np.exp(outputs)))


CASES = {
    "classes": (
        bp.likelihoods.Categorical(), THREE, LABELS,
        scipy.special.log_softmax(THREE, axis=1)[np.arange(5), LABELS].sum(), scipy.special.softmax(THREE, axis=1),
    ),
    "bits": (
        bp.likelihoods.Bernoulli(), ONE, BITS,
        scipy.stats.bernoulli.logpmf(BITS, scipy.special.expit(ONE[:, 0])).sum(), scipy.special.expit(ONE[:, 0]),
    ),
    "many bits": (
        bp.likelihoods.Bernoulli(), THREE, THREE > 0.3,
        scipy.stats.bernoulli.logpmf(THREE > 0.3, scipy.special.expit(THREE)).sum(), scipy.special.expit(THREE),
    ),
    "reals": (
        bp.likelihoods.Normal(0.5), ONE, ONE[::-1, 0], scipy.stats.norm.logpdf(ONE[::-1, 0], ONE[:, 0], 0.5).sum(), ONE[:, 0],
    ),
    "labels of tokens": (
        bp.likelihoods.Categorical(), TOKENS, TOKEN_LABELS,
        sum(np.log(scipy.special.softmax(TOKENS[i, t])[TOKEN_LABELS[i, t]]) for i in range(5) for t in range(2)),
        scipy.special.softmax(TOKENS, axis=2),
    ),
    "bits of tokens": (
        bp.likelihoods.Bernoulli(), TOKENS[..., :1], TOKENS[..., 1] > 0,
        scipy.stats.bernoulli.logpmf(TOKENS[..., 1] > 0, scipy.special.expit(TOKENS[..., 0])).sum(),
        scipy.special.expit(TOKENS[..., 0]),
    ),
    "vectors of tokens": (
        bp.likelihoods.Normal(0.5), TOKENS, 2 * TOKENS, scipy.stats.norm.logpdf(2 * TOKENS, TOKENS, 0.5).sum(), TOKENS,
    ),
    "weighted and smoothed": (
        bp.likelihoods.Categorical(WEIGHTS, SMOOTHING), THREE, LABELS, smoothed(THREE, LABELS), scipy.special.softmax(THREE, 1),
    ),
    "weighted and smoothed tokens": (
        bp.likelihoods.Categorical(WEIGHTS, SMOOTHING), TOKENS, TOKEN_LABELS,
        smoothed(TOKENS.reshape(-1, 3), TOKEN_LABELS.ravel()), scipy.special.softmax(TOKENS, axis=2),
    ),
    "predicted noise": (
        bp.likelihoods.Normal("predicted"), THREE[:, :2], SHARES,
        scipy.stats.norm.logpdf(SHARES, THREE[:, 0], scales(THREE[:, 1])).sum(), THREE[:, 0],
    ),
    "predicted noise of tokens": (
        bp.likelihoods.Normal("predicted"), np.concatenate([TOKENS, 2 * TOKENS], -1), 3 * TOKENS,
        scipy.stats.norm.logpdf(3 * TOKENS, TOKENS, scales(2 * TOKENS)).sum(), TOKENS,
    ),
    "heavy tails": (  # (21.4)
        bp.likelihoods.StudentT(3.0, 0.5), ONE, 5 * ONE[::-1, 0],
        scipy.stats.t.logpdf(5 * ONE[::-1, 0], 3.0, ONE[:, 0], 0.5).sum(), ONE[:, 0],
    ),
    "heavy tails of tokens": (
        bp.likelihoods.StudentT(3.0, 0.5), TOKENS, 2 * TOKENS, scipy.stats.t.logpdf(2 * TOKENS, 3.0, TOKENS, 0.5).sum(), TOKENS,
    ),
    "counts": (
        bp.likelihoods.Poisson(), ONE, COUNTS, scipy.stats.poisson.logpmf(COUNTS, np.exp(ONE[:, 0])).sum(), np.exp(ONE[:, 0]),
    ),
    "counts of tokens": (
        bp.likelihoods.Poisson(), TOKENS[..., :1], TOKEN_COUNTS,
        scipy.stats.poisson.logpmf(TOKEN_COUNTS, np.exp(TOKENS[..., 0])).sum(), np.exp(TOKENS[..., 0]),
    ),
    "spread counts": (
        bp.likelihoods.NegativeBinomial(2.5), ONE, COUNTS, spread_counts(ONE[:, 0], COUNTS, 2.5).sum(), np.exp(ONE[:, 0]),
    ),
    "spread counts of tokens": (
        bp.likelihoods.NegativeBinomial(2.5), TOKENS[..., :2], np.stack([TOKEN_COUNTS] * 2, 1),
        spread_counts(TOKENS[..., :2], np.stack([TOKEN_COUNTS] * 2, 1), 2.5).sum(), np.exp(TOKENS[..., :2]),
    ),
    "shares": (
        bp.likelihoods.Beta(5.0), ONE, SHARES, shares(ONE[:, 0], SHARES, 5.0).sum(), scipy.special.expit(ONE[:, 0]),
    ),
    "shares of tokens": (
        bp.likelihoods.Beta(5.0), TOKENS[..., :1], TOKEN_SHARES, shares(TOKENS[..., 0], TOKEN_SHARES, 5.0).sum(),
        scipy.special.expit(TOKENS[..., 0]),
    ),
    "any distribution": (
        bp.likelihoods.Custom(lambda f: dist.Laplace(f[..., 0], 0.5)), ONE, SHARES,
        scipy.stats.laplace.logpdf(SHARES, ONE[:, 0], 0.5).sum(), ONE[:, 0],
    ),
    "any distribution of events": (
        bp.likelihoods.Custom(lambda f: dist.MultivariateNormal(f, 2.0 * jnp.eye(3))), THREE, 2 * THREE,
        sum(scipy.stats.multivariate_normal.logpdf(2 * f, f, 2.0 * np.eye(3)) for f in THREE), THREE,
    ),
    "any classes": (
        bp.likelihoods.Custom(lambda f: dist.Categorical(logits=f)), THREE, LABELS.astype(float),
        scipy.special.log_softmax(THREE, axis=1)[np.arange(5), LABELS].sum(), scipy.special.softmax(THREE, axis=1),
    ),
    "vectors": (bp.likelihoods.Normal(0.5), THREE, 2 * THREE, scipy.stats.norm.logpdf(2 * THREE, THREE, 0.5).sum(), THREE),
}  # fmt: skip


def log_likelihood(likelihood, outputs, y, **given):
    def density(outputs, y, given):
        site = trace(substitute(seed(likelihood.observe, 0), data=given)).get_trace(outputs, y)["obs"]
        return site["fn"].log_prob(site["value"])

    return jax.jit(density)(jnp.asarray(outputs), jnp.asarray(y), given)


FAST_TOKENS = ("labels of tokens", "bits of tokens", "vectors of tokens", "predicted noise of tokens")
SLOW = [name for name in CASES if name.endswith("tokens") and name not in FAST_TOKENS]


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in CASES])
def test_density_and_mean(case) -> None:
    likelihood, outputs, y, density, mean = CASES[case]
    found = log_likelihood(likelihood, outputs, y)
    assert found.shape == (5,), "one number for each row"
    assert float(found.sum()) == pytest.approx(density, rel=1e-5)
    np.testing.assert_allclose(jax.jit(likelihood.mean)(jnp.asarray(outputs)), mean, rtol=1e-5)
    assert isinstance(likelihood, Likelihood)
    likelihood.check(np.asarray(y, int if "bits" in case else None), outputs.shape[1:])


def ordinal(outputs, y, points) -> tuple[float, np.ndarray]:
    """(21.7): log density and probabilities, by differences in double precision."""
    up_to = scipy.special.expit(points - outputs[..., None])
    ends = np.zeros((*outputs.shape, 1))
    probs = np.diff(np.concatenate([ends, up_to, ends + 1], axis=-1))
    return np.log(np.take_along_axis(probs, y[..., None], -1)).sum(), probs


@pytest.mark.parametrize("tokens", [False, True])
def test_ordered_classes(tokens) -> None:
    likelihood, outputs, y = bp.likelihoods.Ordinal(4), TOKENS[..., 0] if tokens else ONE[:, 0], TOKEN_COUNTS % 4
    y, gaps = y if tokens else COUNTS % 4, np.array([0.5, 2.0])
    given = {"cut_gaps": jnp.asarray(gaps)}
    density, probs = ordinal(outputs, y, np.array([0.0, 0.5, 2.5]) - 1.0)
    assert float(log_likelihood(likelihood, outputs[..., None], y, **given).sum()) == pytest.approx(density, rel=1e-5)
    found = jax.jit(substitute(seed(likelihood.mean, 0), data=given))(jnp.asarray(outputs[..., None]))
    np.testing.assert_allclose(found, probs, rtol=1e-5)
    likelihood.check(y, (*outputs.shape[1:], 1))
    np.testing.assert_allclose(likelihood.read_cut_points({"cut_gaps_log_loc": np.log(gaps)}), [-1.0, -0.5, 1.5], rtol=1e-6)
    drawn = np.tile(gaps, (2, 5, 1)) * np.array([1.0, 1.0, 1.0, 0.5, 2.0])[:, None]
    np.testing.assert_allclose(likelihood.read_cut_points({"cut_gaps$draws": drawn}), [-1.0, -0.5, 1.5], rtol=1e-6)


LEARNED = {
    "gaps between classes": (bp.likelihoods.Ordinal(3, 4.0, 2.0), "cut_gaps", (4.0, 2.0)),
    "noise of heavy tails": (bp.likelihoods.StudentT(None), "noise_precision", (6.0, 6.0)),
    "their degrees of freedom": (bp.likelihoods.StudentT(None), "df", (2.0, 0.1)),
    "spread of counts": (bp.likelihoods.NegativeBinomial(), "concentration", (2.0, 0.1)),
    "width of shares": (bp.likelihoods.Beta(None, 3.0, 0.5), "concentration", (3.0, 0.5)),
    "of any distribution": (
        bp.likelihoods.Custom(lambda f, s: dist.Laplace(f[..., 0], s), learned={"s": dist.Gamma(2.0, 3.0)}), "s", (2.0, 3.0),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", LEARNED)
def test_what_is_learned_has_a_prior_and_a_guide(case) -> None:
    likelihood, name, (shape, rate) = LEARNED[case]
    site = trace(seed(likelihood.observe, 0)).get_trace(jnp.asarray(ONE), None)[name]
    expected = scipy.stats.gamma.logpdf(np.asarray(site["value"], np.float64), shape, scale=1 / rate)
    np.testing.assert_allclose(site["fn"].log_prob(site["value"]), expected, rtol=1e-4)
    guide = trace(seed(likelihood.guide, 0)).get_trace(MeanFieldFamily())
    assert guide[name]["type"] == "sample" and guide[name]["value"].shape == site["value"].shape


TAILS = {
    "predicted noise": (bp.likelihoods.Normal("predicted"), 2, [-1e3, 0.0]),
    "counts": (bp.likelihoods.Poisson(), 1, [0, 1000]),
    "shares": (bp.likelihoods.Beta(), 1, [1e-6, 1 - 1e-6]),
    "ordered": (bp.likelihoods.Ordinal(4), 1, [0, 1, 3]),
    "reals": (bp.likelihoods.Normal(0.5), 1, [-1e3, 1e3]),
    "heavy tails": (bp.likelihoods.StudentT(), 1, [-1e3, 1e3]),
    "spread counts": (bp.likelihoods.NegativeBinomial(), 1, [0, 1000]),
    "bits": (bp.likelihoods.Bernoulli(), 1, [0, 1]),
    "classes": (bp.likelihoods.Categorical(WEIGHTS, SMOOTHING), 3, [0, 2]),
}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("case", TAILS)
def test_densities_and_gradients_are_finite_far_out(case) -> None:
    likelihood, width, targets = TAILS[case]
    far = jnp.asarray([-1e4, -100.0, -30.0, 0.0, 30.0, 100.0, 1e4])
    outputs = jnp.tile(far[:, None], (1, width)) * jnp.asarray([1.0, -1.0, 0.5])[:width]
    loss = jax.jit(jax.value_and_grad(lambda f, y: log_likelihood(likelihood, f, y).sum()))
    for target in targets:
        value, slope = loss(outputs, jnp.full(len(far), target))
        assert np.isfinite(value) and np.isfinite(slope).all()


@pytest.mark.slow
def test_exponents_go_on_as_logarithms() -> None:
    """(21.1) in both tails: the exponential's tangent, and slopes that agree where the pieces meet."""
    np.testing.assert_allclose(bounded(jnp.asarray([-3.0, 0.0, 20.0])), [-3.0, 0.0, 20.0])
    far = np.array([25.0, 80.0, 1e4])
    np.testing.assert_allclose(np.exp(np.float64(bounded(jnp.asarray(far)))), np.exp(20.0) * (1 + far - 20), rtol=1e-4)
    np.testing.assert_allclose(bounded(jnp.asarray(-far)), -bounded(jnp.asarray(far)))
    slopes = jax.vmap(jax.grad(bounded))(jnp.asarray([19.99, 20.01, -19.99, -20.01, 1e4]))
    np.testing.assert_allclose(slopes, [1.0, 1 / 1.01, 1.0, 1 / 1.01, 1 / 9981.0], rtol=1e-3)


def test_balanced_weights_count_every_class_the_same() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    y = np.repeat([0, 1, 2], [50, 10, 3])
    weights = bp.likelihoods.Categorical.balanced(y).class_weights
    np.testing.assert_allclose(weights, compute_class_weight("balanced", classes=np.arange(3), y=y))
    assert hash(bp.likelihoods.Categorical(WEIGHTS)) == hash(bp.likelihoods.Categorical(tuple(WEIGHTS)))
    with pytest.raises(ValueError, match="no label of class 1"):
        bp.likelihoods.Categorical.balanced(np.array([0, 2]))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", ["bits", "reals"])
def test_a_column_of_targets_is_a_vector_of_them(case) -> None:
    likelihood, outputs, y, density, _ = CASES[case]
    assert float(log_likelihood(likelihood, outputs, y[:, None]).sum()) == pytest.approx(density, rel=1e-5)
    likelihood.check(y[:, None], (1,))


def test_learned_noise_is_a_gamma_precision() -> None:
    likelihood = bp.likelihoods.Normal()
    sites = trace(seed(likelihood.observe, 0)).get_trace(jnp.asarray(ONE), jnp.asarray(ONE[:, 0]))
    precision = sites["noise_precision"]
    at = scipy.stats.gamma.logpdf(float(precision["value"]), 6.0, scale=1 / 6)
    assert float(precision["fn"].log_prob(precision["value"])) == pytest.approx(at, rel=1e-5)
    np.testing.assert_allclose(sites["obs"]["fn"].scale, float(precision["value"]) ** -0.5, rtol=1e-6)
    guide = trace(seed(likelihood.guide, 0)).get_trace(MeanFieldFamily())
    assert guide["noise_precision"]["type"] == "sample"
    assert likelihood.read_noise_scale({"noise_precision_log_loc": jnp.log(4.0)}) == pytest.approx(0.5)
    assert bp.likelihoods.Normal(0.3).read_noise_scale({}) == 0.3


def test_without_targets_it_draws_them() -> None:
    with numpyro.handlers.seed(rng_seed=0):
        assert bp.likelihoods.Normal(0.5).observe(jnp.asarray(THREE), None).shape == (5, 3)
        assert bp.likelihoods.Bernoulli().observe(jnp.asarray(ONE), None).shape == (5,)


OUTPUTS = "but the network's outputs are "
BAD = {
    "rank": (bp.likelihoods.Categorical(), np.zeros((5, 1), int), (3,), ValueError, rf"{OUTPUTS}\(rows, 3\).* \(rows,\)"),
    "labels of rows": (bp.likelihoods.Categorical(), LABELS, (2, 3), ValueError, rf"{OUTPUTS}\(rows, 2, 3\).* \(rows, 2\)"),
    "label of a token": (bp.likelihoods.Categorical(), np.full((5, 2), 3), (2, 3), ValueError, "labels from 3 to 3.*3 outputs"),
    "reals as classes": (bp.likelihoods.Categorical(), np.zeros(5), (3,), TypeError, "integer class labels.*use Normal"),
    "label": (bp.likelihoods.Categorical(), np.array([0, 3]), (3,), ValueError, r"labels from 0 to 3.*\[0, 3\).*4 outputs"),
    "bit": (bp.likelihoods.Bernoulli(), np.array([0, 2]), (1,), ValueError, "only 0 and 1"),
    "bit columns": (bp.likelihoods.Bernoulli(), np.zeros((5, 2)), (3,), ValueError, rf"shape \(5, 2\), {OUTPUTS}\(rows, 3\)"),
    "columns": (bp.likelihoods.Normal(), np.zeros(5), (3,), ValueError, r"Normal compares with y of shape \(rows, 3\)"),
    "counts": (bp.likelihoods.Poisson(), np.array([1, -2]), (1,), ValueError, "whole numbers from 0, for Poisson, got -2"),
    "halves": (bp.likelihoods.NegativeBinomial(), np.array([0.5]), (1,), ValueError, "for NegativeBinomial, got 0.5.*StudentT"),
    "shares at 1": (bp.likelihoods.Beta(), np.array([0.5, 1.0]), (1,), ValueError, r"for Beta.*got 1.0.*\(rows - 1\) \+ 0.5"),
    "shares at 1 when rounded": (bp.likelihoods.Beta(), np.array([1 - 1e-9]), (1,), ValueError, "strictly between 0 and 1"),
    "one output for mean and noise": (bp.likelihoods.Normal("predicted"), np.zeros(2), (1,), ValueError, "num_outputs=2"),
    "targets of predicted noise": (bp.likelihoods.Normal("predicted"), np.zeros((2, 4)), (4,), ValueError, r"\(rows, 2\)"),
    "rank of order": (bp.likelihoods.Ordinal(3), np.array([0, 3]), (1,), ValueError, r"has 3 classes.*write Ordinal\(4\)"),
    "outputs of order": (bp.likelihoods.Ordinal(3), np.array([0, 2]), (3,), ValueError, "network of one output, got 3"),
    "class weights": (
        bp.likelihoods.Categorical((1, 2)),
        np.array([0, 2]),
        (3,),
        ValueError,
        "as many as the network's outputs, 3",
    ),
    "cube": (bp.likelihoods.Normal(), np.zeros((5, 2, 2)), (2, 1), ValueError, r"\(rows, 2\) or \(rows, 2, 1\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_targets_of_another_kind_are_refused(case) -> None:
    likelihood, y, outputs, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        likelihood.check(y, outputs)


WRONG = {
    "noise": (lambda: bp.likelihoods.Normal(0.0), "scale must be positive"),
    "negative noise": (lambda: bp.likelihoods.Normal(-1.0), "scale must be positive"),
    "noise that is no number": (lambda: bp.likelihoods.Normal(float("nan")), "scale must be positive"),
    "noise by another name": (lambda: bp.likelihoods.Normal("learned"), "or 'predicted'"),
    "noise that is a truth": (lambda: bp.likelihoods.Normal(np.bool_(True)), "scale must be positive"),
    "complex noise": (lambda: bp.likelihoods.Normal(1.0 + 1.0j), "scale must be positive"),
    "degrees": (lambda: bp.likelihoods.StudentT(0.0), "df must be positive"),
    "concentration": (lambda: bp.likelihoods.NegativeBinomial(-1.0), "concentration must be positive.*or None to learn it"),
    "width": (lambda: bp.likelihoods.Beta(float("inf")), "concentration must be positive"),
    "two ordered classes": (lambda: bp.likelihoods.Ordinal(2), "num_classes must be an integer of at least 3"),
    "weights by name": (lambda: bp.likelihoods.Categorical("balanced"), r"write Categorical.balanced\(y\)"),
    "negative weights": (lambda: bp.likelihoods.Categorical((1.0, -1.0)), "class_weights must be finite and not negative"),
    "weights of nothing": (lambda: bp.likelihoods.Categorical((0.0, 0.0)), "no label would count"),
    "complex weights": (
        lambda: bp.likelihoods.Categorical(np.array([1j, 2.0])),
        "class_weights must be finite and not negative",
    ),
    "smoothing": (lambda: bp.likelihoods.Categorical(label_smoothing=1.0), r"must lie in \[0, 1\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_refused(case) -> None:
    make, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_the_prior_of_the_noise_can_be_chosen() -> None:
    """Log density of the precision under Gamma(shape, rate), against SciPy."""
    site = trace(seed(bp.likelihoods.Normal(noise_shape=2.0, noise_rate=0.5).noise_scale, 0)).get_trace()["noise_precision"]
    expected = scipy.stats.gamma.logpdf(float(site["value"]), 2.0, scale=2.0)
    np.testing.assert_allclose(site["fn"].log_prob(site["value"]), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="noise_rate must be positive"):
        bp.likelihoods.Normal(noise_rate=0.0)
