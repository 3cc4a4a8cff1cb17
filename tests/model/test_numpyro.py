"""Our models in NumPyro's hands, and NumPyro's models in ours."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from flax import linen, nnx
from numpyro.contrib.module import random_eqx_module, random_flax_module, random_nnx_module
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceMeanField_ELBO, log_likelihood
from numpyro.infer.autoguide import AutoNormal
from tests.infer import programs

import bayesprune as bp
from bayesprune.model.elbo import MeanFieldELBO

DATA = programs.classes(rows=12)
LINE, _ = programs.line()


def small() -> bp.BNN:
    net = bp.nets.MLP(hidden=(3,), num_outputs=3)
    return bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "elbo", [Trace_ELBO(), TraceMeanField_ELBO(), MeanFieldELBO(), bp.LocalELBO()], ids=lambda e: type(e).__name__
)
def test_numpyros_svi_trains_our_model(elbo, rng_key) -> None:
    bnn = small()
    result = SVI(bnn.model, bnn.guide, optax.adam(1e-2), elbo).run(rng_key, 2, DATA.x, DATA.y, progress_bar=False)
    assert np.all(np.isfinite(result.losses))
    assert set(bp.bmr_prune(result.params).mask) == {"Dense_0.kernel", "Dense_0.bias"}


@pytest.mark.slow
def test_predictive_and_log_likelihood(rng_key) -> None:
    bnn = small()
    prior = Predictive(bnn.model, num_samples=3)(rng_key, DATA.x)
    assert prior["obs"].shape == (3, 12) and prior["Dense_0.kernel"].shape == (3, 4, 3)
    params = bp.fit_svi(rng_key, bnn, DATA, num_steps=1).params
    pruned = bp.bmr_prune(params, mask={"Dense_0.bias": np.array([False, True, False])}).params
    posterior = Predictive(bnn.guide, params=pruned, num_samples=3)(rng_key, DATA.x)
    assert np.all(np.asarray(posterior["Dense_0.bias"])[:, [0, 2]] == 0.0), "the pruned are zero without a mask"
    drawn = Predictive(bnn.model, guide=bnn.guide, params=pruned, num_samples=3)(rng_key, DATA.x)
    assert drawn["obs"].shape == (3, 12)
    densities = log_likelihood(bnn.model, posterior, DATA.x, DATA.y)["obs"]
    assert densities.shape == (3, 12) and np.all(np.asarray(densities) < 0)


@pytest.mark.slow
def test_nuts_samples_our_model(rng_key) -> None:
    net = bp.nets.MLP(hidden=(2,), num_outputs=3)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    sampler = MCMC(NUTS(bnn.model, max_tree_depth=2), num_warmup=3, num_samples=4, progress_bar=False)
    sampler.run(rng_key, DATA.x, DATA.y)
    samples = sampler.get_samples()
    assert samples["Dense_0.kernel"].shape == (4, 4, 2)
    assert all(np.all(np.isfinite(leaf)) for leaf in samples.values())
    assert Predictive(bnn.model, samples)(rng_key, DATA.x)["obs"].shape == (4, 12)


def flax_net(x):
    return random_flax_module("nn", linen.Dense(1), dist.Normal(), input_shape=(3,))(x)[:, 0]


def nnx_net(x):
    return random_nnx_module("nn", nnx.Linear(3, 1, rngs=nnx.Rngs(0)), dist.Normal())(x)[:, 0]


def eqx_net(x):
    return jax.vmap(random_eqx_module("nn", eqx.nn.Linear(3, 1, key=jax.random.key(0)), dist.Normal()))(x)[:, 0]


KERNEL = {"flax": "nn/kernel", "nnx": "nn/kernel", "equinox": "nn/weight"}


def module_program(net) -> bp.Program:
    def model(x, y=None):
        outputs = net(x)
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("obs", dist.Normal(outputs, programs.NOISE), obs=y)

    return bp.Program(model, AutoNormal(model))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "net"), [("flax", flax_net), ("nnx", nnx_net), ("equinox", eqx_net)], ids=list(KERNEL))
def test_random_modules_are_fitted_and_pruned_and_keep_their_params_entry(kind, net, rng_key) -> None:
    program, kernel = module_program(net), KERNEL[kind]
    fit = bp.fit_svi(
        rng_key, program, LINE, num_steps=300, optimizer=optax.adam(3e-2), sparsifier=bp.methods.BMR(), every=250
    )  # fmt: skip
    assert fit.losses[-1] < fit.losses[0] and "nn$params" in fit.params
    pruned = bp.bmr_prune(fit.params, mask=fit.mask)
    assert "nn$params" in pruned.params and set(pruned.mask) == {kernel, kernel.rpartition("/")[0] + "/bias"}
    # The second of the three weights is zero in truth.
    assert np.ravel(pruned.mask[kernel]).tolist() == [True, False, True]
    guide = bp.masked(program.guide, pruned.mask)
    draws = Predictive(program.model, guide=guide, params=pruned.params, num_samples=5)(rng_key, LINE.x)
    posterior = Predictive(guide, params=pruned.params, num_samples=5)(rng_key, LINE.x)
    assert draws["obs"].shape == (5, len(LINE.x)) and np.all(np.isfinite(draws["obs"]))
    assert np.all(np.asarray(posterior[kernel]).reshape(5, 3)[:, 1] == 0.0)


@pytest.mark.slow
def test_a_hand_written_model_by_numpyros_svi_and_by_ours(rng_key) -> None:
    program = programs.linear_program(prior_scale=3.0)
    loc, scale, _ = programs.best_mean_field(LINE, prior_scale=3.0)
    svi = SVI(program.model, program.guide, optax.adam(3e-2), TraceMeanField_ELBO())
    result = svi.run(rng_key, 400, LINE.x, LINE.y, progress_bar=False)
    pruned = bp.bmr_prune(result.params, prior_scale=3.0)
    assert pruned.mask["w"].tolist() == [True, False, True]
    # Through fit_svi the prior's scale is the model's own: what is gained tells which was used.
    fit = bp.fit_svi(
        rng_key, program, LINE, num_steps=400, optimizer=optax.adam(3e-2), sparsifier=bp.methods.BMR(), every=399
    )  # fmt: skip
    assert fit.mask["w"].tolist() == [True, False, True]
    gained = np.log(3.0 / scale[1]) - 0.5 * (loc[1] / scale[1]) ** 2
    # log 3 = 1.1 would be missing with a prior of scale 1; the fit is within a few tenths of the optimum.
    assert fit.history["prune/evidence_gained"][0] == pytest.approx(gained, abs=0.4)


def shrinkage(prior_of_w):
    """A model with local scales; ``prior_of_w`` makes the weights."""

    def model(x, y=None):
        tau = numpyro.sample("tau", dist.HalfNormal().expand([3]))
        w = prior_of_w(tau)
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("obs", dist.Normal(x @ w, programs.NOISE), obs=y)

    return model


@pytest.mark.slow
def test_sites_without_a_fixed_gaussian_prior_are_kept_out_or_refused(rng_key) -> None:
    free = shrinkage(lambda tau: tau * numpyro.sample("w", dist.Normal().expand([3])))
    settings = {"num_steps": 4, "sparsifier": bp.methods.BMR(), "every": 2}
    fit = bp.fit_svi(rng_key, bp.Program(free, AutoNormal(free)), LINE, **settings)
    assert set(fit.mask) == {"w"}, "scales, of positive support, are no weights"
    for bad in (
        lambda tau: numpyro.sample("w", dist.Normal(0.0, tau)),
        lambda tau: numpyro.sample("w", dist.Normal(jnp.ones(3))),
    ):
        model = shrinkage(bad)
        with pytest.raises(ValueError, match=r"site 'w', the program's, is no fixed Gaussian about zero.*prunable="):
            bp.fit_svi(rng_key, bp.Program(model, AutoNormal(model)), LINE, **settings)
    with pytest.raises(ValueError, match="nothing to prune"):
        bp.fit_svi(rng_key, bp.Program(free, AutoNormal(free), prunable=lambda site, shape: False), LINE, **settings)
