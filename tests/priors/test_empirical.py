"""priors.Empirical: the scales of a fit's prior, as the next fit's prior."""

import jax
import numpy as np
import pytest
from numpyro.handlers import seed, trace
from scipy import stats
from tests.infer import programs

import bayesprune as bp

NET = bp.nets.MLP((), 1)
ROWS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
LINE = bp.Dataset(ROWS, ROWS @ np.array([1.0, -0.1, 0.0], np.float32))
NOISE = 0.5


def line(prior, **settings) -> bp.BNN:
    return bp.BNN(NET, prior=prior, likelihood=bp.likelihoods.Normal(NOISE), input_shape=(3,), **settings)


def around(bnn: bp.BNN, weights: np.ndarray, share="unit"):
    """Laplace about given weights of the line, its bias zero."""
    trained = {"params": {"Dense_0": {"kernel": weights[:, None], "bias": np.zeros(1, np.float32)}}}
    return bp.laplace(jax.random.key(0), bnn, trained, LINE, prior_precision=share)


def test_it_has_the_scales_that_the_evidence_chose() -> None:
    """The precision of a linear layer by MacKay's fixed point, delta = gamma / sum w², of the same diagonal curvature."""
    weights = np.array([1.0, -0.1, 0.01], np.float32)
    prior = bp.priors.Empirical(around(line(bp.priors.Gaussian(), posterior="map"), weights, "layer"))
    kernel = prior.scale["Dense_0.kernel"]
    delta = 1 / np.broadcast_to(kernel, (3, 1)).ravel()[0] ** 2
    h = np.append((ROWS**2).sum(0), len(ROWS)) / NOISE**2  # the bias shares its layer's
    gamma = (h / (h + delta)).sum()
    assert delta == pytest.approx(gamma / (weights**2).sum(), rel=1e-3)


@pytest.mark.slow
def test_the_model_and_the_evidence_are_under_them(rng_key) -> None:
    fit = around(line(bp.priors.Gaussian(), posterior="map"), np.array([1.0, -0.1, 0.01], np.float32))
    prior = bp.priors.Empirical(fit)
    bnn, wide = line(prior), np.broadcast_to(prior.scale["Dense_0.kernel"], (3, 1))
    model = trace(seed(bnn.model, 0)).get_trace(ROWS)
    weights = np.asarray(model["Dense_0.kernel"]["value"])
    found = np.asarray(model["Dense_0.kernel"]["fn"].log_prob(weights)).sum()
    assert found == pytest.approx(stats.norm.logpdf(weights, 0, wide).sum(), rel=1e-5)
    fitted = bp.fit_svi(rng_key, bnn, LINE, num_steps=20, progress=False)
    node = bnn.posterior(fitted.params)["Dense_0.kernel"]
    by_hand = np.log(wide / np.asarray(node.scale)) - 0.5 * (np.asarray(node.loc) / np.asarray(node.scale)) ** 2
    np.testing.assert_allclose(node.gain(), by_hand, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_rounds_ascend_the_evidence() -> None:
    """Of the digits, 200 steps a round: the log evidence after each round is above that after the one before."""
    train, _ = bp.data.load("digits")
    under = lambda prior: bp.BNN(  # noqa: E731
        bp.nets.MLP((16,), 10), prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1), posterior="map"
    )
    bnn, start, found = under(bp.priors.Gaussian()), None, []
    for key in jax.random.split(jax.random.key(0), 3):
        fit = bp.fit_svi(key, bnn, train, num_steps=200, batch_size=64, init_params=start, progress=False)
        around = bp.laplace(key, bnn, fit, train, prior_precision="unit")
        trained, bnn = fit.net_params(bnn), under(bp.priors.Empirical(around))
        start = bp.from_trained(bnn, trained)
        found.append(-float(around.losses[-1]))
    assert found[0] < found[1] < found[2]


def test_what_says_no_prior_is_refused(rng_key) -> None:
    with pytest.raises(TypeError, match=r"fit must be a fit.* bp\.laplace"):
        bp.priors.Empirical(bp.BNN)
    with pytest.raises(ValueError, match=r"no Gaussian prior about zero of any weight"):
        bp.priors.Empirical(bp.Pruned({"w_auto_loc": np.ones(3), "w_auto_scale": np.ones(3)}, {}, None))
    trained = programs.small_bnn()
    fit = bp.fit_svi(rng_key, trained, programs.classes(), num_steps=2, progress=False)
    with pytest.raises(ValueError, match=r"another network: of 'Dense_0\.\w+'"):
        seed(line(bp.priors.Empirical(fit)).model, 0)(ROWS)
