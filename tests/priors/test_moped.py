"""The prior about trained weights, against SciPy; that evidence about zero is refused; the fit that starts there."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpyro.handlers import seed
from numpyro.infer.util import log_density
from tests.infer import programs

import bayesprune as bp

NET = bp.nets.MLP(hidden=(8, 6), num_outputs=3)


@functools.cache
def trained() -> dict:
    return NET.init(jax.random.key(1), jnp.ones((1, 4)))


@functools.cache
def small_bnn() -> bp.BNN:
    return programs.small_bnn(prior=bp.priors.moped(trained(), delta=0.2, floor=0.01))


@pytest.mark.slow
def test_the_density_is_that_of_the_formula() -> None:
    """(22.1), at weights of no pattern; biases, all 0 in a net that begins, have the floor."""
    rng = np.random.default_rng(0)
    values = {str(spec.path): rng.normal(size=spec.shape).astype(np.float32) for spec in small_bnn().layout}
    ours = log_density(seed(lambda: small_bnn().prior.model(small_bnn().layout), 0), (), {}, values)[0]
    theirs = 0.0
    for path, value in values.items():
        layer, kind = path.split(".")
        w0 = np.asarray(trained()["params"][layer][kind], np.float64)
        theirs += scipy.stats.norm.logpdf(value, w0, np.where(0.2 * abs(w0) > 0.01, 0.2 * abs(w0), 0.01)).sum()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.slow
def test_evidence_about_zero_is_refused_and_the_mean_is_the_trained_net() -> None:
    params = bp.from_trained(small_bnn(), trained())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), small_bnn().net_params(params), dict(trained()))
    with pytest.raises(ValueError, match="prior"):
        bp.bmr_prune(params)
    assert bp.prune_once(params, bp.methods.SNR(0.5)).mask["Dense_0.kernel"].mean() < 1


def test_other_networks_and_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"delta must be positive"):
        bp.priors.moped(trained(), delta=0.0)
    with pytest.raises(ValueError, match=r"another network: of 'Dense_0\.\w+', .*, it has none"):
        seed(programs.small_bnn(prior=bp.priors.moped({"w": np.ones(3)})).model, 0)(np.ones((1, 4), np.float32))


def test_priors_of_the_same_weights_are_the_same() -> None:
    again = programs.small_bnn(prior=bp.priors.moped(jax.tree.map(jnp.copy, trained()), delta=0.2, floor=0.01))
    assert again == small_bnn() and hash(again) == hash(small_bnn())
    assert programs.small_bnn(prior=bp.priors.moped(trained(), delta=0.1, floor=0.01)) != small_bnn()


@pytest.mark.slow
def test_a_fit_stays_about_the_weights_where_the_data_say_nothing(rng_key) -> None:
    """Of one row, posteriors stay within three prior deviations of w0, and their loss is finite."""
    data = programs.classes(rows=1)
    fit = bp.fit_svi(
        rng_key, small_bnn(), data, num_steps=200, init_params=bp.from_trained(small_bnn(), trained()), estimator="local"
    )
    w0 = np.asarray(trained()["params"]["Dense_0"]["kernel"])
    assert np.isfinite(fit.losses).all() and fit.losses[-50:].mean() < fit.losses[:5].mean()
    assert (abs(fit.params["Dense_0.kernel_auto_loc"] - w0) < 3 * np.maximum(0.2 * abs(w0), 0.01)).all()
