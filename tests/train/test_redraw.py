"""Dead weights drawn anew from their prior: their law, and what stays."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from tests.infer import programs

import bayesprune as bp
from bayesprune.model.samples import current_sample
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels import sghmc, sgld
from bayesprune.train.recipe import make_recipe
from bayesprune.train.renewal import check_chain, redraw
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Carry

LAWS = {
    "Gaussian": (bp.priors.Gaussian(0.3, centred=True), scipy.stats.norm(scale=0.3)),
    "Cauchy": (bp.priors.Cauchy(0.2, centred=True), scipy.stats.cauchy(scale=0.2)),
    "Flat": (bp.priors.Flat(), scipy.stats.norm()),  # of w_hat, whatever the scale is
    "Horseshoe": (bp.priors.Horseshoe(), scipy.stats.norm()),
}


class Normed(nn.Module):
    """Running statistics, and parameters that no prior covers."""

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(400)(x))
        return nn.Dense(3)(nn.relu(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_the_dead_are_drawn_from_the_prior_and_the_living_stay(rng_key, name) -> None:
    """800 dead weights: Kolmogorov and Smirnov, refused below 1e-4. Of another step other draws; all else to the bit."""
    prior, law = LAWS[name]
    bnn = bp.BNN(
        Normed(), prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(4,), prunable=bp.select.everything
    )
    bnn = bnn.under(current_sample(bnn.family))
    data = programs.classes()
    example = Example.of(data)
    recipe = make_recipe(
        bnn, example, 60, optimizer=sgld.SGLD(1e-6), sparsifier=KeepAll(), kl_weight=bp.schedules.Constant(1.0),
        estimator="weight", num_particles=1,
    )  # fmt: skip
    sites = sites_of(bnn, example)
    params, mutable = sites.initial(rng_key, data)
    zero = jnp.zeros((), jnp.int32)
    carry = Carry(params, (), mutable, zero, rng_key, (), zero)
    mask = {
        site: jnp.ones(jnp.shape(node.loc), bool)
        for site, node in bnn.read(sites.constrain(params) | bnn.describe(params)).items()
    }
    mask["Dense_0.kernel"] = jnp.arange(1600).reshape(4, 400) % 2 == 0
    act = jax.jit(lambda carry: redraw(recipe, sites, example, carry, mask))
    one, other = act(carry), act(carry._replace(step=zero + 1))
    key = next(n for n in params if n.startswith("Dense_0.kernel"))
    alive = np.asarray(mask["Dense_0.kernel"])
    for n, value in params.items():
        found = np.asarray(one.params[n])
        np.testing.assert_array_equal(found[alive] if n == key else found, np.asarray(value)[alive] if n == key else value)
    dead, again = np.asarray(one.params[key])[~alive], np.asarray(other.params[key])[~alive]
    assert not np.isin(dead, again).any() and len(np.unique(dead)) == 800
    assert scipy.stats.kstest(dead, law.cdf).pvalue > 1e-4
    assert not np.isin(dead, np.asarray(params[key])).any()


@pytest.mark.slow
def test_a_momentum_without_gradient_has_its_own_law_already(rng_key) -> None:
    """What `redraw` leaves in the kernel: of SGHMC N(0, eps/(1 - alpha/2)), 4,000 of them after 100 steps."""
    kernel = sghmc.SGHMC(step_size=1e-2, friction=0.3)
    params = {"w": jnp.zeros(4000)}

    def step(carry, key):
        return kernel.step(key, {"w": jnp.zeros(4000)}, *carry), None

    (_, state), _ = jax.lax.scan(step, (params, kernel.init(params)), jax.random.split(rng_key, 100))
    scale = np.sqrt(1e-2 / (1 - 0.3 / 2))
    assert scipy.stats.kstest(np.asarray(state.momentum["w"]), scipy.stats.norm(scale=scale).cdf).pvalue > 1e-4


def test_kernels_that_sample_no_posterior_are_refused() -> None:
    check_chain(sgld.SGLD(), KeepAll())
    check_chain(sghmc.SGHMC(num_cycles=3), KeepAll())
    with pytest.raises(ValueError, match="KeepAll accepts its moves by the odds of the posterior itself, and nothing"):
        check_chain(bp.kernels.Optax(None), KeepAll())
    with pytest.raises(ValueError, match="temperature is 0: leave it at 1"):
        check_chain(sgld.SGLD(temperature=0), KeepAll())
