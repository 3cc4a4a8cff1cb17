"""Laplace: the exact posterior of a regression, every form through every door that takes a fit, and what is refused."""

import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import stats

import bayesprune as bp
from bayesprune.infer.predict import draw_sites
from bayesprune.posteriors.params import CHOSEN
from tests.infer import programs
from tests.model.test_net_params import NETS, build, in_its_own_hands

EVERY = lambda path, shape: True  # noqa: E731
FORMS = ("diag", "kron", "full", "last_layer")


def correlated_rows(rows=60) -> bp.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    x[:, 1] = 0.9 * x[:, 0] + 0.4 * x[:, 1]
    return bp.Dataset(x, (x @ np.array([1.0, 0, 0.5, 0]) + rng.normal(size=rows)).astype(np.float32))


def linear(**settings) -> bp.BNN:
    given = {"prior": bp.priors.Gaussian(2.0), "likelihood": bp.likelihoods.Normal(1.0), "prunable": EVERY} | settings
    return bp.BNN(nn.Dense(1, use_bias=False), input_shape=(4,), **given)


def exact(data, precision) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of the posterior of a regression of noise 1."""
    p = data.x.T.astype(float) @ data.x + precision * np.eye(4)
    return np.linalg.solve(p, data.x.T.astype(float) @ data.y), p


def around_exact(key, curvature, **settings):
    """The approximation about the maximum of a regression."""
    data, bnn = correlated_rows(), linear()
    trained = {"params": {"kernel": exact(data, 0.7)[0][:, None].astype(np.float32)}}
    fit = bp.laplace(key, bnn, trained, data, curvature=curvature, **({"prior_precision": 0.7} | settings))
    return bnn, data, fit


@pytest.mark.parametrize("structure", ["ggn", pytest.param("exact", marks=pytest.mark.slow)])
@pytest.mark.parametrize("curvature", ["full", "kron", "last_layer"])
def test_of_a_regression_it_is_the_exact_posterior_evidence_and_removal(curvature, structure, rng_key) -> None:
    """Covariance, evidence and (20.1) of the exact model; of one output a Kronecker product is the whole curvature."""
    if (curvature, structure) == ("kron", "exact"):
        pytest.skip("refused")
    bnn, data, fit = around_exact(rng_key, curvature, structure=structure)
    mean, p = exact(data, 0.7)
    covariance = np.linalg.inv(p)
    node = bnn.posterior(fit.params)["kernel"]
    factor = np.asarray(node.rows) * np.asarray(node.unit)
    np.testing.assert_allclose(np.ravel(node.loc * node.unit), mean, rtol=1e-5)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=2e-3, atol=1e-6)
    law = stats.multivariate_normal(np.zeros(len(data.y)), np.eye(len(data.y)) + data.x @ data.x.T / 0.7)
    assert -fit.losses[0] == pytest.approx(law.logpdf(data.y), rel=1e-5)

    def evidence(columns: list[int]) -> float:
        x = data.x[:, columns].astype(float)
        return stats.multivariate_normal(np.zeros(len(x)), np.eye(len(x)) + x @ x.T / 0.7).logpdf(data.y)

    gains = [evidence([j for j in range(4) if j != i]) - evidence([0, 1, 2, 3]) for i in range(4)]
    np.testing.assert_allclose(np.ravel(node.gain()), gains, rtol=1e-3, atol=2e-3)


def test_of_a_bias_a_kronecker_product_is_exact_too(rng_key) -> None:
    """An array of one weight: of its two factors one holds nothing but the number 1."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -0.5, 0.2]) + 0.3 + rng.normal(size=200)).astype(np.float32)[:, None]
    bnn = bp.BNN(nn.Dense(1), prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Normal(1.0), input_shape=(3,))
    design = np.column_stack([x, np.ones(200)]).astype(float)
    mean = np.linalg.solve(design.T @ design + np.eye(4), design.T @ y)
    trained = {"params": {"kernel": mean[:3].astype(np.float32), "bias": mean[3].astype(np.float32)}}
    fit = bp.laplace(rng_key, bnn, trained, bp.Dataset(x, y), curvature="kron", prior_precision=1.0)
    drawn = bp.predict_draws(jax.random.key(1), bnn, fit.params, np.zeros((1, 3), np.float32), num_samples=20_000)
    # The conditional variance; 2 % are four standard errors.
    assert np.std(np.ravel(drawn)) == pytest.approx(1.0 / np.sqrt(201.0), rel=0.02)


def test_conditional_variances_overstate_what_correlated_inputs_lose(rng_key) -> None:
    """The second trap: 1/P_ii against [P^-1]_ii. The diagonal's evidence is wrong by a multiple; the marginal one is exact."""
    mean, p = exact(correlated_rows(), 0.7)
    covariance = np.linalg.inv(p)
    for variances, expected in (("conditional", 1.0 / np.diag(p)), ("marginal", np.diag(covariance))):
        bnn, _, fit = around_exact(rng_key, "diag", variances=variances)
        node = bnn.posterior(fit.params)["kernel"]
        np.testing.assert_allclose(np.ravel(node.scale * node.unit) ** 2, expected, rtol=1e-4)
        gain = 0.5 * np.log(1 / 0.7 / expected) - mean**2 / (2 * expected)
        np.testing.assert_allclose(np.ravel(node.gain()), gain, rtol=1e-3)
    assert np.ravel(node.gain())[1] > 0, "the twin that does nothing goes by exact evidence"
    conditional = 0.5 * np.log(np.diag(p) / 0.7) - mean**2 * np.diag(p) / 2
    assert conditional[0] < 4 * np.ravel(node.gain())[0] < 0, "and the other's loss is overstated"
    bnn, _, fit = around_exact(rng_key, "full", variances="conditional")
    node = bnn.posterior(fit.params)["kernel"]  # of one array the others are none
    np.testing.assert_allclose(np.ravel(node.scale * node.unit) ** 2, np.diag(covariance), rtol=1e-3)


def test_a_precision_for_each_weight_is_refused_and_the_error_says_why(rng_key) -> None:
    with pytest.raises(ValueError, match=r"dF0 = -\(k - 1 - log k\)/2 <= 0.*keeps all.*'layer', 'unit' or 'scalar'"):
        around_exact(rng_key, "diag", prior_precision="weight")


@pytest.fixture(scope="module")
def trained():
    """A small classifier, trained as points."""
    data = programs.classes(rows=150)
    bnn = programs.small_bnn(posterior="map", prunable=EVERY)
    return data, bnn, bp.fit_svi(jax.random.key(0), bnn, data, num_steps=400, progress=False)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("curvature", FORMS)
def test_what_comes_back_goes_where_a_fit_goes(curvature, trained, rng_key, tmp_path) -> None:
    """bmr_prune, Cut, predict, net_params, compact, files; by the network that was trained as points."""
    data, bnn, fit = trained
    found = bp.laplace(rng_key, bnn, fit, data, curvature=curvature)
    assert len(found.history["laplace/prior_precision"]) == (1 if curvature == "last_layer" else 3)
    before = bnn.net_params(fit.params)["params"]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found.net_params(bnn)["params"], before)
    probs = bp.predict(rng_key, bnn, found.params, data.x, num_samples=20)
    # A full covariance reaches further than the network is straight: only the tangent's draws are what it is exact for.
    tangent = bp.predict(rng_key, bnn, found.params, data.x, num_samples=50, linearised=True)
    assert bp.metrics.summary(tangent, data.y)["accuracy"] > 0.85
    pruned = bp.bmr_prune(found.params)
    shapes = {str(spec.path): spec.shape for spec in bnn.layout}
    assert all(np.shape(alive) == shapes[site] for site, alive in pruned.mask.items())
    rest = bp.predict(rng_key, bnn, pruned.params, data.x, mask=pruned.mask, num_samples=20)
    assert np.isfinite(rest).all()
    found.save(tmp_path / "fit.safetensors")
    loaded = bp.load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(bp.predict(rng_key, bnn, loaded.params, data.x, num_samples=20), probs)
    if curvature == "diag":
        cut = bp.prune_once(found.params, bp.methods.Cut(score="snr", density=0.3), program=bnn)
        small = bp.compact(bnn, cut.params, cut.mask)
        again = bp.predict(rng_key, bnn, cut.params, data.x, mask=cut.mask, num_samples=200)
        # A draw's deviation is at most a half: 5 standard errors of the difference, passed once in 4,000 at worst.
        assert np.abs(small.predict(data.x, rng_key=rng_key, num_samples=200) - again).max() < 0.25


@pytest.mark.slow
def test_the_dead_stay_dead(trained, rng_key) -> None:
    data, bnn, fit = trained
    cut = bp.prune_once(fit.params, bp.methods.Magnitude(density=0.4), program=bnn)
    found = bp.laplace(rng_key, bnn, cut, data)
    for site, node in bnn.posterior(found.params).items():
        dead = ~np.asarray(cut.mask[site])
        assert not np.asarray(node.loc)[dead].any() and not np.asarray(node.scale)[dead].any()
        assert (np.asarray(node.scale)[~dead] > 0).all()
    pruned = bp.bmr_prune(found.params)
    assert all(not (np.asarray(pruned.mask[s]) & ~np.asarray(cut.mask[s])).any() for s in cut.mask)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETS)
def test_nets_of_linen_nnx_and_equinox_are_taken_as_they_were_trained(kind, rng_key) -> None:
    net = NETS[kind]()
    rows = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    trained = net.init(jax.random.key(7), jnp.asarray(rows)) if isinstance(net, nn.Module) else net
    bnn = build(net)
    fit = bp.laplace(rng_key, bnn, trained, bp.Dataset(rows, np.arange(30) % 2))
    own = trained if not isinstance(net, nnx.Module) else nnx.state(net)
    np.testing.assert_allclose(
        in_its_own_hands(net, bnn.net_params(fit.params)), in_its_own_hands(net, own), rtol=1e-5, atol=1e-6
    )
    assert all((np.asarray(node.scale) > 0).all() for node in bnn.posterior(fit.params).values())


@pytest.mark.slow
def test_the_noise_is_that_of_the_errors_and_the_priors_are_those_that_were_chosen(rng_key) -> None:
    data = correlated_rows(rows=400)
    bnn = linear(likelihood=bp.likelihoods.Normal())
    mean, _ = exact(data, 1e-3)
    fit = bp.laplace(rng_key, bnn, {"params": {"kernel": mean[:, None].astype(np.float32)}}, data, prior_precision="unit")
    assert bnn.likelihood.read_noise_scale(fit.params) == pytest.approx(np.std(data.y - data.x @ mean), rel=0.02)
    delta = fit.history["laplace/prior_precision"]
    node = bnn.posterior(fit.params)["kernel"]
    assert np.ravel(node.prior_scale * node.unit) == pytest.approx(delta**-0.5, rel=1e-5)
    assert bp.bmr_prune(fit.params).mask["kernel"].shape == (4, 1)
    np.testing.assert_array_equal(bp.bmr_prune(fit.params, program=bnn).mask["kernel"], bp.bmr_prune(fit.params).mask["kernel"])
    with pytest.raises(ValueError, match=r"the data chose.*without data="):
        bp.bmr_prune(fit.params, program=bnn, data=data, rng_key=rng_key)
    own = bp.laplace(rng_key, bnn, fit, data, prior_precision="own")
    assert float(np.ravel(own.params["kernel" + CHOSEN])[0]) == pytest.approx(1.0)


@pytest.mark.slow
def test_what_cannot_be_is_refused(trained, rng_key) -> None:
    data, bnn, fit = trained
    for told, settings in {
        r"curvature.*'daig'.*did you mean|curvature.*diag": {"curvature": "daig"},
        r"structure": {"structure": "fisher"},
        r"variances": {"variances": "joint"},
        r"needs the curvature across arrays.*curvature='full'": {"curvature": "kron", "variances": "marginal"},
        r"no Kronecker product": {"curvature": "kron", "structure": "exact"},
        r"prior_precision='unit' has no place": {"curvature": "kron", "prior_precision": "unit"},
        r"prior_precision must be positive": {"prior_precision": -1.0},
        r"num_draws is of structure='ggn'": {"structure": "empirical", "num_draws": 2},
    }.items():
        with pytest.raises(ValueError, match=told):
            bp.laplace(rng_key, bnn, fit, data, **settings)
    with pytest.raises(ValueError, match=r"a Gaussian about zero, of one scale .* DiracSlab gives .* none"):
        slab = programs.small_bnn(prior=bp.priors.DiracSlab(-1.0))
        bp.laplace(rng_key, slab, bnn.net_params(fit.params), data)
    with pytest.raises(ValueError, match=r"Horseshoe gives .* none"):
        bp.laplace(rng_key, programs.small_bnn(prior=bp.priors.Horseshoe()), bnn.net_params(fit.params), data)
    with pytest.raises(ValueError, match=r"numbers of its own, .*posterior='map'"):
        counts = bp.BNN(
            bp.nets.MLP((3,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.NegativeBinomial(), input_shape=(4,)
        )
        trained_net = bp.nets.MLP((3,), 1).init(rng_key, jnp.ones((1, 4)))
        bp.laplace(rng_key, counts, trained_net, bp.Dataset(data.x, data.y))
    with pytest.raises(TypeError, match="bnn must be"):
        bp.laplace(rng_key, programs.linear_program(), {}, data)


def test_memory_is_counted_before_it_is_taken_and_the_refusal_names_what_fits(rng_key) -> None:
    """Of 10,000 weights together six gigabytes would be asked for; nothing is allocated on the way to the error."""
    bnn = bp.BNN(bp.nets.MLP((100,), 3), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(100,))
    net = bp.nets.MLP((100,), 3).init(rng_key, jnp.ones((1, 100)))
    data = bp.Dataset(np.zeros((5, 100), np.float32), np.arange(5) % 3)
    with pytest.raises(ValueError, match=r"'full' takes 5\.\d\d GiB for 10,403.*'kron' or 'last_layer' or 'diag', or raise"):
        bp.laplace(rng_key, bnn, net, data, curvature="full")
    with pytest.raises(ValueError, match=r"'kron' takes .*no curvature fits"):
        bp.laplace(rng_key, bnn, net, data, curvature="kron", max_bytes=1000)


@pytest.mark.every
@pytest.mark.slow
def test_25_8_linearised_draws_have_the_means_of_the_tangent(trained, rng_key) -> None:
    """(25.8), against Jacobians by brute force, draw by draw; of a network that is linear it is what it always is."""
    data, bnn, fit = trained
    found = bp.laplace(rng_key, bnn, fit, data)
    x = jnp.asarray(data.x[:3])
    got = bp.predict_draws(rng_key, bnn, found.params, x, num_samples=2, linearised=True)
    values, _ = bnn.take(bnn.net_params(found.params))
    jacobian = jax.jacobian(lambda w: bnn.forward(w, {}, x))(values)
    nodes = bnn.posterior(found.params)
    for index in range(2):
        drawn = draw_sites(bnn, rng_key, index, found.params, {})
        change = {site: drawn[site] * nodes[site].unit - values[site] for site in nodes}
        slope = sum(np.tensordot(np.asarray(jacobian[s]), np.asarray(change[s]), change[s].ndim) for s in change)
        expected = jax.nn.softmax(bnn.forward(values, {}, x) + slope)
        np.testing.assert_allclose(got[index], expected, atol=2e-2)  # the unit's own spread of a thousandth
    straight, line, flat = around_exact(rng_key, "full")
    pair = [bp.predict_draws(rng_key, straight, flat.params, line.x[:4], num_samples=3, linearised=on) for on in (True, False)]
    np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"no derivatives"):
        bp.predict(rng_key, bp.compact(bnn, fit.params, {}), None, x, linearised=True)


@pytest.mark.parametrize("curvature", ["diag", "full"])
def test_a_prior_of_several_scales_in_an_array_is_each_weights_own(curvature, rng_key) -> None:
    """The exact posterior of a regression under N(0, s_i²); a Kronecker product has no room for it."""
    data, scales = correlated_rows(), np.array([[0.05], [1.0], [10.0], [0.5]], np.float32)
    node = {"_auto_loc": scales, "_auto_scale": scales, "$unit": np.float32(1.0), "$prior_scale": scales}
    told = types.SimpleNamespace(params={f"kernel{end}": jnp.asarray(value) for end, value in node.items()})
    bnn = linear(prior=bp.priors.Empirical(told))
    p = data.x.T.astype(float) @ data.x + np.diag(np.ravel(scales).astype(float) ** -2)
    trained = {"params": {"kernel": np.linalg.solve(p, data.x.T @ data.y)[:, None].astype(np.float32)}}
    fit = bp.laplace(rng_key, bnn, trained, data, curvature=curvature, prior_precision="own")
    found = bnn.posterior(fit.params)["kernel"]
    variance = np.ravel(found.scale * found.unit) ** 2
    np.testing.assert_allclose(variance, 1 / np.diag(p) if curvature == "diag" else np.diag(np.linalg.inv(p)), rtol=2e-3)
    with pytest.raises(ValueError, match=r"'own' gives the weights of 'kernel' 4 standard deviations.*'diag' or 'full'"):
        bp.laplace(rng_key, bnn, trained, data, curvature="kron", prior_precision="own")


def test_a_whole_number_is_a_precision_as_any_other(rng_key) -> None:
    one, other = (around_exact(rng_key, "diag", prior_precision=given)[2] for given in (2, 2.0))
    precisions = (fit.history["laplace/prior_precision"] for fit in (one, other))
    assert all(found.dtype.kind == "f" and (found == 2.0).all() for found in precisions)
    assert programs.same_bits(one.params, other.params)


def test_yesterdays_posterior_is_no_prior_of_a_laplace_approximation(rng_key) -> None:
    """It would be about zero without a word, and yesterday's rows forgotten."""
    data, bnn = correlated_rows(), linear()
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=2, progress=False)
    today = linear(prior=bp.priors.Posterior(fit))
    with pytest.raises(ValueError, match=r"priors\.Posterior is about another fit's means.*bp\.fit_svi"):
        bp.laplace(rng_key, today, fit.net_params(bnn), data)


def test_a_word_that_belongs_elsewhere_is_told_so(rng_key) -> None:
    with pytest.raises(ValueError, match=r"unknown structure 'kron'.*It is a curvature="):
        around_exact(rng_key, "diag", structure="kron")
