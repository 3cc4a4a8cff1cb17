"""Correlated families: densities and divergences against SciPy and matrices, fits against exact posteriors, refusals."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from numpyro.handlers import seed, trace
from scipy import stats
from tests.infer import programs

import bayesprune as bp
from bayesprune.model.handlers import masked
from bayesprune.posteriors.correlated import CorrelatedFamily, CorrelatedNormal
from bayesprune.posteriors.divergence import divergence, read_elementwise
from bayesprune.report.bits import bits_per_weight
from bayesprune.report.export import load_posterior, save_fit


def law(seed=0) -> tuple[CorrelatedNormal, np.ndarray]:
    """A matrix normal of three rows and two columns, and its covariance over the six weights."""
    rng = np.random.default_rng(seed)
    rows, columns = (np.tril(rng.normal(size=(size, size))) for size in (3, 2))
    for factor in (rows, columns):
        np.fill_diagonal(factor, rng.uniform(0.3, 1, len(factor)))
    loc = rng.normal(size=(3, 2))
    return CorrelatedNormal(*map(jnp.array, (loc, rows, columns))), np.kron(rows @ rows.T, columns @ columns.T)


@pytest.mark.slow
def test_densities_by_weights_add_up_to_the_joint_one(float64) -> None:
    q, covariance = law()
    value = np.random.default_rng(1).normal(size=(3, 2))
    expected = stats.multivariate_normal.logpdf(value.ravel(), np.ravel(q.loc), covariance)
    assert float(q.log_prob(jnp.array(value)).sum()) == pytest.approx(expected, rel=1e-10)
    two = q.log_prob(jnp.stack([jnp.array(value), jnp.zeros((3, 2))]))
    assert two.shape == (2, 3, 2) and float(two[0].sum()) == pytest.approx(expected, rel=1e-10)


def test_draws_have_the_covariance(rng_key) -> None:
    """100,000 draws: means and covariances within 5 standard errors (at 27 numbers, fails once in 6e4)."""
    q, covariance = law()
    draws = np.asarray(q.sample(rng_key, (100_000,)), np.float64).reshape(-1, 6) - np.ravel(q.loc)
    spread = np.diag(covariance)
    assert np.all(np.abs(draws.mean(0)) < 5 * np.sqrt(spread / 1e5))
    error = np.sqrt((np.outer(spread, spread) + covariance**2) / 1e5)
    assert np.all(np.abs(draws.T @ draws / 1e5 - covariance) < 5 * error)


@pytest.mark.parametrize("alive", [np.ones((3, 2), bool), np.array([[1, 0], [1, 0], [0, 0]], bool)])
def test_20_5_is_the_divergence_of_the_whole_covariance(alive, float64) -> None:
    """(20.5), summed over the living weights, by determinants and traces; with dead ones, of the posterior without them."""
    q, covariance = law()
    mean, kept = np.ravel(q.loc), alive.ravel()
    if not kept.all():
        # Row 2 and column 1 are gone: condition by blocks, then spread the factors out again.
        slope = covariance[np.ix_(kept, ~kept)] @ np.linalg.inv(covariance[np.ix_(~kept, ~kept)])
        covariance, mean = (
            covariance[np.ix_(kept, kept)] - slope @ covariance[np.ix_(~kept, kept)],
            mean[kept] - slope @ mean[~kept],
        )
        rows = np.zeros((3, 3))
        rows[:2, :2] = np.linalg.cholesky(covariance)
        loc = np.zeros((3, 2))
        loc[:2, 0] = mean
        q = CorrelatedNormal(*map(jnp.array, (loc, rows, np.diag([1.0, 0.0]))))
    scale = 0.7
    trace = np.trace(covariance) / scale**2 + mean @ mean / scale**2 - len(mean)
    expected = 0.5 * (trace + 2 * len(mean) * np.log(scale) - np.linalg.slogdet(covariance)[1])
    prior = read_elementwise(dist.Normal(0.0, scale).expand([3, 2]).mask(jnp.array(alive)))
    assert float(divergence(q, prior).sum()) == pytest.approx(expected, rel=1e-9)


def correlated_rows(rows=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    x[:, 1] = 0.95 * x[:, 0] + 0.3 * x[:, 1]
    return bp.Dataset(x, (x @ np.array([1.0, 0, 0.5, 0]) + rng.normal(size=rows)).astype(np.float32))


def linear(kind, outputs=1, **settings) -> bp.BNN:
    return bp.BNN(
        nn.Dense(outputs, use_bias=False), prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(4,), posterior=kind, prunable=lambda path, shape: True, **settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    """A linear regression with correlated inputs, fitted with a full covariance."""
    bnn, data = linear("full"), correlated_rows()
    optimizer = optax.adam(optax.cosine_decay_schedule(0.03, 2000))
    return (
        bnn,
        data,
        bp.fit_svi(jax.random.key(0), bnn, data, num_steps=2000, optimizer=optimizer, num_particles=8, progress=False),
    )


def test_a_fit_finds_the_exact_posterior_of_a_regression(fitted) -> None:
    """Mean within .1 of its deviations, covariances within 10 % of the product of the deviations, at a fixed key."""
    bnn, data, fit = fitted
    exact = np.linalg.inv(data.x.T @ data.x + np.eye(4))
    node = bnn.read(fit.params)["kernel"]
    deviation = np.sqrt(np.diag(exact))
    np.testing.assert_array_less(np.abs(np.ravel(node.loc) - exact @ data.x.T @ data.y), 0.1 * deviation)
    np.testing.assert_array_less(np.abs(np.asarray(node.rows @ node.rows.T) - exact), 0.1 * np.outer(deviation, deviation))
    mean_field = np.diag(np.linalg.inv(exact)) ** -0.5
    assert np.all(np.ravel(node.scale)[:2] > 2 * mean_field[:2]), "the marginals of twins are wider than their conditionals"


@pytest.mark.slow
def test_a_pruned_fit_predicts_with_what_is_left(fitted) -> None:
    """One twin stays; the predictive mean and the files know of the weights that moved; another mask is refused."""
    bnn, data, fit = fitted
    pruned = bp.bmr_prune(fit.params)
    alive = np.asarray(pruned.mask["kernel"])[:, 0]
    assert alive.sum() == 2 and alive[:2].sum() == 1 and alive[2]
    kept = data.x[:, alive]
    exact = np.linalg.solve(kept.T @ kept + np.eye(2), kept.T @ data.y)
    got = bp.predict(jax.random.key(1), bnn, pruned.params, data.x[:5], mask=pruned.mask, num_samples=2000)
    np.testing.assert_allclose(np.ravel(got), kept[:5] @ exact, atol=0.05)
    with pytest.raises(ValueError, match=r"one pruning, .* of bp.bmr_prune\.$"):
        bp.predict(jax.random.key(1), bnn, fit.params, data.x[:5], mask=pruned.mask)
    with pytest.raises(ValueError, match=r"another mask, which cuts fewer.*not bp\.connected's"):
        bp.predict(jax.random.key(1), bnn, pruned.params, data.x[:5], mask={"kernel": np.zeros((4, 1), bool)})
    drawn = trace(seed(masked(bnn.guide, pruned.mask), 0)).get_trace()["kernel"]["value"]
    assert float(jnp.abs(drawn[~alive]).max()) == 0


@pytest.mark.parametrize("kind", ["full", pytest.param("matrix_normal", marks=pytest.mark.slow)])
def test_files_keep_the_covariance(kind, tmp_path) -> None:
    """Bit for bit."""
    bnn, data = linear(kind, outputs=2), correlated_rows()
    fit = bp.fit_svi(jax.random.key(0), bnn, data._replace(y=np.stack([data.y, data.y], 1)), num_steps=3, progress=False)
    save_fit(tmp_path / "p.safetensors", bnn, fit)
    saved = load_posterior(tmp_path / "p.safetensors")
    node = bnn.read(fit.params)["kernel"]
    for back in (saved.posterior["kernel"], bnn.read(saved.params)["kernel"]):
        assert type(back) is type(node)
        for field in ("loc", "scale", "rows", "columns"):
            np.testing.assert_array_equal(getattr(back, field), getattr(node, field))
    assert fit.params.keys() == bp.load(_saved(fit, tmp_path)).params.keys()


def _saved(fit, folder):
    fit.save(folder / "fit.safetensors")
    return folder / "fit.safetensors"


@pytest.mark.slow
def test_a_matrix_normal_net_trains_and_is_cut_by_rows_and_columns() -> None:
    """Kernels by factors, biases by one; on the digits' shape of problem, whole rows and columns go and it still predicts."""
    bnn, data = programs.small_bnn(prior=bp.priors.Flat(), posterior="matrix_normal"), programs.classes(rows=60)
    fit = bp.fit_svi(
        jax.random.key(0), bnn, data, num_steps=200, optimizer=optax.adam(0.02), course=bp.courses.Plain(), progress=False
    )
    assert {"Dense_0.kernel_auto_rows", "Dense_0.kernel_auto_columns", "Dense_0.bias_auto_factor"} <= fit.params.keys()
    pruned = bp.bmr_prune(fit.params)
    kept = np.asarray(pruned.mask["Dense_0.kernel"])
    assert 0 < kept.sum() < kept.size and (kept == np.outer(kept.any(1), kept.any(0))).all()
    probs = bp.predict(jax.random.key(1), bnn, pruned.params, data.x, mask=pruned.mask, num_samples=5)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)


@pytest.mark.slow
def test_chosen_arrays_alone_vary_together() -> None:
    bnn = programs.small_bnn(posterior=CorrelatedFamily(sites=("Dense_0.bias",)))
    fit = bp.fit_svi(jax.random.key(0), bnn, programs.classes(rows=20), num_steps=2, progress=False)
    assert {"Dense_0.bias_auto_factor", "Dense_0.kernel_auto_scale"} <= fit.params.keys()
    assert [site for site, node in bnn.read(fit.params).items() if node.together] == ["Dense_0.bias"]
    pruned = bp.bmr_prune(fit.params)
    left = bnn.read(pruned.params)
    assert {str(spec.path) for spec in bnn.layout if spec.prunable} == pruned.mask.keys()
    for site, alive in pruned.mask.items():
        np.testing.assert_array_equal(np.asarray(left[site].scale) != 0, alive)
    with pytest.raises(ValueError, match=r"weights of Dense_0.bias vary together.*without a sparsifier"):
        bp.fit_svi(jax.random.key(0), bnn, programs.classes(rows=20), num_steps=2, sparsifier=bp.methods.BMR(), every=1)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", ["full", "matrix_normal"])
def test_scales_start_with_the_spread_that_was_asked_for(kind, rng_key) -> None:
    """Of 40 deviations at .1 with spread .02: their mean and spread within 4 standard errors; and they are no mean field's."""
    net = nn.Dense(40, use_bias=False)
    family = CorrelatedFamily(covariance=kind, init_scale=0.1, init_spread=0.02, sites=("kernel",))
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Normal(1.0), input_shape=(2,), posterior=family)
    sites = trace(seed(bnn.guide, rng_key)).get_trace()
    factors = [sites[name]["value"] for name in sites if name.endswith(("_factor", "_rows", "_columns"))]
    assert all((np.asarray(factor) == np.diag(np.diagonal(factor))).all() for factor in factors)
    scales = np.diagonal(factors[-1]) ** len(factors)  # of a matrix normal the columns' alone
    assert abs(scales.mean() - 0.1) < 4 * 0.02 / np.sqrt(len(scales)) and 0.01 < scales.std() < 0.03


PRIORS = (
    bp.priors.Horseshoe(),
    bp.priors.DiracSlab(),
    bp.priors.GaussianSlab(),
    bp.priors.UnitNoise(),
    bp.priors.GroupHorseshoe(),
)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_priors_that_couple_or_gate_weights_are_refused(prior) -> None:
    with pytest.raises(ValueError, match=r"Gaussian by themselves|points for weights"):
        programs.small_bnn(prior=prior, posterior="full")


def test_what_is_too_large_or_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match=r"32 x 32 numbers, and largest=16: take posterior='matrix_normal'"):
        programs.small_bnn(posterior=CorrelatedFamily(largest=16))
    programs.small_bnn(posterior=CorrelatedFamily(covariance="matrix_normal", largest=16))
    with pytest.raises(ValueError, match=r"Dense_0.kernel"):
        programs.small_bnn(posterior=CorrelatedFamily(sites=("Dense_0.kernl",)))
    with pytest.raises(ValueError, match="matrix_normal"):
        CorrelatedFamily(covariance="matrix")


@pytest.mark.parametrize("what", ["sparsifier", "mask", "storage", "init", "init_params", "whole mask"])
def test_training_does_not_cut_on_the_way(what, fitted) -> None:
    bnn, data, fit = fitted
    pruned = bp.bmr_prune(fit.params)
    settings = {
        "sparsifier": {"sparsifier": bp.methods.BMR(), "every": 2},
        "mask": {"mask": pruned.mask},
        "storage": {"storage": "active"},
        "init": {"init": pruned},
        "init_params": {"init_params": pruned.params, "mask": {}},
        "whole mask": {"init_params": pruned.params, "mask": {"kernel": jnp.ones((4, 1), bool)}},
    }
    with pytest.raises(ValueError, match="trains whole arrays"):
        bp.fit_svi(jax.random.key(0), bnn, data, num_steps=4, progress=False, **settings[what])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("argument", ["init", "init_params"])
def test_a_start_of_independent_weights_is_refused_by_its_names(argument, fitted) -> None:
    bnn, data, _ = fitted
    start = bp.fit_svi(jax.random.key(0), linear("mean_field"), data, num_steps=1, progress=False)
    with pytest.raises(ValueError, match="_auto_scale"):
        bp.fit_svi(
            jax.random.key(0),
            bnn,
            data,
            num_steps=1,
            progress=False,
            **{argument: start if argument == "init" else start.params},
        )


def test_means_of_a_cut_are_those_of_what_is_left(fitted) -> None:
    """Not the whole posterior's with zeros in it: a mask is taken with the parameters of its pruning alone."""
    bnn, _, fit = fitted
    pruned = bp.bmr_prune(fit.params)
    with pytest.raises(ValueError, match="one pruning"):
        bnn.net_params(fit.params, mask=pruned.mask)
    own = bnn.net_params(pruned.params, mask=pruned.mask)["params"]["kernel"]
    np.testing.assert_array_equal(own, pruned.params["kernel_auto_loc"])


def test_what_reads_independent_weights_refuses_them(fitted) -> None:
    bnn, data, fit = fitted
    with pytest.raises(ValueError, match="vary together"):
        bits_per_weight(bnn.read(fit.params), {"kernel": np.ones((4, 1), bool)})
    with pytest.raises(ValueError, match="vary together"):
        bp.reduce_scales(jax.random.key(0), bnn, fit.params, bp.priors.Horseshoe(), num_steps=2)
    with pytest.raises(ValueError, match="mean_field"):
        bp.from_trained(bnn, bnn.net_params(fit.params))
    with pytest.raises(ValueError, match="not independent Gaussians"):
        bp.compact(bnn, fit.params)
    masks = {"kernel": np.zeros((2, 4, 1), bool)}
    stacked = bp.Dataset(np.stack([data.x] * 2), np.stack([data.y] * 2))
    with pytest.raises(ValueError, match="trains whole arrays"):
        bp.fit_replicates(jax.random.key(0), bnn, stacked, num_steps=2, mask=masks, progress=False)


@pytest.mark.slow
def test_a_fit_goes_on_from_its_factors(fitted) -> None:
    bnn, data, fit = fitted
    optimizer = optax.adam(optax.cosine_decay_schedule(0.03, 2000))
    on = bp.fit_svi(jax.random.key(1), bnn, data, num_steps=2, init=fit, optimizer=optimizer, progress=False)
    np.testing.assert_allclose(on.params["kernel_auto_factor"], fit.params["kernel_auto_factor"], atol=0.01)


@pytest.mark.parametrize("shape", [(48, 1), (8, 6)])
def test_the_density_of_a_draw_is_exact_where_the_factor_cannot_be_solved_for(shape: tuple[int, int]) -> None:
    """Off-diagonals as large as the diagonal, as a few steps make them: the condition is beyond single precision."""
    rng = np.random.default_rng(0)
    factors = [np.tril(rng.normal(size=(size, size)) * 1.5, -1) + np.eye(size) for size in shape]
    law = CorrelatedNormal(jnp.zeros(shape), *(jnp.asarray(0.1 * factor, jnp.float32) for factor in factors))
    draw, known = law(rng_key=jax.random.key(0), sample_intermediates=True)
    np.testing.assert_array_equal(draw, law.sample(jax.random.key(0)))
    # The factors have ones on their diagonals: log|2 pi K| is that of their scales alone.
    half_log_det = np.prod(shape) * (0.5 * np.log(2 * np.pi) + 2 * np.log(0.1))
    expected = -0.5 * np.square(np.asarray(known[0], np.float64)).sum() - half_log_det
    assert float(law.log_prob(draw, known).sum()) == pytest.approx(expected, rel=1e-5)
    with np.errstate(all="ignore"):
        solved = float(law.log_prob(draw).sum())
    assert shape == (8, 6) or abs(solved - expected) > 10  # the way back is what is lost
