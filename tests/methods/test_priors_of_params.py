"""Evidence is that of the prior that was fitted: parameters say theirs, and where nobody does, nothing is pruned by it."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.contrib.module import random_flax_module
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import bayesprune as bp
from tests.infer import programs

DATA = programs.classes()
NEITHER = r"program= \(the model it was fitted with\) or prior_scale="


def fit(prior, **settings):
    bnn = programs.small_bnn(prior=prior)
    return bnn, bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=2, batch_size=16, progress=False, **settings)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [bp.priors.GaussianSlab(), bp.priors.ScaleMixture(), bp.priors.Cauchy()], ids=lambda p: type(p).__name__
)
def test_priors_that_are_not_gaussian_have_no_evidence(prior) -> None:
    with pytest.raises((TypeError, ValueError), match=r"is that of a Gaussian prior|is no fixed Gaussian about zero"):
        fit(prior, sparsifier=bp.methods.BMR(), every=1)
    bnn, result = fit(prior)
    with pytest.raises(ValueError, match=NEITHER):
        bp.bmr_prune(result.params)
    with pytest.raises((TypeError, ValueError), match=r"is that of a Gaussian prior|is no fixed Gaussian about zero"):
        bp.bmr_prune(result.params, program=bnn)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [bp.priors.Flat(), bp.priors.Gaussian(0.3)], ids=lambda p: type(p).__name__)
def test_gaussian_priors_of_ours_are_found(prior) -> None:
    bnn, result = fit(prior)
    one, other = bp.bmr_prune(result.params), bp.bmr_prune(result.params, prior_scale=1.0)
    third = bp.bmr_prune({n: v for n, v in result.params.items() if "$" not in n}, program=bnn)
    for site, alive in one.mask.items():
        np.testing.assert_array_equal(alive, other.mask[site])
        np.testing.assert_array_equal(alive, third.mask[site])


def test_points_have_no_evidence_and_are_refused_before_training() -> None:
    bnn = programs.small_bnn(posterior="map")
    with pytest.raises(ValueError, match="A MAP fit has no evidence"):
        bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=4, sparsifier=bp.methods.BMR(), every=2, progress=False)


def foreign(prior_sd=0.1):
    """A NumPyro program of a Flax net whose weights have the prior N(0, prior_sd²), and LogNormal noise scales."""

    def model(x, y=None):
        net = random_flax_module("nn", nn.Dense(3), prior=dist.Normal(0.0, prior_sd), input_shape=(1, 4))
        noise = numpyro.sample("noise", dist.LogNormal(jnp.zeros(5), 0.1).to_event(1))
        numpyro.sample("obs", dist.Categorical(logits=net(x) * noise.mean()), obs=y)

    return bp.Program(model, AutoNormal(model, init_scale=0.09))


@pytest.mark.slow
def test_foreign_guides_need_a_prior_and_their_noise_is_no_weight() -> None:
    program = foreign()
    svi = SVI(program.model, program.guide, numpyro.optim.Adam(1e-6), Trace_ELBO())
    params = svi.get_params(svi.init(jax.random.key(0), DATA.x, DATA.y))
    params |= {n: jnp.zeros_like(v) + 1e-3 for n, v in params.items() if n.endswith("_loc")}
    with pytest.raises(ValueError, match=NEITHER):
        bp.bmr_prune(params)
    with pytest.raises(ValueError, match="give data="):
        bp.bmr_prune(params, program=program)
    pruned = bp.bmr_prune(params, program=program, data=DATA, rng_key=jax.random.key(0))
    assert set(pruned.mask) == {"nn/kernel", "nn/bias"}, "the positive sites are no weights"
    sites = {site: 0.1 for site in pruned.mask}
    explicit = bp.bmr_prune(params, prior_scale=sites, prunable=lambda path, shape: path in sites)
    for (
        site,
        alive,
    ) in pruned.mask.items():  # with data the act is verified: what falls was proposed, or gains evidence by itself
        loc, scale = (np.asarray(params[f"{site}_auto_{field}"]) for field in ("loc", "scale"))
        gain = np.log(0.1 / scale) - (loc / scale) ** 2 / 2
        assert (np.asarray(alive) | ~np.asarray(explicit.mask[site]) | (gain > 0)).all()
    np.testing.assert_array_equal(pruned.params["noise_auto_loc"], params["noise_auto_loc"])


@pytest.mark.slow
def test_a_fitted_program_says_its_priors() -> None:
    program = foreign()
    result = bp.fit_svi(jax.random.key(0), program, DATA, num_steps=2, progress=False)
    assert set(bp.bmr_prune(result.params).mask) == {"nn/kernel", "nn/bias"}


@pytest.mark.slow
def test_scales_that_another_site_sets_are_no_fixed_prior() -> None:
    def model(x, y=None):
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        w = numpyro.sample("w", dist.Normal(0.0, tau).expand([4]))
        numpyro.sample("obs", dist.Bernoulli(logits=x @ w), obs=None if y is None else y > 0)

    program = bp.Program(model, AutoNormal(model))
    result = bp.fit_svi(jax.random.key(0), program, DATA, num_steps=1, progress=False)
    with pytest.raises(ValueError, match="site 'w' has no fixed Gaussian prior about zero"):
        bp.bmr_prune(result.params)


@pytest.mark.slow
def test_magnitudes_are_the_networks_own_across_layers() -> None:
    """Two layers with equal loc and scales of 0.01 and 1: what goes first is of the small one."""
    bnn, result = fit(bp.priors.Flat())
    params = dict(result.params)
    for spec in bnn.layout:
        if spec.prunable:
            params[f"{spec.path}_auto_loc"] = jnp.ones(spec.shape)
    layers = list(dict.fromkeys(spec.path.layer for spec in bnn.layout if spec.prunable))
    params |= {f"{layers[0]}.precision_log_loc": jnp.asarray(9.2), f"{layers[1]}.precision_log_loc": jnp.asarray(0.0)}
    mask = bp.prune_once(params, bp.methods.Magnitude(density=0.5), program=bnn).mask
    first, second = (sum(int(m.sum()) for s, m in mask.items() if s.startswith(layer)) for layer in layers)
    assert (first, second) == (2, 45), "of 94 weights 47 stay: those of the second layer, and the best of each other array"


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("storage", ["masked", "active"])
def test_reactivated_gates_start_at_the_mean_of_those_beside_them(storage) -> None:
    """SSVI over a spike and slab whose parameters do not move: only a renewal changes log-odds, in both storages alike."""
    bnn = programs.small_bnn(prior=bp.priors.DiracSlab(log_inclusion=-3.0))
    site, shape = bnn.layout[0].path, bnn.layout[0].shape
    odds = jnp.linspace(-4.0, 4.0, int(np.prod(shape))).reshape(shape)
    seen = []
    bp.fit_svi(
        jax.random.key(0), bnn, DATA, num_steps=4, every=1, sparsifier=bp.methods.SSVI(0.5), storage=storage, progress=False,
        init_params={"Dense_0.kernel_auto_logit": odds},
        callbacks=[lambda m: seen.append((m.mask()[site], m.params()[f"{site}_auto_logit"]))],
        optimizer=optax.sgd(0.0),
    )  # fmt: skip
    (before, _), (after, logits) = (tuple(map(np.asarray, moment)) for moment in seen[:2])
    grown = after & ~before
    assert grown.any()
    np.testing.assert_allclose(logits[grown], np.asarray(odds)[before & after].mean(), rtol=1e-5)
