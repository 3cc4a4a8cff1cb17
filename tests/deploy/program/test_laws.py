"""The law of the weights against the network's own parameters at their means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import seed, trace

import bayesprune as bp
from bayesprune.deploy.program import laws

PRIORS = [
    bp.priors.Gaussian(0.5),
    bp.priors.Gaussian(0.5, centred=True),
    bp.priors.Flat(),
    bp.priors.ScaleMixture(),
    bp.priors.Cauchy(),
    bp.priors.GaussianSlab(),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_independent_gaussians_have_the_means_of_the_net(prior, rng_key) -> None:
    """Two ways to E[w]: a prior's factor with the log-normal moments of its scale, and its node's unit."""
    bnn = bp.BNN(bp.nets.MLP((3,), 2), prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(2,))
    sites = trace(seed(bnn.guide, rng_key)).get_trace(jnp.zeros((1, 2)))
    arrays = [name for name, site in sites.items() if site["type"] == "param" and not isinstance(site["value"], dict)]
    params = {name: sites[name]["value"] for name in arrays}
    keys = jax.random.split(rng_key, len(params))
    params = {
        name: value * jnp.exp(0.3 * jax.random.normal(key, jnp.shape(value)))
        for key, (name, value) in zip(keys, params.items(), strict=True)
    }
    assert laws.factorised(bnn, params)
    mask = {"Dense_0.kernel": np.array([[True, False, True], [True, True, False]])}
    expected = laws.gaussian(bnn, params, mask).mean()
    found = laws.means(bnn, params, mask)
    assert set(found) == set(expected) and any(np.abs(value).max() > 0 for value in found.values())
    for site, values in found.items():
        np.testing.assert_allclose(values, expected[site], rtol=1e-5)


@pytest.mark.parametrize("method", ["model", "guide"])
@pytest.mark.parametrize("prior", [bp.priors.Gaussian, bp.priors.Flat], ids=lambda prior: prior.__name__)
def test_a_prior_that_changes_another_one_does_not_speak_by_its_factor(prior, method) -> None:
    own = type("Own", (prior,), {method: lambda self, *given: getattr(super(type(self), self), method)(*given)})
    bnn = bp.BNN(bp.nets.MLP((3,), 2), prior=own(), likelihood=bp.likelihoods.Categorical(), input_shape=(2,))
    assert not laws.factorised(bnn, {})
