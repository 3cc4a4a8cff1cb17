"""SWAG: moments of a path by NumPy, the spread of plain descent simulated apart, every door after it, what is refused."""

import importlib
import warnings

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.formulas.swag import PathMoments
from bayesprune.train.collecting import collecting
from tests.infer import programs

swag_module = importlib.import_module("bayesprune.infer.swag")  # whose function has its name in `bayesprune`
DATA, STEPS = programs.classes(200), {"num_steps": 60, "batch_size": 20, "learning_rate": 1e-3, "progress": False}


def build(**settings) -> bp.BNN:
    return programs.small_bnn(prior=bp.priors.Gaussian(0.7), **settings)


@pytest.fixture(scope="module")
def trained() -> bp.FitResult:
    return bp.fit_svi(jax.random.key(0), build(posterior="map"), DATA, num_steps=300, batch_size=50, progress=False)


@pytest.mark.parametrize("count", [3, 7, 8])
def test_moments_are_those_of_the_points_that_were_passed(count) -> None:
    """Mean and variance by NumPy of a path whose spread is 1e-4 of its place, and deviations as they came, (27.1)."""
    path = (100.0 + 0.01 * np.random.default_rng(0).normal(size=(3 * count, 2))).astype(np.float32)
    optimizer = collecting(every=3, rank=3)
    state = optimizer.init({"w": jnp.zeros(2)})
    for before, after in zip(np.vstack([np.zeros((1, 2), np.float32), path]), path, strict=False):
        _, state = jax.jit(optimizer.update)({"w": after - before}, state, {"w": before})
    points = path[2::3].astype(float)
    found = state.moments["w"]
    assert int(state.points) == count
    np.testing.assert_allclose(found.mean, points.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.squares / count, points.var(0), rtol=0.02)
    means = np.cumsum(points, 0) / np.arange(1, count + 1)[:, None]
    last = {(n - 1) % 3: points[n - 1] - means[n - 1] for n in range(max(1, count - 2), count + 1)}
    for row, deviation in last.items():
        np.testing.assert_allclose(found.deviations[row], deviation, atol=1e-4)


def test_draws_have_the_covariance_of_all_weights_together() -> None:
    """(27.2), diag(v) / 2 + D D' / (2 (K - 1)), across two arrays. 20,000 draws, 4 sd of an entry's error are allowed."""
    rng, count = np.random.default_rng(1), 5
    deviations = rng.normal(size=(4, 3))
    squares = rng.uniform(1, 4, 3)
    moments = PathMoments(jnp.arange(3.0), jnp.array(squares, jnp.float32), jnp.array(deviations, jnp.float32))
    parts = {
        "a": PathMoments(moments.mean[:2], moments.squares[:2], moments.deviations[:, :2]),
        "b": PathMoments(moments.mean[2:], moments.squares[2:], moments.deviations[:, 2:]),
    }
    drawn = swag_module._drawn(jax.random.key(0), parts, count, 20_000)
    together = np.concatenate([np.asarray(drawn["a"]), np.asarray(drawn["b"])], 1)
    expected = np.diag(squares / count) / 2 + deviations.T @ deviations / (2 * 3)
    np.testing.assert_allclose(together.mean(0), [0, 1, 2], atol=0.04)
    sd = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 20_000)
    np.testing.assert_array_less(abs(np.cov(together.T) - expected), 4 * sd)


@pytest.mark.slow
def test_spread_is_that_of_plain_descent(rng_key) -> None:
    """Of a regression, against descent written in NumPy with its own order of rows: traces over 8,000 steps within 15 %.

    Ten pairs of NumPy's own seeds differed by 4 % (one sd), so that 15 % are more than 3.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) * [1.0, 2.0, 0.5]
    y = x @ [1.0, -1.0, 0.5] + rng.normal(size=200)
    bnn = bp.BNN(
        nn.Dense(1, use_bias=False),
        prior=bp.priors.Gaussian(2.0),
        likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(3,),
    )
    best = np.linalg.solve(x.T @ x + np.eye(3) / 4, x.T @ y)
    data = bp.Dataset(x.astype(np.float32), y.astype(np.float32))
    fit = bp.swag(
        rng_key, bnn, {"params": {"kernel": best[:, None].astype(np.float32)}}, data,
        num_steps=8000, batch_size=20, learning_rate=0.05, momentum=0.5, collect_every=1, progress=False,
    )  # fmt: skip
    w, velocity, passed = best.copy(), np.zeros(3), []
    for step in range(8000):
        if step % 10 == 0:
            order = rng.permutation(200)
        rows = order[20 * (step % 10) : 20 * (step % 10 + 1)]
        gradient = -(x[rows].T @ (y[rows] - x[rows] @ w)) / 20 + w / 4 / 200
        velocity = 0.5 * velocity + gradient
        w = w - 0.05 * velocity
        passed.append(w)
    node = bnn.posterior(fit.params)["kernel"]
    expected = np.var(passed, 0)
    np.testing.assert_allclose(np.ravel(node.loc * node.unit), best, atol=4 * np.sqrt(expected.max() / 100))
    np.testing.assert_allclose(np.ravel(node.scale * node.unit) ** 2, expected, rtol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diag", "low_rank"])
@pytest.mark.parametrize("posterior", ["map", "mean_field"])
def test_it_goes_wherever_a_fit_goes(trained, covariance, posterior, rng_key, tmp_path) -> None:
    bnn = build(posterior=posterior)
    fit = bp.swag(rng_key, bnn, trained, DATA, covariance=covariance, **STEPS | {"learning_rate": 0.05})
    assert fit.losses.shape == (60,)
    assert fit.history["swag/points"] == 6
    figures = bp.evaluate(rng_key, bnn, fit.params, DATA)
    assert figures["accuracy"] > 0.9
    pruned = bp.bmr_prune(fit.params, program=bnn)
    probs = bp.predict(rng_key, bnn, pruned.params, DATA.x, mask=pruned.mask, num_samples=20)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    fit.save(tmp_path / "fit.safetensors")
    back = bp.load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(bp.predict(rng_key, bnn, back.params, DATA.x), bp.predict(rng_key, bnn, fit.params, DATA.x))
    small = bp.compact(bnn, fit.params) if covariance == "diag" else None
    if small is not None:
        assert np.mean(np.argmax(small.predict(DATA.x), 1) == DATA.y) > 0.9
    again = bp.swag(rng_key, bnn, trained, DATA, covariance=covariance, **STEPS | {"learning_rate": 0.05})
    jax.tree.map(np.testing.assert_array_equal, again.params, fit.params)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diag", "low_rank"])
def test_what_was_pruned_stays_and_what_is_no_weight_stands(covariance, rng_key) -> None:
    data, _ = programs.line(200)
    bnn = bp.BNN(bp.nets.MLP((5,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=400, batch_size=50, progress=False)
    cut = bp.prune_once(fit.params, bp.methods.Cut("snr", 0.5), program=bnn)
    around = bp.swag(rng_key, bnn, cut, data, covariance=covariance, **STEPS)
    nodes = bnn.of(around.params).posterior(around.params)
    for site, alive in cut.mask.items():
        assert not np.asarray(nodes[site].loc)[~np.asarray(alive)].any()
        assert (np.asarray(nodes[site].scale) > 0)[np.asarray(alive)].all()
    before = bp.evaluate(rng_key, bnn, cut.params, data, mask=cut.mask)["nll"]
    assert bp.evaluate(rng_key, bnn, around.params, data)["nll"] == pytest.approx(before, abs=0.1)


@pytest.mark.slow
def test_a_weight_that_does_not_move_is_alive_all_the_same(rng_key) -> None:
    """Behind an input that is always 0, under a wide prior: the descent leaves the weight to the bit."""
    x = np.asarray(DATA.x).copy()
    x[:, 3] = 0
    data = bp.Dataset(x, DATA.y)
    bnn = programs.small_bnn(prior=bp.priors.Gaussian(1e3))
    start = bp.fit_svi(rng_key, programs.small_bnn(prior=bp.priors.Gaussian(1e3), posterior="map"), data, num_steps=50)
    fit = bp.swag(rng_key, bnn, start, data, **STEPS)
    assert (np.asarray(bnn.posterior(fit.params)["Dense_0.kernel"].scale) > 0).all()


class Normed(nn.Module):
    """Dense layers with statistics of batches between them."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(3)(nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 200}, "all the rows, and swag's spread"),
        ({"num_steps": 19}, "passes 1 points of one every 10 steps.*num_steps=200"),
        ({"rank": 1}, "rank must be at least 2"),
        ({"covariance": "full"}, "unknown covariance 'full'"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        ({"collect_every": 0}, "collect_every must be"),
        ({"batch_size": 500}, "larger than the data set"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message, rng_key) -> None:
    with pytest.raises(ValueError, match=message):
        bp.swag(rng_key, build(), {}, DATA, **STEPS | settings)


@pytest.mark.slow
def test_what_it_is_not_for_is_refused(trained, rng_key) -> None:
    horseshoe, weights = programs.small_bnn(prior=bp.priors.Horseshoe()), build(posterior="map").net_params(trained.params)
    with pytest.raises(ValueError, match="swag needs a prior that is a Gaussian about zero"):
        bp.swag(rng_key, horseshoe, weights, DATA, **STEPS)
    with pytest.raises(ValueError, match=r"no 'Dense_0\.nu_log_loc', which Horseshoe asks for: they are of another prior"):
        bp.laplace(rng_key, horseshoe, trained, DATA)
    settings = {"likelihood": bp.likelihoods.Categorical(), "input_shape": (4,), "prior": bp.priors.Gaussian()}
    bnn = bp.BNN(Normed(), posterior="map", **settings)
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=20, batch_size=50, progress=False)
    with pytest.raises(ValueError, match="running statistics of batches"):
        bp.swag(rng_key, bnn, fit, DATA, **STEPS)
    with pytest.warns(UserWarning, match=r"The path has left the minimum.*Give a smaller learning_rate="):
        bp.swag(rng_key, build(), trained, DATA, **STEPS | {"learning_rate": 2.0})
    with pytest.raises(bp.DivergedError):
        bp.swag(rng_key, build(), trained, DATA, **STEPS | {"learning_rate": 1e9})


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("covariance", ["diag", "low_rank"])
def test_a_weight_at_zero_is_no_pruned_one(covariance, trained, rng_key) -> None:
    """Of somebody's network, where a whole unit is dead: its weights are alive, with a spread, and nothing warns."""
    weights = jax.tree.map(np.array, build(posterior="map").net_params(trained.params))
    weights["params"]["Dense_0"]["kernel"][:, 0] = 0.0
    weights["params"]["Dense_0"]["bias"][0] = 0.0
    weights["params"]["Dense_1"]["kernel"][0] = 0.0
    bnn = build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = bp.swag(rng_key, bnn, weights, DATA, covariance=covariance, **STEPS)
    assert not fit.mask
    assert all((np.asarray(node.scale) > 0).all() for node in bnn.of(fit.params).posterior(fit.params).values())


@pytest.mark.slow
def test_parameters_alone_say_what_was_pruned(rng_key) -> None:
    """Of a mean field: loc = scale = 0. So it is for Laplace, which took them for weights that the data say nothing of."""
    bnn = build()
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=100, batch_size=50, progress=False)
    cut = bp.prune_once(fit.params, bp.methods.Cut("snr", 0.5), program=bnn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        around = [bp.swag(rng_key, bnn, cut.params, DATA, **STEPS), bp.laplace(rng_key, bnn, cut.params, DATA)]
    for one in around:
        for site, alive in cut.mask.items():
            np.testing.assert_array_equal(one.mask[site], alive)
            np.testing.assert_array_equal(np.asarray(bnn.posterior(one.params)[site].scale) > 0, alive)


@pytest.mark.slow
def test_drawn_networks_have_drawn_numbers_of_the_likelihood(rng_key) -> None:
    """log c ~ N(loc, scale²) of 400 draws, within 4 standard errors; what a prior has learned stays."""
    y = np.random.default_rng(0).poisson(3.0, 200).astype(np.float32)
    settings = {"likelihood": bp.likelihoods.NegativeBinomial(), "input_shape": (4,), "prior": bp.priors.Flat()}
    bnn = bp.BNN(bp.nets.MLP((4,), 1), **settings)
    data = bp.Dataset(DATA.x, y)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=200, batch_size=50, progress=False)
    drawn = bp.swag(rng_key, bnn, fit, data, covariance="low_rank", num_draws=400, **STEPS | {"learning_rate": 1e-4})
    logs = np.log(np.ravel(drawn.params["concentration$draws"]))
    loc, scale = (float(fit.params[f"concentration_log_{part}"]) for part in ("loc", "scale"))
    assert logs.mean() == pytest.approx(loc, abs=4 * scale / 20)
    assert logs.std() == pytest.approx(scale, rel=4 / np.sqrt(800))
    scales = [values for name, values in drawn.params.items() if "gamma" in name and name.endswith("$draws")]
    assert all(np.ptp(np.asarray(one)) == 0 for one in scales)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diag", "low_rank"])
def test_what_is_sent_is_sent_by_intent(covariance, trained, rng_key) -> None:
    with jax.transfer_guard("disallow"):
        bp.swag(rng_key, build(), trained, DATA, covariance=covariance, **STEPS)


@pytest.mark.slow
def test_weights_without_a_posterior_do_not_move(rng_key) -> None:
    bnn = build(bayesian=bp.select.kernels, posterior="map")
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=50, batch_size=50, progress=False)
    around = bp.swag(rng_key, bnn, fit, DATA, **STEPS)
    for name in ("Dense_0.bias", "Dense_2.bias"):
        np.testing.assert_array_equal(around.params[name], fit.params[name])


class _Sized(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(3)(x) * jnp.exp(self.param("out_log_scale", nn.initializers.constant(0.7), (1,)))


def test_a_parameter_by_the_name_of_a_spread_is_one_of_the_network(rng_key) -> None:
    bnn = bp.BNN(
        _Sized(), prior=bp.priors.Gaussian(0.7), likelihood=bp.likelihoods.Categorical(), input_shape=DATA.x.shape[1:],
        bayesian=bp.select.kernels,
    )  # fmt: skip
    trained = _Sized().init(rng_key, DATA.x[:1])
    for covariance in ("diag", "low_rank"):
        found = bp.swag(rng_key, bnn, trained, DATA, covariance=covariance, **STEPS).params
        name = "out_log_scale" + ("$draws" if covariance == "low_rank" else "")
        np.testing.assert_array_equal(np.unique(found[name]), np.float32(0.7))  # as it was 0.001
    assert float(bp.laplace(rng_key, bnn, trained, DATA).params["out_log_scale"][0]) == np.float32(0.7)


@pytest.mark.parametrize("taken", [10, 30])
def test_a_path_that_is_interrupted_has_two_points_or_none(taken, trained, rng_key, monkeypatch) -> None:
    """Ctrl-C at a prompt, which ends the path after so many steps: one point is no spread, three are a result that says so."""

    def interrupted(*args, num_steps, **settings) -> bp.FitResult:
        path = bp.fit_svi(*args, num_steps=taken, **settings)
        return path._replace(history=path.history | {"interrupted/step": np.asarray([taken])})

    monkeypatch.setattr(swag_module, "fit_svi", interrupted)
    run = lambda: bp.swag(rng_key, build(posterior="map"), trained, DATA, **STEPS)  # noqa: E731
    if taken == 10:
        with pytest.raises(KeyboardInterrupt, match="before the path's second point, at step 20"):
            run()
    else:
        fit = run()
        assert fit.interrupted and fit.history["swag/points"].tolist() == [3]
