"""What the best constants leave, against SciPy's densities at the best constants that a search finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from numpyro.handlers import seed, substitute, trace

import bayesprune as bp
from bayesprune.model.likelihoods import learned

RNG = np.random.default_rng(0)
L = bp.likelihoods
LABELS = np.array([0, 2, 1, 1, 0, 0, 2, 0])
BITS = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 0], [1, 0, 0]])
REALS = RNG.normal(3.0, [1.0, 0.2, 5.0], size=(9, 3))
ERRORS = RNG.uniform(0.3, 2.0, size=(9, 3))
COUNTS = RNG.poisson([2.0, 30.0], size=(7, 2))
WEIGHTS = (0.5, 2.0, 1.0, 3.0)


def least(loss, size) -> float:
    """The minimum of a smooth convex function that a search finds from zeros."""
    return float(scipy.optimize.minimize(loss, np.zeros(size), method="BFGS", options={"gtol": 1e-9}).fun)


def of_classes(labels, classes, weights=None, smoothing=0.0):
    weights = np.ones(classes) if weights is None else np.array(weights)
    target = (1 - smoothing) * np.eye(classes)[np.ravel(labels)] + smoothing / classes
    return least(lambda f: -np.sum(weights * target * scipy.special.log_softmax(f)), classes)


def of_normals(y, scales):
    """``scales``: a function of three more constants."""
    loss = lambda c: -scipy.stats.norm.logpdf(y, c[:3], scales(c[3:])).sum()  # noqa: E731
    return least(loss, 6)


CASES = {
    "classes": (L.Categorical(), LABELS, of_classes(LABELS, 3)),
    "classes of tokens": (L.Categorical(), LABELS.reshape(4, 2), of_classes(LABELS, 3)),
    "weighted": (L.Categorical(WEIGHTS), LABELS, of_classes(LABELS, 4, WEIGHTS)),
    "smoothed": (L.Categorical(label_smoothing=0.2), LABELS, of_classes(LABELS, 3, None, 0.2)),
    "weighted and smoothed": (L.Categorical(WEIGHTS, 0.2), LABELS, of_classes(LABELS, 4, WEIGHTS, 0.2)),
    "ordered": (L.Ordinal(3), LABELS, of_classes(LABELS, 3)),
    "bits": (L.Bernoulli(), BITS[:, 0], of_classes(BITS[:, 0], 2)),
    "a column of bits": (L.Bernoulli(), BITS[:, :1], of_classes(BITS[:, 0], 2)),
    "many bits": (L.Bernoulli(), BITS, of_classes(BITS[:, 0], 2) + of_classes(BITS[:, 1], 2)),
    "booleans": (L.Bernoulli(), BITS[:, 0] > 0, of_classes(BITS[:, 0], 2)),
    "known noise": (L.Normal(0.7), REALS, of_normals(REALS, lambda c: 0.7)),
    "learned noise": (L.Normal(), REALS, of_normals(REALS, np.exp)),
    "learned noise of all": (L.Normal(noise="shared"), REALS, of_normals(REALS, lambda c: np.exp(c[0]))),
    "known noise of rows": (L.Normal(noise="known"), np.hstack([REALS, ERRORS]), of_normals(REALS, lambda c: ERRORS)),
    "predicted noise": (L.Normal("predicted"), REALS, of_normals(REALS, np.exp)),
    "tokens of reals": (L.Normal(0.7), REALS.reshape(3, 3, 3), of_normals(REALS, lambda c: 0.7)),
    "one column": (L.Normal(), REALS[:, 0], -scipy.stats.norm.logpdf(REALS[:, 0], *scipy.stats.norm.fit(REALS[:, 0])).sum()),
    "counts": (L.Poisson(), COUNTS, least(lambda f: -scipy.stats.poisson.logpmf(COUNTS, np.exp(f)).sum(), 2)),
    "a column of zeros": (
        L.Poisson(), COUNTS * np.array([1, 0]), least(lambda f: -scipy.stats.poisson.logpmf(COUNTS[:, 0], np.exp(f)).sum(), 1),
    ),
    "spread counts": (
        L.NegativeBinomial(2.5), COUNTS,
        least(lambda f: -scipy.stats.nbinom.logpmf(COUNTS, 2.5, 2.5 / (2.5 + np.exp(f))).sum(), 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_best_constants(case) -> None:
    likelihood, y, expected = CASES[case]
    for same in (y, jnp.asarray(y)):
        assert likelihood.baseline(same) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("case", ["weighted and smoothed", "many bits", "known noise", "predicted noise", "spread counts"])
def test_no_outputs_without_inputs_do_better_by_its_own_density(case) -> None:
    """By `observe`, in single precision, at constants about the best ones and at the best ones."""
    likelihood, y, _ = CASES[case]
    width = {"weighted and smoothed": 4, "predicted noise": 6}.get(case, np.shape(y)[-1])

    @jax.jit
    def loss(f):
        site = trace(seed(likelihood.observe, 0)).get_trace(jnp.tile(f, (len(y), 1)), jnp.asarray(y))["obs"]
        return -site["fn"].log_prob(site["value"]).sum()

    losses = [float(loss(jnp.asarray(f, jnp.float32))) for f in RNG.normal(0.0, 2.0, size=(200, width))]
    best = likelihood.baseline(y)
    assert min(losses) > best - 1e-4 * abs(best)
    found = scipy.optimize.minimize(lambda f: float(loss(jnp.asarray(f, jnp.float32))), np.zeros(width), method="Powell").fun
    assert found == pytest.approx(best, rel=2e-3, abs=0.02)


def test_ordered_classes_reach_their_frequencies() -> None:
    """Some output and some gap give (21.7) the frequencies: the baseline is of the family, not below it."""
    site = trace(substitute(seed(L.Ordinal(3).observe, 0), data={"cut_gaps": jnp.asarray([np.log(3.0)])})).get_trace(
        jnp.full((8, 1), -np.log(3.0) / 2), jnp.asarray(LABELS)
    )["obs"]
    assert -float(site["fn"].log_prob(LABELS).sum()) == pytest.approx(L.Ordinal(3).baseline(LABELS), rel=1e-5)


NONE = {
    "one class": (L.Categorical(label_smoothing=0.1), np.ones(5, int)),
    "one bit": (L.Bernoulli(), np.array([[0, 1], [0, 1]])),
    "one rank": (L.Ordinal(3), np.ones(5, int)),
    "one number": (L.Normal(), np.full(3, 0.1)),
    "one number and known noise": (L.Normal(0.1), np.full(3, 0.1)),
    "one constant output of predicted noise": (L.Normal("predicted"), REALS * np.array([1, 0, 1])),
    "one constant output of learned noise": (L.Normal(), REALS * np.array([1, 0, 1])),
    "one number with known noise": (L.Normal(noise="known"), np.column_stack([np.full(3, 0.1), [1.0, 2.0, 3.0]])),
    "one count": (L.Poisson(), np.full(3, 4)),
    "a spread that is learned": (L.NegativeBinomial(), COUNTS),
}


@pytest.mark.parametrize("case", NONE)
def test_where_there_is_none(case) -> None:
    likelihood, y = NONE[case]
    assert likelihood.baseline(y) is None


@pytest.mark.parametrize(("shape", "rate", "rows"), [(6.0, 6.0, 12), (6.0, 6.0, 354), (1.0, 1e-3, 50)])
def test_the_spread_at_which_the_prior_doubles_the_noise(shape, rate, rows) -> None:
    """(21.14) by quadrature over the precision of noise whose residuals are the targets themselves."""
    variance = learned.least_spread(shape, rate, rows) ** 2
    assert L.Normal(noise_shape=shape, noise_rate=rate).least_spread(rows) == variance**0.5
    log_c = np.linspace(-15, 25, 400_001)
    log_density = scipy.stats.gamma.logpdf(np.exp(log_c), shape, scale=1 / rate) + log_c
    log_density += 0.5 * rows * (log_c - np.exp(log_c) * variance)
    weights = scipy.special.softmax(log_density)
    assert 1 / (weights @ np.exp(log_c)) == pytest.approx(2 * variance, rel=1e-6)


def test_a_scale_that_is_given_has_no_least_spread() -> None:
    for likelihood in (L.Normal(0.1), L.Normal("predicted"), L.StudentT(scale=0.1), L.Custom(lambda f: f)):
        assert likelihood.least_spread(100) == 0.0
    assert L.StudentT().least_spread(100) == L.Normal().least_spread(100) > 0
