"""The spike-and-slab priors in a network: what is sampled, what is read back, and what stays finite."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import stats

import bayesprune as bp
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune.choose import keep_density
from bayesprune.prune.cutting import expected_density

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
DATA = bp.Dataset(X, X[:, 0])
OPTIMIZER = optax.adam(1e-2)


def network(prior, **settings) -> bp.BNN:
    likelihood = bp.likelihoods.Normal(1.0)
    return bp.BNN(bp.nets.MLP((4, 5), 1), prior=prior, likelihood=likelihood, input_shape=(3,), **settings)


def test_all_weights_may_be_pruned_unless_one_says_otherwise() -> None:
    assert all(spec.prunable for spec in network(bp.priors.DiracSlab()).layout)
    assert all(spec.prunable for spec in network(bp.priors.GaussianSlab()).layout)
    kept = network(bp.priors.DiracSlab(), prunable=bp.select.not_last).layout
    assert [str(s.path) for s in kept if not s.prunable] == ["Dense_2.kernel", "Dense_2.bias"]
    assert not network(bp.priors.Flat()).layout[-1].prunable


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("word", "last"), [("optimal", (30 * 3) ** 0.5), ("optimal_code", 30**0.5 * 3)])
def test_the_optimal_rate_5_3_is_of_this_network(word: str, last: float) -> None:
    """(5.3) for 3-4-5-1: T = 47 weights and biases, L = 2 hidden layers, N = 5, n = 30, p = 3."""
    prior = bp.priors.DiracSlab(word)
    expected = -math.log(47) - 0.1 * (3 * math.log(5) + math.log(last))
    assert prior.log_prior_inclusion(network(prior).layout, 30) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_a_fit_knows_its_rows_where_a_minibatch_does_not(rng_key) -> None:
    """The bound of a whole-data step equals the bound of the model given all rows, and that depends on them."""
    seen = []

    class Spy(bp.priors.DiracSlab):
        def model(self, layout, num_rows):
            seen.append(num_rows)
            return super().model(layout, num_rows)

    bp.fit_svi(rng_key, network(Spy()), DATA, num_steps=1, batch_size=7, optimizer=OPTIMIZER, progress=False)
    assert 30 in seen
    assert seen[-1] != 7


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "estimator"), [("hard", "weight"), ("hard", "local"), ("inverse_cdf", "weight"), ("relaxed", "weight")]
)
def test_a_fit_is_finite_at_an_inclusion_of_1e_200(gate: str, estimator: str, rng_key) -> None:
    prior = bp.priors.DiracSlab(log_inclusion=-460.5, gate=gate, init_inclusion=1 - 1e-7)
    bnn = network(prior)
    settings = {"num_steps": 300, "optimizer": optax.adam(0.3), "estimator": estimator, "progress": False}
    fit = bp.fit_svi(rng_key, bnn, DATA, **settings)
    assert np.isfinite(fit.losses).all()
    assert all(np.isfinite(value).all() for value in fit.params.values())
    assert float(expected_density(bnn.read(fit.params))) < 0.05  # at 460 nats a weight hardly one is worth its price


@pytest.mark.slow
def test_a_start_next_to_certainty_is_finite(rng_key) -> None:
    """1 - 1e-9 is 1 in float32, and its log-odds are an ordinary number: log(1e9)."""
    bnn = network(bp.priors.DiracSlab(init_inclusion=1 - 1e-9))
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=1, optimizer=OPTIMIZER, progress=False)
    assert np.isfinite(fit.losses).all()
    for node in bnn.read(fit.params).values():
        np.testing.assert_allclose(node.logit, math.log(1e9), atol=0.02)  # one step of 1e-2 away


@pytest.mark.slow
def test_inclusion_of_a_gaussian_slab_6_1_is_read_in_the_weights_units(rng_key) -> None:
    """(6.1): p* by SciPy's densities, E_q log N averaged over both components, from weights w = slab w_hat."""
    spike, slab, pi = 0.05, 2.0, 0.3
    bnn = network(bp.priors.GaussianSlab(spike, slab, pi))
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=5, optimizer=OPTIMIZER, progress=False)
    node = bnn.read(fit.params)["Dense_0.kernel"]
    loc, scale = slab * np.asarray(node.loc, np.float64), slab * np.asarray(node.scale, np.float64)
    expected_log = lambda width: stats.norm.logpdf(loc, 0, width) - scale**2 / (2 * width**2)  # noqa: E731
    odds = np.log(pi) + expected_log(slab) - np.log(1 - pi) - expected_log(spike)
    np.testing.assert_allclose(node.logit, odds, rtol=1e-4)


@pytest.mark.every
@pytest.mark.slow
def test_ranking_by_inclusion_is_ranking_by_the_second_moment(rng_key) -> None:
    bnn = network(bp.priors.GaussianSlab())
    nodes = bnn.read(bp.fit_svi(rng_key, bnn, DATA, num_steps=20, optimizer=OPTIMIZER, progress=False).params)
    by_inclusion = bp.prune_once(nodes, bp.methods.SBNN(density=0.4)).mask
    by_moment = keep_density({site: node.loc**2 + node.scale**2 for site, node in nodes.items()}, 0.4)
    for site, alive in by_inclusion.items():
        np.testing.assert_array_equal(alive, by_moment[site])


@pytest.mark.slow
def test_nuts_samples_a_gaussian_slab_network(rng_key) -> None:
    bnn = bp.BNN(
        bp.nets.MLP((), 1),
        prior=bp.priors.GaussianSlab(0.1, 1.0),
        likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(3,),
    )
    mcmc = MCMC(NUTS(bnn.model), num_warmup=100, num_samples=200, progress_bar=False)
    mcmc.run(rng_key, jnp.asarray(DATA.x), jnp.asarray(DATA.y))
    weight = np.asarray(mcmc.get_samples()["Dense_0.kernel"])[:, :, 0].mean(0)
    assert weight[0] == pytest.approx(1.0, abs=0.3) and np.abs(weight[1:]).max() < 0.35


def test_a_cut_next_to_certainty_keeps_what_is_surer() -> None:
    """1 - 1e-9 is 1 in float32: nothing reaches the log-odds of that."""
    posterior = {"w": SpikeSlab(jnp.ones(3), jnp.ones(3), jnp.array([-5.0, 20.0, 25.0]))}
    assert bp.prune_once(posterior, bp.methods.SVBNN(probability=1 - 1e-9)).mask["w"].tolist() == [False, False, True]


def test_a_point_has_no_gate(rng_key) -> None:
    bnn = network(bp.priors.DiracSlab(), posterior="map")
    with pytest.raises(ValueError, match="use posterior='mean_field'"):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=1, progress=False)


@pytest.mark.slow
def test_svbnn_prunes_on_the_way_and_afterwards(rng_key) -> None:
    bnn = network(bp.priors.DiracSlab(log_inclusion=-3.0, init_inclusion=0.6))
    settings = {"num_steps": 200, "optimizer": optax.adam(0.1), "progress": False}
    strong = bp.Dataset(X, 10 * X[:, 0])
    fit = bp.fit_svi(rng_key, bnn, strong, sparsifier=bp.methods.SVBNN(), every=100, **settings)
    assert 0 < fit.history["prune/density"][-1] < 1
    once = bp.prune_once(fit.params, bp.methods.SVBNN(), mask=fit.mask)
    for site, node in bnn.read(fit.params).items():
        np.testing.assert_array_equal(once.mask[site], np.asarray(fit.mask[site]) & (np.asarray(node.logit) >= 0))


def test_a_sparsifier_that_needs_inclusion_is_refused_before_training(rng_key) -> None:
    with pytest.raises(TypeError, match=r"priors\.DiracSlab or priors\.GaussianSlab"):
        bp.fit_svi(rng_key, network(bp.priors.Flat()), DATA, num_steps=10, sparsifier=bp.methods.SVBNN(), every=5)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("prior", [bp.priors.DiracSlab(), bp.priors.GaussianSlab()])
def test_gaussian_evidence_is_not_asked_of_a_spike_and_slab(prior, rng_key) -> None:
    with pytest.raises(TypeError, match=r"with methods\.SVBNN or methods\.SBNN"):
        bp.fit_svi(rng_key, network(prior), DATA, num_steps=10, sparsifier=bp.methods.BMR(), every=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bp.priors.DiracSlab(log_inclusion=0.1), "log_inclusion must be negative"),
        (lambda: bp.priors.DiracSlab(log_inclusion=-math.inf), "log_inclusion must be negative"),
        (lambda: bp.priors.DiracSlab(log_inclusion="optimum"), "Did you mean 'optimal'"),
        (lambda: bp.priors.DiracSlab(gate="soft"), "unknown gate"),
        (lambda: bp.priors.DiracSlab(init_inclusion=1.0), "init_inclusion must lie in"),
        (lambda: bp.priors.DiracSlab(slab_scale=-1.0), "slab_scale must be positive"),
        (lambda: bp.priors.GaussianSlab(spike_scale=1.0, slab_scale=0.5), "the slab is the wide one"),
        (lambda: bp.priors.GaussianSlab(slab_probability=0.0), "slab_probability must lie in"),
        (lambda: bp.priors.GaussianSlab(slab_probability=1 - 1e-9), "slab_probability must lie in"),
        (lambda: bp.methods.SBNN(probability=1.0), "probability must lie in"),
        (lambda: bp.methods.SVBNN(density=0.0), "density must lie in"),
    ],
)
def test_bad_knobs_are_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
def test_expected_density_counts_the_dead_as_zero() -> None:
    node = bp.SpikeSlab(jnp.zeros(4), jnp.ones(4), jnp.array([0.0, 0.0, 50.0, 50.0]))
    mask = {"w": jnp.array([True, False, True, False])}
    assert float(expected_density({"w": node}, mask)) == pytest.approx((0.5 + 1.0) / 4)
    assert float(jax.jit(expected_density)({"w": node})) == pytest.approx(0.75)


class TinyConv(nn.Module):
    """One convolution and one dense layer."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = jnp.tanh(nn.Conv(2, (3, 3))(x))
        return nn.Dense(3)(x.reshape((x.shape[0], -1)))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "estimator"),
    [(bp.priors.DiracSlab(), "local"), (bp.priors.DiracSlab(), "weight"), (bp.priors.GaussianSlab(), "local")],
)
def test_convolutions_have_gates_too(prior, estimator: str, rng_key) -> None:
    images = np.random.default_rng(0).normal(size=(12, 6, 6, 1)).astype(np.float32)
    data = bp.Dataset(images, np.arange(12, dtype=np.int32) % 3)
    likelihood = bp.likelihoods.Categorical()
    bnn = bp.BNN(TinyConv(), prior=prior, likelihood=likelihood, input_shape=(6, 6, 1))
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=20, optimizer=OPTIMIZER, estimator=estimator, progress=False)
    nodes = bnn.read(fit.params)
    assert nodes["Conv_0.kernel"].logit.shape == (3, 3, 1, 2)
    assert np.isfinite(fit.losses).all() and fit.losses[-5:].mean() < fit.losses[:5].mean()
    pruned = bp.prune_once(fit.params, bp.methods.SBNN(density=0.5), read=bnn.read)
    probs = bp.predict(rng_key, bnn, pruned.params, images, mask=pruned.mask, num_samples=3)
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-5)


@pytest.mark.slow
def test_a_gaussian_slabs_node_is_the_gaussian_that_predicts(rng_key, tmp_path) -> None:
    """Its spike is a narrow Gaussian and no point at zero: mean, spread and draws are the weights' own, after a file too."""
    bnn = network(bp.priors.GaussianSlab(0.2, 1.5))
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=20, optimizer=OPTIMIZER, progress=False)
    bp.report.save_fit(tmp_path / "fit.safetensors", bnn, fit)
    for nodes in (bnn.read(fit.params), bp.report.load_posterior(tmp_path / "fit.safetensors").posterior):
        node = nodes["Dense_0.kernel"]
        mean, variance = node.moments()
        weights = bnn.net_params(fit.params)["params"]["Dense_0"]["kernel"]
        np.testing.assert_allclose(mean, weights, rtol=1e-5)
        np.testing.assert_allclose(np.sqrt(variance), 1.5 * np.asarray(node.scale), rtol=1e-5)
        draws = jax.vmap(node.draw)(jax.random.split(rng_key, 20_000))
        apart = (draws.mean(0) - mean) / np.sqrt(variance / 20_000)
        assert np.abs(apart).max() < 5.5  # of a few dozen weights by chance once in 10^6
        np.testing.assert_allclose(draws.std(0), np.sqrt(variance), rtol=0.05)
        assert not node.at_zero
