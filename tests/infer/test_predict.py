"""Prediction: the mean over posterior networks, whatever the blocks it is streamed in.

Failure budget: fixed keys; the one stochastic comparison allows five standard errors in each of 60 numbers, below 1e-4 had
the keys been random.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from numpyro.handlers import seed, trace
from numpyro.infer import Predictive

import bayesprune as bp
from bayesprune.infer import predict as module
from tests.infer import programs

X = programs.classes(rows=20).x


def start(bnn, scale=None) -> dict:
    """Parameters of a guide as they are before training; ``scale`` sets every scale."""
    sites = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
    params = {n: s["value"] for n, s in sites.items() if s["type"] == "param"}
    return params if scale is None else {n: jnp.full_like(v, scale) if n.endswith("_scale") else v for n, v in params.items()}


def tiny(hidden: int = 5, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Gaussian(0.7), "likelihood": bp.likelihoods.Categorical(), "input_shape": (4,)} | settings
    return bp.BNN(bp.nets.MLP(hidden=(hidden,), num_outputs=3), **chosen)


def by_hand(params, x, weight=0.7, mask=None) -> np.ndarray:
    """Softmax outputs of the net of `tiny` at the posterior's locations, in float64."""
    p = {n.removesuffix("_loc"): weight * np.asarray(v, np.float64) for n, v in params.items() if n.endswith("_loc")}
    p["Dense_0.kernel_auto"] = p["Dense_0.kernel_auto"] * (1.0 if mask is None else mask["Dense_0.kernel"])
    h = x @ p["Dense_0.kernel_auto"] + p["Dense_0.bias_auto"]
    logits = (h / (1 + np.exp(-h))) @ p["Dense_1.kernel_dense"] + p["Dense_1.bias_dense"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.slow
def test_a_posterior_without_width_predicts_what_its_net_does(rng_key) -> None:
    bnn = tiny()
    params = start(bnn, scale=0.0)
    probs = bp.predict(rng_key, bnn, params, X, num_samples=3)
    assert type(probs) is np.ndarray and probs.shape == (20, 3)
    np.testing.assert_allclose(probs, by_hand(params, X), rtol=1e-4)
    mask = {"Dense_0.kernel": np.arange(20).reshape(4, 5) % 3 > 0}
    cut = bp.predict(rng_key, bnn, params, X, num_samples=3, mask=mask)
    np.testing.assert_allclose(cut, by_hand(params, X, mask=mask), rtol=1e-4)
    assert np.abs(cut - probs).max() > 1e-2
    # Parameters with the dead at zero need no mask.
    written = params | {"Dense_0.kernel_auto_loc": params["Dense_0.kernel_auto_loc"] * mask["Dense_0.kernel"]}
    np.testing.assert_array_equal(bp.predict(rng_key, bnn, written, X, num_samples=3), cut)


@pytest.mark.slow
def test_it_is_the_mean_of_its_draws_and_that_of_numpyro(rng_key) -> None:
    bnn = tiny()
    params = start(bnn, scale=0.5)
    draws = bp.predict_draws(rng_key, bnn, params, X, num_samples=400)
    assert draws.shape == (400, 20, 3)
    np.testing.assert_allclose(bp.predict(rng_key, bnn, params, X, num_samples=400), draws.mean(0), rtol=1e-4)
    np.testing.assert_allclose(draws.sum(-1), 1.0, rtol=1e-5)
    # NumPyro draws the weights, NumPy runs the net.
    posterior = Predictive(bnn.guide, params=params, num_samples=4_000)(jax.random.key(7), X)
    w = {n: 0.7 * np.asarray(v, np.float64) for n, v in posterior.items()}
    h = np.einsum("rf,sfu->sru", X, w["Dense_0.kernel"]) + w["Dense_0.bias"][:, None]
    logits = np.einsum("sru,suo->sro", h / (1 + np.exp(-h)), w["Dense_1.kernel"]) + w["Dense_1.bias"][:, None]
    other = np.exp(logits - logits.max(-1, keepdims=True))
    other /= other.sum(-1, keepdims=True)
    error = np.sqrt(draws.var(0) / 400 + other.var(0) / 4_000)
    assert np.all(np.abs(draws.mean(0) - other.mean(0)) < 5 * error)
    # One network for all rows: two equal rows agree in every draw.
    twice = bp.predict_draws(rng_key, bnn, params, np.repeat(X[:1], 20, axis=0), num_samples=3)
    np.testing.assert_allclose(twice, np.broadcast_to(twice[:, :1], twice.shape), rtol=1e-5)
    assert np.ptp(twice[:, 0, 0]) > 1e-4


@pytest.mark.slow
def test_blocks_change_nothing(rng_key, monkeypatch) -> None:
    bnn = tiny()
    params = start(bnn, scale=0.5)
    whole = bp.predict(rng_key, bnn, params, X, num_samples=4), bp.predict_draws(rng_key, bnn, params, X, num_samples=2)
    monkeypatch.setattr(module, "_ROWS", 3)
    monkeypatch.setattr(module, "_CHUNKS", 2)
    assert [block.shape for block in module.blocks_of(X)] == [(2, 3, 4)] * 3 + [(1, 3, 4)]
    np.testing.assert_allclose(bp.predict(rng_key, bnn, params, X, num_samples=4), whole[0], rtol=1e-5)
    np.testing.assert_allclose(bp.predict_draws(rng_key, bnn, params, X, num_samples=2), whole[1], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "outputs", "shape"),
    [
        (bp.likelihoods.Normal(0.5), 2, (20, 2)),
        (bp.likelihoods.Bernoulli(), 1, (20,)),
    ],
)
def test_shapes_by_likelihood(likelihood, outputs, shape, rng_key) -> None:
    net = bp.nets.MLP(hidden=(3,), num_outputs=outputs)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(4,))
    params = start(bnn)
    assert bp.predict(rng_key, bnn, params, X, num_samples=2).shape == shape
    assert bp.predict_draws(rng_key, bnn, params, X, num_samples=2).shape == (2, 20, outputs)


def test_bytes_are_numbers_like_any_other(rng_key) -> None:
    class Shifted(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(2)((x - 200 * jnp.ones_like(x)) / 100.0)  # below zero, where bytes would wrap around

    net = bp.BNN(Shifted(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(0.5), input_shape=(4,))
    x = np.random.default_rng(0).integers(0, 256, (20, 4))
    as_bytes, as_floats = (bp.predict(rng_key, net, start(net), x.astype(kind)) for kind in (np.uint8, np.float32))
    np.testing.assert_allclose(as_bytes, as_floats, rtol=1e-5)


BAD = {
    "no net": (lambda bnn: ((programs.linear_program(), start(bnn), X), {}), TypeError, "bnn must be a bp.BNN, got Program"),
    "rows": (lambda bnn: ((bnn, start(bnn), X[:, :3]), {}), ValueError, r"x must have shape \(rows, 4\), got \(20, 3\)"),
    "nan": (
        lambda bnn: ((bnn, start(bnn), X * np.nan), {}),
        ValueError,
        r"x holds \d+ value\(s\) that are NaN",
    ),
    "infinite": (
        lambda bnn: ((bnn, start(bnn), X * np.inf), {}),
        ValueError,
        r"x holds .* NaN or infinite: drop or impute",
    ),
    "complex": (lambda bnn: ((bnn, start(bnn), X + 1j), {}), TypeError, "x must hold real numbers, got dtype complex"),
    "objects": (lambda bnn: ((bnn, start(bnn), X.astype(object)), {}), TypeError, "x must hold numbers, got dtype object"),
    "text": (lambda bnn: ((bnn, start(bnn), X.astype(str)), {}), TypeError, "x must hold numbers, got dtype <U"),
    "empty": (lambda bnn: ((bnn, start(bnn), X[:0]), {}), ValueError, "x is empty"),
    "draws": (lambda bnn: ((bnn, start(bnn), X), {"num_samples": 0}), ValueError, "num_samples must be an integer"),
    "map": (lambda bnn: ((bnn, start(tiny(posterior="map")), X), {}), ValueError, "params have no 'Dense_0.*another posterior"),
    "other net": (
        lambda bnn: ((bnn, start(tiny(hidden=6)), X), {}),
        ValueError,
        r"\(4, 6\).*has \(4, 5\): give the BNN",
    ),
    "mask": (
        lambda bnn: ((bnn, start(bnn), X), {"mask": {"Dense_7.kernel": np.ones(3, bool)}}),
        ValueError,
        "unknown site in mask",
    ),
    "mask shape": (
        lambda bnn: ((bnn, start(bnn), X), {"mask": {"Dense_0.bias": np.ones(3, bool)}}),
        ValueError,
        r"its site \(5,\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused(case, rng_key) -> None:
    make, kind, message = BAD[case]
    args, settings = make(tiny())
    with pytest.raises(kind, match=message):
        bp.predict(rng_key, *args, **settings)


def test_a_number_is_no_key() -> None:
    bnn = tiny()
    with pytest.raises(TypeError, match="rng_key must be a JAX random key"):
        bp.predict(0, bnn, start(bnn), X)


@pytest.mark.slow
def test_a_whole_fit_or_a_mask_without_sites_is_refused(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=1)
    with pytest.raises(TypeError, match=r"params must be parameters by name, got FitResult: give its \.params, and its \.mask"):
        bp.predict(rng_key, bnn, fit, data.x)
    with pytest.raises(TypeError, match=r"mask must map sites to booleans.*Dense_0\.kernel"):
        bp.predict(rng_key, bnn, fit.params, data.x, mask=np.ones((4, 8), bool))


@pytest.mark.slow
def test_params_of_another_prior_are_refused_by_their_units() -> None:
    """The same numbers would be another network, without a word."""
    one, other = (programs.small_bnn(prior=bp.priors.Gaussian(scale)) for scale in (0.8, 0.2))
    data = programs.classes(rows=30)
    fit = bp.fit_svi(jax.random.key(0), one, data, num_steps=3, progress=False)
    told = r"in units of 0\.8, and this network in units of 0\.2.*bp\.from_trained"
    for what in (
        lambda: bp.predict(jax.random.key(0), other, fit.params, data.x),
        lambda: bp.evaluate(jax.random.key(0), other, fit.params, data),
        lambda: other.net_params(fit.params),
        lambda: bp.compact(other, fit.params),
        lambda: bp.fit_svi(jax.random.key(0), other, data, num_steps=1, init_params=fit.params, progress=False),
    ):
        with pytest.raises(ValueError, match=told):
            what()
    plain = {name: value for name, value in fit.params.items() if "$" not in name}
    bp.fit_svi(jax.random.key(0), other, data, num_steps=1, init_params=plain, progress=False)  # who insists says no units


def test_complex_parameters_are_refused(rng_key) -> None:
    bnn = tiny()
    params = start(bnn)
    params = params | {name: np.asarray(value) + 1j for name, value in params.items() if name.endswith("_loc")}
    with pytest.raises(TypeError, match=r"params\['Dense_.*_loc'\] must hold real numbers, got complex"):
        bp.predict(rng_key, bnn, params, np.zeros((2, 4), np.float32), num_samples=1)
