"""Chains that start at a trained fit, or where a run ended: the networks they start from, and the bits of one long run."""

import inspect
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.infer.chains import chain_starts
from bayesprune.infer.laid_out import lay_out_chains
from bayesprune.model.families import MapFamily
from bayesprune.model.samples import values_of
from bayesprune.posteriors.samples import draws_of
from tests.infer import programs
from tests.infer.test_data import mapped

KEY, DATA, SITE = jax.random.key(0), programs.classes(), "Dense_0.kernel"
BNN = programs.small_bnn()
SETTINGS = {
    "batch_size": 16,
    "num_samples": 1,
    "sample_every": 1,
    "progress": False,
    "kernel": bp.kernels.SGHMC(step_size=1e-3),
}


def started(bnn: bp.BNN, init, num_chains: int = 1, **given):
    """The networks that chains start from, by sites, and their masks."""
    call = inspect.signature(bp.fit_sgmcmc).bind(KEY, bnn, DATA, num_steps=10, **SETTINGS)
    call.apply_defaults()
    laid, _ = lay_out_chains(call.arguments)
    starts = chain_starts(laid, bnn, init, given.get("init_params"), num_chains)
    return [(values_of(laid.recipe.program.guide, start.init.params), start.init.mask) for start in starts]


@pytest.fixture(scope="module")
def fit() -> bp.FitResult:
    settings = {"sparsifier": bp.methods.SNR(0.5), "every": 3}
    return bp.fit_svi(KEY, BNN, DATA, num_steps=5, batch_size=16, progress=False, **settings)


@pytest.mark.every
@pytest.mark.slow
def test_one_chain_starts_at_the_mean_and_with_the_mask(fit) -> None:
    ((network, mask),) = started(BNN, fit)
    assert mask is fit.mask and not fit.mask[SITE].all()
    np.testing.assert_array_equal(network[SITE], fit.params[f"{SITE}_auto_loc"])
    np.testing.assert_array_equal(network["Dense_2.kernel"], fit.params["Dense_2.kernel_dense_loc"])


@pytest.mark.slow
def test_several_chains_start_at_draws_of_the_posterior(fit) -> None:
    """Standardised, 60 starts of 16 weights are standard normal: mean and spread within 5 standard errors (1e-6)."""
    values = np.stack([network[SITE] for network, _ in started(BNN, fit, 60)])
    alive = np.asarray(fit.mask[SITE])
    loc, scale = (np.asarray(fit.params[f"{SITE}_auto_{name}"]) for name in ("loc", "scale"))
    assert not values[:, ~alive].any()
    z = (values[:, alive] - loc[alive]) / scale[alive]
    assert abs(z.mean()) < 5 / np.sqrt(z.size) and abs(z.std() - 1) < 5 / np.sqrt(2 * z.size)


@pytest.mark.slow
def test_pruned_ones_and_points_are_starts(fit) -> None:
    cut = bp.prune_once(fit.params, bp.methods.SNR(0.2), mask=fit.mask)
    ((network, mask),) = started(BNN, cut)
    assert mask is cut.mask and not np.asarray(network[SITE])[~np.asarray(cut.mask[SITE])].any()
    of_points = BNN.under(MapFamily())
    point = bp.fit_svi(KEY, of_points, DATA, num_steps=1, batch_size=16, progress=False)
    for bnn in (BNN, of_points):
        ((network, _),) = started(bnn, point)
        np.testing.assert_array_equal(network[SITE], point.params[f"{SITE}_map_loc"])


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("prior", ["Horseshoe", "GaussianSlab"])
def test_scales_of_a_prior_start_at_their_means_too(prior) -> None:
    bnn = programs.small_bnn(prior=getattr(bp.priors, prior)())
    trained = bp.fit_svi(KEY, bnn, DATA, num_steps=2, batch_size=16, progress=False)
    ((network, _),) = started(bnn, trained)
    np.testing.assert_allclose(network[SITE], trained.params[f"{SITE}_auto_loc"], rtol=1e-6)
    for name, value in trained.params.items():
        if name.endswith("_log_loc"):
            scale = trained.params[name.replace("_log_loc", "_log_scale")]
            np.testing.assert_allclose(network[name.removesuffix("_log_loc")], np.exp(value + scale**2 / 2), rtol=1e-4)
    assert np.isfinite(bp.fit_sgmcmc(KEY, bnn, DATA, num_steps=2, init=trained, **SETTINGS).losses).all()


@pytest.mark.slow
def test_a_run_in_two_parts_is_the_whole_to_the_bit() -> None:
    whole, first = (bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=n, **SETTINGS) for n in (9, 4))
    rest = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=5, init=first, **SETTINGS)
    np.testing.assert_array_equal(np.concatenate([first.losses, rest.losses]), whole.losses)
    assert programs.same_bits((whole.params, whole.state), (rest.params, rest.state))


@pytest.mark.slow
def test_a_chain_goes_on_where_a_cycle_begins() -> None:
    kernel = bp.kernels.SGHMC(step_size=1e-3, num_cycles=2)
    settings = {"kernel": kernel, "num_samples": 2, "sample_every": 1, "batch_size": 8}
    first = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=4, **settings)
    with pytest.raises(ValueError, match=r"at step 4, in the midst of a cycle of 6 // 2 = 3 steps: give a num_steps"):
        bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=6, init=first, **settings)
    on = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=8, init=first, **settings)
    assert len(on.losses) == 8


@pytest.mark.parametrize("num_cycles", [1, 2])
def test_cycles_of_another_number_of_steps_are_refused(num_cycles) -> None:
    kernel = bp.kernels.SGHMC(step_size=1e-3, num_cycles=num_cycles, num_steps=20)
    with pytest.raises(ValueError, match=r"parts of its num_steps=20, and the call takes 10 steps.*leave num_steps out"):
        bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=10, kernel=kernel, num_samples=2, sample_every=1, batch_size=8)


def _close(one, other) -> bool:
    return all(jax.tree.leaves(jax.tree.map(partial(np.allclose, rtol=1e-4, atol=1e-5), one, other)))


class Normed(nn.Module):
    """A batch norm, whose running statistics a chain carries along."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(3)(nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(nn.Dense(5)(x))))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("net", [bp.nets.MLP((8,), 3), Normed()], ids=lambda net: type(net).__name__)
@pytest.mark.parametrize("how", ["sequential", "vectorized"])
def test_a_chain_goes_on_from_its_file_to_the_same_bits(tmp_path, net, how) -> None:
    """Momentum and running statistics too: the file of a single chain keeps its kernel's state, however it ran."""
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    whole = bp.fit_sgmcmc(KEY, bnn, DATA, num_steps=9, **SETTINGS)
    first = bp.fit_sgmcmc(KEY, bnn, DATA, num_steps=4, chain_method=how, **SETTINGS)
    first.save(tmp_path / "chain")
    for start in (first, bp.load(tmp_path / "chain")):
        rest = bp.fit_sgmcmc(KEY, bnn, DATA, num_steps=5, init=start, **SETTINGS)
        # Side by side is another program, whose bits may differ in the last place.
        same = programs.same_bits if how == "sequential" else _close
        assert same(rest.params, whole.params)


@pytest.mark.slow
def test_a_part_of_a_file_goes_on_and_is_resumed(tmp_path) -> None:
    whole = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=9, **SETTINGS)
    first = bp.fit_sgmcmc(KEY, BNN, mapped(tmp_path), num_steps=4, **SETTINGS)

    class KilledError(Exception):
        pass

    def kill(moment) -> None:
        if moment.step == 4:
            raise KilledError

    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 2, "init": first, "num_steps": 5}
    with pytest.raises(KilledError):
        bp.fit_sgmcmc(KEY, BNN, mapped(tmp_path), callbacks=kill, **kept, **SETTINGS)
    rest = bp.fit_sgmcmc(KEY, BNN, mapped(tmp_path), **kept, **SETTINGS)
    assert programs.same_bits(whole.params, rest.params)


@pytest.mark.slow
def test_chains_go_on_from_their_last_networks_and_what_is_cut_stays_so() -> None:
    pruning = {"num_chains": 2, "sparsifier": bp.methods.Magnitude(0.5), "every": 3}
    first = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=6, **SETTINGS | {"num_samples": 4} | pruning)
    starts = started(BNN, first, 2)
    for chain, (network, mask) in enumerate(starts):
        last = np.asarray(draws_of(first.params)[SITE])[chain, -1]
        np.testing.assert_array_equal(network[SITE], last)
        np.testing.assert_array_equal(mask[SITE], last != 0)
    assert not (starts[0][1][SITE] == starts[1][1][SITE]).all()
    rest = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=2, init=first, num_chains=2, **SETTINGS)
    assert not np.asarray(draws_of(rest.params)[SITE])[0][:, ~starts[0][1][SITE]].any()


def test_what_is_no_start_is_refused(fit) -> None:
    two = fit._replace(params={f"{name}$draws": jnp.ones((2, 3, *spec.shape)) for name, spec in _sites().items()}, mask={})
    plain = programs.small_bnn(prior=bp.priors.Gaussian())
    for call, kind, message in (
        (lambda: started(BNN, fit.params), TypeError, "init must be a fit or a pruned one, got a dict"),
        (lambda: started(BNN, fit, init_params=fit.params), ValueError, "init and init_params both say where to start"),
        (lambda: started(programs.small_bnn(prior=bp.priors.Gaussian(2.0)), fit), ValueError, "another network, prior"),
        (lambda: started(plain, two, 3), ValueError, r"init holds 2 chain\(s\).*num_chains=3: give num_chains=2"),
        (lambda: started(BNN, two._replace(params={"a$draws": jnp.ones((1, 2))})), ValueError, "params have no"),
    ):
        with pytest.raises(kind, match=message):
            call()
    with pytest.raises(ValueError, match="chain_method='vectorized' has no sparsifier, mask, init,"):
        bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=2, init=fit, chain_method="vectorized", **SETTINGS)


@pytest.mark.slow
def test_the_same_sites_under_another_unit_are_refused() -> None:
    fits = bp.fit_svi(KEY, programs.small_bnn(prior=bp.priors.Gaussian(0.5)), DATA, num_steps=1, progress=False)
    with pytest.raises(ValueError, match=r"in units of 0\.5, this program in units of 2"):
        started(programs.small_bnn(prior=bp.priors.Gaussian(2.0)), fits)


@pytest.mark.slow
def test_a_network_that_was_changed_since_is_the_one_to_start_at() -> None:
    run = bp.fit_sgmcmc(KEY, BNN, DATA, num_steps=4, **SETTINGS)
    changed = {name: 3.0 * jnp.ones_like(value) for name, value in run.params.items() if name == f"{SITE}$draws"}
    with pytest.warns(UserWarning, match="init's last network is not where its chain stands"):
        ((values, _),) = started(BNN, run._replace(params=run.params | changed))
    np.testing.assert_allclose(values[SITE], changed[f"{SITE}$draws"][0, -1], rtol=1e-5)


@pytest.mark.every
@pytest.mark.slow
def test_a_single_chain_that_ran_vectorized_starts_at_its_network() -> None:
    plain = programs.small_bnn(prior=bp.priors.Gaussian())
    run = bp.fit_sgmcmc(KEY, plain, DATA, num_steps=2, chain_method="vectorized", num_chains=1, **SETTINGS)
    ((values, _),) = started(plain, run)
    for name, draws in draws_of(run.params).items():
        np.testing.assert_allclose(values[name], draws[0, -1], rtol=1e-5)


def _sites():
    return {str(spec.path): spec for spec in BNN.layout}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["full", "matrix_normal"])
def test_one_chain_starts_at_the_means_of_weights_that_vary_together(posterior) -> None:
    """A step of 1e-12 leaves the chain where it started."""
    bnn = programs.small_bnn(prior=bp.priors.Gaussian(), posterior=posterior)
    data = programs.classes()
    fit = bp.fit_svi(KEY, bnn, data, num_steps=5, progress=False)
    still = {"kernel": bp.kernels.SGLD(step_size=1e-12), "num_samples": 1, "progress": False}
    chain = bp.fit_sgmcmc(KEY, bnn, data, num_steps=5, init=fit, **still)
    nodes = bnn.posterior(fit.params)
    for site, node in nodes.items():
        np.testing.assert_allclose(chain.params[f"{site}$draws"][0, 0], node.loc * node.unit, atol=1e-3)
