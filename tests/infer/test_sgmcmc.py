"""`fit_sgmcmc`: the posterior it samples, what it keeps, how it goes on, and what takes its samples."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
import pytest
import scipy.stats
from numpyro.infer import MCMC, NUTS

import bayesprune as bp
from bayesprune.infer.laid_out import _moving, steps_to_keep
from bayesprune.model.families import MapFamily
from bayesprune.model.samples import current_sample
from bayesprune.posteriors.samples import draws_of
from tests.infer import programs

FAST = {"num_steps": 24, "batch_size": 20, "num_samples": 4, "sample_every": 2, "progress": False}
KERNEL = bp.kernels.SGHMC(step_size=1e-3)


class Normed(nn.Module):
    """A convolution and a batch norm."""

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.BatchNorm(use_running_average=not train)(nn.Conv(3, (3, 3))(x))
        return nn.Dense(2)(nn.relu(x).mean((1, 2)))


def linear(prior=None, **settings) -> bp.BNN:
    """Linear regression as a network without hidden layers."""
    likelihood = settings.pop("likelihood", bp.likelihoods.Normal(programs.NOISE))
    prior = bp.priors.Gaussian(1.0) if prior is None else prior
    return bp.BNN(bp.nets.MLP((), 1), prior=prior, likelihood=likelihood, input_shape=(3,), **settings)


@pytest.fixture
def fit(rng_key):
    data = programs.classes()
    return bp.fit_sgmcmc(rng_key, programs.small_bnn(), data, kernel=KERNEL, **FAST)


@pytest.mark.slow
def test_what_is_kept(fit, rng_key) -> None:
    """Every site of the model, chains and draws first; losses by step; nothing of a guide."""
    bnn = programs.small_bnn()
    draws = draws_of(fit.params)
    assert draws["Dense_0.kernel"].shape == (1, 4, 4, 8)
    latent = numpyro.handlers.trace(numpyro.handlers.seed(bnn.model, rng_key)).get_trace(programs.classes().x)
    assert set(draws) == {n for n, site in latent.items() if site["type"] == "sample" and n != "obs"}
    assert fit.losses.shape == (24,)
    assert np.isfinite(fit.losses).all()
    assert fit.mask == {}
    node = bnn.posterior(fit.params)["Dense_0.kernel"]
    np.testing.assert_allclose(node.loc, np.asarray(draws["Dense_0.kernel"])[0].mean(0), rtol=1e-5)
    np.testing.assert_allclose(node.scale, np.asarray(draws["Dense_0.kernel"])[0].std(0), rtol=1e-5)


@pytest.mark.slow
def test_a_callback_ends_the_sampling(fit, rng_key) -> None:
    """What the first chain had kept by then, to the bit; nothing kept is told. A later chain that is cut short is dropped."""
    data, bnn, calls = programs.classes(), programs.small_bnn(), []

    def sample(stop, **settings) -> bp.FitResult:
        return bp.fit_sgmcmc(rng_key, bnn, data, kernel=KERNEL, callbacks=stop, callback_every=7, **(FAST | settings))

    early = sample(lambda moment: moment.step == 21)  # networks are kept after steps 18, 20, 22 and 24
    assert early.losses.shape == (21,)
    assert programs.same_bits(draws_of(early.params), {n: v[:, :2] for n, v in draws_of(fit.params).items()})
    with pytest.raises(ValueError, match="the sampling was ended at step 14, before the first network is kept, at step 18"):
        sample(lambda moment: moment.step == 14)

    def in_the_second(moment: bp.Moment) -> bool:
        calls.append(moment.step)
        return len(calls) == 6

    chains = sample(in_the_second, num_chains=2)
    assert calls == [7, 14, 21, 24, 7, 14]
    assert chains.losses.shape == (1, 24) and draws_of(chains.params)["Dense_0.kernel"].shape[:2] == (1, 4)
    assert chains.history["halted/step"].tolist() == [14]
    whole = sample(lambda moment: moment.step == 24, num_chains=2)
    assert whole.losses.shape == (1, 24), "at a chain's last step, too, no other chain begins"


@pytest.mark.slow
def test_cycles_that_do_not_divide_the_steps(rng_key) -> None:
    """Eleven steps in four cycles of two: each ends once, and the last three steps are of none."""
    kernel = bp.kernels.SGLD(1e-4, num_cycles=4)
    settings = FAST | {"num_steps": 11, "kernel": kernel, "sample_every": None}
    fit = bp.fit_sgmcmc(rng_key, programs.small_bnn(), programs.classes(), **settings)
    assert fit.params["Dense_0.kernel$draws"].shape[:2] == (1, 4)


@pytest.mark.slow
def test_every_sample_predicts_once(fit, rng_key) -> None:
    """The mean over all samples, whatever the key; fewer are spread evenly; each draw is the network run by hand."""
    data, bnn = programs.classes(), programs.small_bnn()
    draws = bp.predict_draws(rng_key, bnn, fit.params, data.x, num_samples=100)
    assert draws.shape == (4, 60, 3)
    np.testing.assert_allclose(bp.predict(jax.random.key(9), bnn, fit.params, data.x), draws.mean(0), rtol=1e-5)
    two = bp.predict_draws(rng_key, bnn, fit.params, data.x, num_samples=2)
    np.testing.assert_allclose(two, draws[[1, 3]], rtol=1e-5)
    values = {name: value[0, 2] for name, value in draws_of(fit.params).items()}
    by_hand = numpyro.handlers.substitute(numpyro.handlers.seed(bnn.network, rng_key), data=values)(data.x)
    np.testing.assert_allclose(draws[2], jax.nn.softmax(by_hand), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_posterior_beside_nuts(rng_key) -> None:
    """Regression with learned noise: means and spreads of weights and noise as NUTS has them on the same ``bnn.model``.

    800 samples, correlated: means within .2 posterior standard deviations, spreads within 20 %, four times what eight other
    keys showed (.05 and 5 %).
    """
    data, _ = programs.line(rows=40)
    bnn = linear(likelihood=bp.likelihoods.Normal())
    kernel = bp.kernels.SGHMC(step_size=3e-3, friction=0.3)
    fit = bp.fit_sgmcmc(rng_key, bnn, data, num_steps=20_000, kernel=kernel, num_samples=800, sample_every=20, progress=False)
    mcmc = MCMC(NUTS(bnn.model), num_warmup=300, num_samples=1500, progress_bar=False)
    mcmc.run(jax.random.key(1), data.x, data.y)
    for name, theirs in mcmc.get_samples().items():
        ours, theirs = np.asarray(fit.params[f"{name}$draws"])[0], np.asarray(theirs)
        np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.2 * theirs.std(0).max())
        np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.2)


@pytest.mark.every
@pytest.mark.slow
def test_a_small_net_predicts_as_under_nuts(rng_key) -> None:
    """A hidden layer of three: the function's mean and spread at 17 inputs, which no exchange of units changes.

    16 chains of 130,000 steps beside four chains of NUTS: means within .15 posterior standard deviations and spreads within
    12 %, four times what four other keys showed (.035 and 3 %), another key of NUTS too (.033 and 2 %).
    """
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (40, 1)).astype(np.float32)
    data = bp.Dataset(x, (np.tanh(2 * x[:, 0]) + 0.5 * rng.normal(size=40)).astype(np.float32))
    likelihood = bp.likelihoods.Normal(0.5)
    bnn = bp.BNN(bp.nets.MLP((3,), 1), prior=bp.priors.Gaussian(0.7), likelihood=likelihood, input_shape=(1,))
    fit = bp.fit_sgmcmc(
        rng_key, bnn, data, num_steps=130_000, kernel=bp.kernels.SGHMC(step_size=2e-4, friction=0.05), num_chains=16,
        burn_in=10_000, num_samples=400, sample_every=300, chain_method="vectorized", progress=False,
    )  # fmt: skip
    mcmc = MCMC(NUTS(bnn.model), num_warmup=500, num_samples=1500, num_chains=4, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.key(1), data.x, data.y)
    theirs = {f"{name}$draws": draws for name, draws in mcmc.get_samples(group_by_chain=True).items()}
    at = np.linspace(-2, 2, 17, dtype=np.float32)[:, None]
    one, other = (bp.predict_draws(rng_key, bnn, params, at, num_samples=6000) for params in (fit.params, theirs))
    np.testing.assert_allclose((one.mean(0) - other.mean(0)) / other.std(0), 0, atol=0.15)
    np.testing.assert_allclose(np.log(one.std(0) / other.std(0)), 0, atol=0.12)


def test_positive_sites_have_the_density_of_their_logarithm(rng_key) -> None:
    """A Gamma variable alone: its guide's loss is -log p(c) - log c, so that exp(log c) is Gamma again."""
    family = current_sample(MapFamily())
    value = jnp.asarray(0.3)

    def guide():
        return family.positive("c")

    found = numpyro.infer.Trace_ELBO().loss(
        rng_key, {"c_log_loc": jnp.log(value)}, lambda: numpyro.sample("c", numpyro.distributions.Gamma(2.0, 3.0)), guide
    )
    assert float(found) == pytest.approx(-scipy.stats.gamma.logpdf(0.3, 2, scale=1 / 3) - np.log(0.3), rel=1e-5)


@pytest.mark.slow
def test_a_killed_run_gives_the_same_bits(rng_key, tmp_path) -> None:
    """Killed between samples and after some: the others are read from the folder."""
    data, bnn = programs.classes(), programs.small_bnn(prior=bp.priors.Gaussian())
    settings = FAST | {"kernel": bp.kernels.SGHMCSPL(num_cycles=2, step_size=0.1), "checkpoint_every": 3}
    settings["sparsifier"] = bp.methods.SGHMCSPL(warm_up=1, hard=0.2)
    whole = bp.fit_sgmcmc(rng_key, bnn, data, **settings)

    def kill(moment):
        if moment.step == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.fit_sgmcmc(rng_key, bnn, data, checkpoint=tmp_path / "run", callbacks=[kill], **settings)
    again = bp.fit_sgmcmc(rng_key, bnn, data, checkpoint=tmp_path / "run", **settings)
    assert programs.same_bits(whole.params, again.params)
    assert programs.same_bits(whole.mask, again.mask)
    np.testing.assert_array_equal(whole.losses, again.losses)
    with pytest.raises(ValueError, match="started with other settings"):
        bp.fit_sgmcmc(rng_key, bnn, data, checkpoint=tmp_path / "run", **settings | {"num_samples": 2})
    for file in (tmp_path / "run").glob("sample_*"):
        file.unlink()
    with pytest.raises(OSError, match="sample_"):
        bp.fit_sgmcmc(rng_key, bnn, data, checkpoint=tmp_path / "run", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("chain", [0, 1])
def test_chains_of_which_one_was_killed_give_the_same_bits(rng_key, tmp_path, chain) -> None:
    """In the first chain or in the second: those before it are read, it goes on, those after it begin."""
    data, bnn = programs.classes(), programs.small_bnn(prior=bp.priors.Gaussian())
    settings = FAST | {"kernel": bp.kernels.SGHMCSPL(num_cycles=2, step_size=0.1), "checkpoint_every": 3, "num_chains": 2}
    settings["sparsifier"] = bp.methods.SGHMCSPL(warm_up=1, hard=0.2)
    whole, seen = bp.fit_sgmcmc(rng_key, bnn, data, **settings), []

    def kill(moment):
        seen.append(moment.step)
        if seen.count(15) > chain:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.fit_sgmcmc(rng_key, bnn, data, checkpoint=tmp_path / "run", callbacks=[kill], **settings)
    after = []
    again = bp.fit_sgmcmc(
        rng_key, bnn, data, checkpoint=tmp_path / "run", callbacks=[lambda moment: after.append(moment.step)], **settings
    )
    assert after[0] > 3, "nothing is sampled twice but what a checkpoint lacks"
    assert programs.same_bits(whole.params, again.params) and programs.same_bits(whole.mask, again.mask)
    np.testing.assert_array_equal(whole.losses, again.losses)


@pytest.mark.slow
@pytest.mark.parametrize("num_chains", [2, 1])
def test_chains_side_by_side_are_those_one_after_another(rng_key, num_chains) -> None:
    """To rounding, the more of it the longer they run: ten steps."""
    data, bnn = programs.classes(), programs.small_bnn()
    settings = FAST | {"num_steps": 10, "kernel": KERNEL, "num_chains": num_chains}
    one, other = (bp.fit_sgmcmc(rng_key, bnn, data, chain_method=how, **settings) for how in ("sequential", "vectorized"))
    assert one.params.keys() == other.params.keys()
    for name, value in one.params.items():
        np.testing.assert_allclose(value, other.params[name], rtol=2e-4, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(one.losses, other.losses, rtol=1e-4)
    with pytest.raises(ValueError, match="chain_method='vectorized' has no sparsifier"):
        bp.fit_sgmcmc(rng_key, bnn, data, chain_method="vectorized", mask={}, **settings)


@pytest.mark.slow
def test_chains_are_fits_of_their_own(rng_key, tmp_path) -> None:
    data, bnn = programs.classes(), programs.small_bnn()
    both = bp.fit_sgmcmc(rng_key, bnn, data, kernel=KERNEL, num_chains=2, checkpoint=tmp_path, **FAST)
    second = bp.fit_sgmcmc(jax.random.fold_in(rng_key, 1), bnn, data, kernel=KERNEL, **FAST)
    assert both.losses.shape == (2, 24)
    assert programs.same_bits({"w": both.params["Dense_1.kernel$draws"][1]}, {"w": second.params["Dense_1.kernel$draws"][0]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain_0", "chain_1"]


@pytest.mark.slow
def test_a_weight_is_dead_where_it_is_so_in_every_sample(rng_key) -> None:
    data, bnn = programs.classes(), programs.small_bnn()
    settings = FAST | {"sparsifier": bp.methods.Magnitude(bp.schedules.Geometric(0.2, 0.5)), "every": 6}
    fit = bp.fit_sgmcmc(rng_key, bnn, data, kernel=bp.kernels.SGHMC(1e-3, num_cycles=2), **settings)
    for site, alive in fit.mask.items():
        zero = np.asarray(fit.params[f"{site}$draws"] == 0)
        np.testing.assert_array_equal(zero.all((0, 1)), ~np.asarray(alive))
    shares = [np.mean([np.asarray(fit.params[f"{s}$draws"][0, n] != 0).mean() for s in fit.mask]) for n in range(4)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]
    masked = bp.predict(rng_key, bnn, fit.params, data.x, mask=fit.mask)
    np.testing.assert_array_equal(masked, bp.predict(rng_key, bnn, fit.params, data.x))


@pytest.mark.slow
def test_samples_are_pruned_by_their_moments(rng_key) -> None:
    """`bmr_prune` by the means and standard deviations, under the prior's scale; the dead are zero in every sample."""
    data = programs.classes()
    bnn = programs.small_bnn(prior=bp.priors.Gaussian(0.5))
    fit = bp.fit_sgmcmc(rng_key, bnn, data, kernel=KERNEL, **FAST)
    cut = bp.bmr_prune(fit.params)
    assert 0 < float(cut.info.density) < 1
    prunable = {str(spec.path) for spec in bnn.layout if spec.prunable}
    assert cut.mask.keys() == prunable == bp.bmr_prune(fit.params, program=bnn).mask.keys() and len(prunable) < len(bnn.layout)
    assert bp.prune_once(fit.params, bp.methods.Magnitude(0.2)).mask.keys() == prunable
    node = bnn.posterior(fit.params)["Dense_0.kernel"]
    by_hand = bp.bmr_prune({"w": bp.MeanField(node.loc, node.scale, 1.0, 0.5)})
    np.testing.assert_array_equal(cut.mask["Dense_0.kernel"], by_hand.mask["w"])
    dead = ~np.asarray(cut.mask["Dense_0.kernel"])
    assert not np.asarray(cut.params["Dense_0.kernel$draws"])[..., dead].any()
    probs = bp.predict(rng_key, bnn, cut.params, data.x, mask=cut.mask)
    np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)


def test_samples_are_saved_and_loaded(fit, rng_key, tmp_path) -> None:
    data, bnn = programs.classes(), programs.small_bnn()
    bp.report.save_fit(tmp_path / "fit.safetensors", bnn, fit)
    saved = bp.report.load_posterior(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(bp.predict(rng_key, bnn, saved.params, data.x), bp.predict(rng_key, bnn, fit.params, data.x))


@pytest.mark.slow
def test_learned_noise_is_that_of_each_network(rng_key) -> None:
    data, _ = programs.line()
    bnn = linear(likelihood=bp.likelihoods.Normal())
    fit = bp.fit_sgmcmc(rng_key, bnn, data, kernel=bp.kernels.SGHMC(1e-4), **FAST)
    found = bp.evaluate(rng_key, bnn, fit.params, data)
    draws = bp.predict_draws(rng_key, bnn, fit.params, data.x)[..., 0]
    noise = np.asarray(fit.params["noise_precision$draws"])[0] ** -0.5
    density = scipy.stats.norm.pdf(np.asarray(data.y), draws, noise[:, None]).mean(0)
    assert found["nll"] == pytest.approx(-np.log(density).mean(), rel=1e-4)


@pytest.mark.slow
def test_running_statistics_are_kept_with_each_network(rng_key) -> None:
    """Parameters without a posterior and batch statistics belong to a sample as its weights do."""
    x = np.random.default_rng(0).normal(size=(16, 8, 8, 1)).astype(np.float32)
    data = bp.Dataset(x, (x.mean((1, 2, 3)) > 0).astype(np.int32))
    bnn = bp.BNN(
        Normed(),
        prior=bp.priors.Gaussian(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(8, 8, 1),
        bayesian=bp.select.kernels,
    )
    fit = bp.fit_sgmcmc(rng_key, bnn, data, kernel=KERNEL, num_steps=4, num_samples=2, sample_every=1, progress=False)
    state = jax.tree.leaves(draws_of(fit.params)["net$state"])
    assert all(leaf.shape[:2] == (1, 2) for leaf in state)
    assert any(bool(jnp.any(leaf[0, 0] != leaf[0, 1])) for leaf in state)
    assert np.isfinite(bp.predict(rng_key, bnn, fit.params, x)).all()
    with pytest.raises(ValueError, match="stored samples, each with running statistics"):
        bp.recalibrate(rng_key, bnn, fit.params, data)


@pytest.mark.slow
def test_one_compilation_for_all_chains_and_prunings(rng_key) -> None:
    net, marks = programs.count_traces(bp.nets.MLP((5,), 3))
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    settings = FAST | {"sparsifier": bp.methods.Magnitude(0.5), "every": 5, "kernel": KERNEL}
    bp.fit_sgmcmc(rng_key, bnn, programs.classes(), **settings)
    before = len(marks)
    bp.fit_sgmcmc(jax.random.key(8), bnn, programs.classes(), num_chains=2, **settings)
    assert len(marks) == before


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [bp.priors.Horseshoe(), bp.priors.ScaleMixture(), bp.priors.GaussianSlab(0.01, 1.0, 0.5), bp.priors.Cauchy()]
)
def test_priors_with_a_density_are_sampled(rng_key, prior) -> None:
    """From a MAP fit, given as it is; the samples predict, and are scored by what their nodes know."""
    data = programs.classes()
    bnn = programs.small_bnn(prior=prior)
    if isinstance(prior, bp.priors.ScaleMixture):
        settings = {"init_params": bp.fit_svi(rng_key, bnn.under(MapFamily()), data, num_steps=5, progress=False)}
    else:
        settings = {}
    fit = bp.fit_sgmcmc(rng_key, bnn, data, kernel=bp.kernels.SGHMC(1e-4), **FAST, **settings)
    assert np.isfinite(bp.predict(rng_key, bnn, fit.params, data.x)).all()
    assert float(bp.prune_once(fit.params, bp.methods.SNR(0.5), program=bnn).info.density) == pytest.approx(0.5, abs=0.01)


def test_a_refused_prior_names_all_that_can_be_sampled() -> None:
    can, refusals = set(), set()
    for name in set(bp.priors.__all__) - {"Empirical", "Posterior", "moped"}:  # which are made of a fit
        try:
            _moving(programs.small_bnn(prior=getattr(bp.priors, name)()))
            can.add(name)
        except ValueError as error:
            refusals.add(str(error).partition("take ")[2])
    (told,) = refusals
    assert {name for name in bp.priors.__all__ if re.search(rf"\b{name}\b", told)} == can


def test_refusals(rng_key) -> None:
    data, bnn = programs.classes(), programs.small_bnn()
    with pytest.raises(TypeError, match=r"numpyro\.infer\.MCMC"):
        bp.fit_sgmcmc(rng_key, programs.linear_program(), data, **FAST)
    with pytest.raises(TypeError, match=r"belongs to bp\.fit_svi"):
        bp.fit_sgmcmc(rng_key, bnn, data, kernel=optax.sgd(0.1), **FAST)
    with pytest.raises(ValueError, match="do not fit into the 24 steps"):
        bp.fit_sgmcmc(rng_key, bnn, data, **FAST | {"sample_every": 12})
    with pytest.raises(ValueError, match="multiple of the 3 cycles"):
        bp.fit_sgmcmc(rng_key, bnn, data, kernel=bp.kernels.SGHMC(num_cycles=3), **FAST)
    with pytest.raises(ValueError, match=r"num_rows must be the data's 60, got 7: leave it out"):
        bp.fit_sgmcmc(rng_key, bnn, data, kernel=bp.kernels.SGHMCSPL(num_rows=7), **FAST)
    with pytest.raises(ValueError, match="num_cycles must be at most num_steps=24, got 25"):
        bp.fit_sgmcmc(rng_key, bnn, data, kernel=bp.kernels.SGHMC(num_cycles=25), **FAST)
    with pytest.raises(ValueError, match="burn_in must be below"):
        bp.fit_sgmcmc(rng_key, bnn, data, burn_in=24, **FAST)
    with pytest.raises(ValueError, match="4 samples every 2 steps do not fit into the 5 steps"):
        bp.fit_sgmcmc(rng_key, bnn, data, burn_in=19, **FAST)
    for prior in (bp.priors.DiracSlab(), bp.priors.GroupHorseshoe(), bp.priors.UnitNoise()):
        with pytest.raises(ValueError, match=f"{type(prior).__name__} cannot be sampled"):
            bp.fit_sgmcmc(rng_key, programs.small_bnn(prior=prior), data, **FAST)
    with pytest.raises(TypeError, match="sample by bp"):
        bp.fit_svi(rng_key, bnn, data, num_steps=2, optimizer=KERNEL, progress=False)
    with pytest.raises(ValueError, match="needs a posterior with spread"):
        bp.fit_sgmcmc(rng_key, bnn, data, sparsifier=bp.methods.BMR(), **FAST)
    with pytest.raises(ValueError, match=r"bp\.fit_sgmcmc\(..., kernel=bp\.kernels\.SGHMCSPL"):
        bp.fit_svi(rng_key, bnn, data, num_steps=4, sparsifier=bp.methods.SGHMCSPL(warm_up=0), every=2, progress=False)


def test_samples_from_elsewhere_are_whole_and_finite() -> None:
    draws = {"Dense_0.kernel": np.zeros((4, 3, 1), np.float32), "Dense_0.bias": np.zeros((4, 1), np.float32)}
    assert bp.stored_samples(linear(), draws)["Dense_0.bias$draws"].shape == (1, 4, 1)
    with pytest.raises(ValueError, match=r"as many draws of every site, got .*\(1, 4\) of 'Dense_0.kernel'"):
        bp.stored_samples(linear(), draws | {"Dense_0.bias": np.zeros((3, 1), np.float32)})
    for none in ({"chains": 0}, {"chains": -2}, {"chains": True}):
        with pytest.raises(ValueError, match="chains must be an integer of at least 1"):
            bp.stored_samples(linear(), draws, **none)
    with pytest.raises(ValueError, match="has no draws"):
        bp.stored_samples(linear(), {name: of_site[:0] for name, of_site in draws.items()})
    with pytest.raises(TypeError, match="must be real numbers, got complex64"):
        bp.stored_samples(linear(), draws | {"Dense_0.kernel": draws["Dense_0.kernel"] + 1j})
    for bad in (np.nan, np.inf):
        draws["Dense_0.kernel"][2, 1] = bad
        with pytest.raises(ValueError, match=r"samples\['Dense_0.kernel'\] must be finite"):
            bp.stored_samples(linear(), draws)


@pytest.mark.slow
def test_samples_of_numpyro_are_read_alike(rng_key) -> None:
    """NUTS on ``bnn.model``: predictions are those of NumPyro's own `Predictive`; chains are kept apart."""
    data, _ = programs.line(rows=20)
    bnn = linear(likelihood=bp.likelihoods.Normal())
    mcmc = MCMC(NUTS(bnn.model), num_warmup=20, num_samples=10, num_chains=2, chain_method="sequential", progress_bar=False)
    mcmc.run(rng_key, data.x, data.y)
    params = bp.stored_samples(bnn, mcmc.get_samples(group_by_chain=True))
    flat = bp.stored_samples(bnn, mcmc.get_samples(), chains=2)
    assert programs.same_bits(params, flat)
    assert params["Dense_0.kernel$draws"].shape == (2, 10, 3, 1)
    by_hand = np.asarray(data.x) @ np.asarray(mcmc.get_samples()["Dense_0.kernel"])[:, :, 0].T
    by_hand += np.asarray(mcmc.get_samples()["Dense_0.bias"])[:, 0]
    np.testing.assert_allclose(bp.predict_draws(rng_key, bnn, params, data.x)[..., 0], by_hand.T, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"missing \['Dense_0.bias'\]"):
        bp.stored_samples(bnn, {n: v for n, v in mcmc.get_samples().items() if n != "Dense_0.bias"})
    with pytest.raises(ValueError, match="the site's is"):
        bp.stored_samples(bnn, mcmc.get_samples() | {"Dense_0.bias": jnp.zeros((20, 2))})


@pytest.mark.slow
def test_arviz_reads_samples(rng_key) -> None:
    """R-hat and effective sample sizes of predictions; chains that were moved apart are seen."""
    arviz = pytest.importorskip("arviz")
    data, _ = programs.line(rows=20)
    bnn = linear()
    kernel = bp.kernels.SGLD(step_size=3e-3)
    settings = {"num_steps": 600, "num_samples": 100, "sample_every": 5, "num_chains": 2, "progress": False}
    fit = bp.fit_sgmcmc(rng_key, bnn, data, kernel=kernel, **settings)
    outputs = bp.predict_draws(rng_key, bnn, fit.params, data.x[:3], num_samples=200)[..., 0]
    close, apart = (fit.to_arviz({"f": outputs + shift}) for shift in (0.0, np.repeat([0.0, 9.0], 100)[:, None]))
    assert dict(close.posterior["f"].sizes)["chain"] == 2
    assert float(arviz.rhat(close)["f"].max()) < 1.2 < float(arviz.rhat(apart)["f"].min())
    assert float(arviz.ess(close)["f"].min()) > 20
    assert "Dense_0.kernel" in fit.to_arviz().posterior
    with pytest.raises(ValueError, match="num_samples=200"):
        fit.to_arviz({"f": outputs[:30]})
    with pytest.raises(ValueError, match="params hold no samples"):
        bp.fit_svi(rng_key, bnn, data, num_steps=1, progress=False).to_arviz()


def test_networks_are_kept_evenly_over_the_last_halves() -> None:
    plain, cycled = bp.kernels.SGLD(1e-4), bp.kernels.SGLD(1e-4, num_cycles=2, num_steps=100)
    assert steps_to_keep(plain, 100, 0, 5, None, widest=100) == (60, 70, 80, 90, 100)
    assert steps_to_keep(cycled, 100, 0, 4, None, widest=100) == (38, 50, 88, 100)
    assert steps_to_keep(plain, 100, 0, 5, None, widest=3) == (88, 91, 94, 97, 100)  # with a sparsifier an epoch


@pytest.mark.parametrize("name", ["SGLD", "SGHMC"])
def test_a_sampler_as_it_comes_learns_the_digits(name: str) -> None:
    train, test = bp.data.load("digits")
    bnn = bp.BNN(
        bp.nets.MLP((30,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=train.x.shape[1:]
    )
    fit = bp.fit_sgmcmc(
        jax.random.key(0), bnn, train, num_steps=2000, batch_size=64, kernel=getattr(bp.kernels, name)(), progress=False
    )
    found = bp.evaluate(jax.random.key(1), bnn, fit.params, test)
    assert found["accuracy"] > 0.93 and found["nll"] < 0.25
