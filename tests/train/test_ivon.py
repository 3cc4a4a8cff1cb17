"""IVON as an optax transformation, and as a kernel of `fit_svi`: NumPy's own steps, exact posteriors, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.train.kernel import Kernel

LAM, DELTA, H0, RATE = 200.0, 0.01, 0.3, 0.5


class InNumPy:
    """(24.1) to (24.3), written from the paper."""

    def __init__(self, m: np.ndarray, b1: float, b2: float) -> None:
        self.m, self.h, self.gm, self.t = m.copy(), np.full(m.shape, H0), np.zeros(m.shape), 0
        self.b1, self.b2 = b1, b2

    def step(self, g: np.ndarray, hh: np.ndarray, rate: float) -> None:
        b1, b2, h = self.b1, self.b2, self.h
        self.t += 1
        self.gm = b1 * self.gm + (1 - b1) * g
        self.h = b2 * h + (1 - b2) * hh + (1 - b2) ** 2 * (h - hh) ** 2 / (2 * (h + DELTA))
        self.m = self.m - rate * (self.gm / (1 - b1**self.t) + DELTA * self.m) / (self.h + DELTA)


def transformation(**settings) -> optax.GradientTransformationExtraArgs:
    return bp.ivon(
        **({"learning_rate": RATE, "num_rows": LAM, "weight_decay": DELTA, "h0": H0, "b1": 0.8, "b2": 0.9} | settings)
    )


def loss(w: dict) -> jax.Array:
    return jnp.sum(jnp.cos(w["a"])) + jnp.sum(w["b"] ** 4) + jnp.sum(w["a"]) * jnp.sum(w["b"])


PARAMS = {"a": np.array([0.3, -1.0]), "b": np.array([[0.5], [2.0]])}


@pytest.mark.slow
def test_steps_are_those_of_the_paper(float64) -> None:
    """(24.1) to (24.3): ten steps in float64, rate falling."""
    optimizer = transformation(learning_rate=lambda step: RATE / (1 + step))
    params = jax.tree.map(jnp.asarray, PARAMS)
    state = optimizer.init(params)
    oracle = {name: InNumPy(m, 0.8, 0.9) for name, m in PARAMS.items()}
    for number in range(10):
        w = bp.ivon_draw(jax.random.key(number), params, state)
        g = jax.grad(loss)(w)
        updates, state = jax.jit(optimizer.update)(g, state, params, sample=w)
        params = optax.apply_updates(params, updates)
        for name, one in oracle.items():
            hh = np.asarray(g[name]) * (np.asarray(w[name]) - one.m) * LAM * (one.h + DELTA)
            one.step(np.asarray(g[name]), hh, RATE / (1 + number) * (H0 + DELTA))
            np.testing.assert_allclose(params[name], one.m, rtol=1e-9)
            np.testing.assert_allclose(state.curvature[name], one.h, rtol=1e-9)


def test_draws_have_the_state_s_spread(rng_key) -> None:
    """40,000 numbers: mean and variance within 5 of their deviations; one key in a million fails."""
    params = {"w": jnp.full(40_000, 3.0)}
    draws = np.asarray(bp.ivon_draw(rng_key, params, (optax.EmptyState(), transformation().init(params)))["w"], np.float64)
    variance = 1 / (LAM * (H0 + DELTA))
    assert abs(draws.mean() - 3.0) < 5 * (variance / 40_000) ** 0.5
    assert abs(draws.var() / variance - 1) < 5 * (2 / 40_000) ** 0.5


@pytest.mark.slow
def test_on_a_quadratic_it_ends_at_the_exact_posterior(rng_key) -> None:
    """m at the minimum with the decay, h at the Hessian to 2 %: means of 1,000 weights. A weight's h varies by some 3 % and
    its m by .002, their means by .1 % and .0001: a failure would be at ten deviations, and of single m too."""
    hessian, place = 0.7, 1.5
    optimizer = transformation(b1=0.9, b2=0.999, learning_rate=optax.cosine_decay_schedule(0.3, 20_000))
    params = {"w": jnp.zeros(1_000)}

    def step(number: jax.Array, carry: tuple) -> tuple:
        params, state = carry
        w = bp.ivon_draw(jax.random.fold_in(rng_key, number), params, state)
        updates, state = optimizer.update(jax.tree.map(lambda x: hessian * (x - place), w), state, params, sample=w)
        return optax.apply_updates(params, updates), state

    params, state = jax.lax.fori_loop(0, 20_000, step, (params, optimizer.init(params)))
    exact = hessian * place / (hessian + DELTA)
    np.testing.assert_allclose(params["w"].mean(), exact, atol=1e-3)
    np.testing.assert_allclose(params["w"], exact, atol=0.02)
    np.testing.assert_allclose(state.curvature["w"].mean(), hessian, rtol=0.02)
    node = bp.ivon_posterior(params, state)["w"]
    np.testing.assert_allclose(node.prior_scale, (LAM * DELTA) ** -0.5, rtol=1e-6)
    np.testing.assert_allclose(node.scale.mean(), (LAM * (hessian + DELTA)) ** -0.5, rtol=0.02)


def test_what_a_removal_gains_is_said_in_curvatures() -> None:
    """(24.4), in NumPy; a curvature below zero counts as none."""
    m, h = np.array([0.0, 0.1, -2.0, 0.3]), np.array([0.0, 0.01, 5.0, -0.5 * DELTA])
    params = {"w": jnp.asarray(m)}
    state = transformation().init(params)._replace(curvature={"w": jnp.asarray(h)})
    h = np.maximum(h, 0.0)
    expected = 0.5 * np.log1p(h / DELTA) - 0.5 * LAM * (h + DELTA) * m**2
    np.testing.assert_allclose(bp.ivon_posterior(params, state)["w"].gain(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_several_draws_share_a_step_by_their_means(float64) -> None:
    """Gradients and curvatures of two micro-batches averaged: the step of both."""
    optimizer, params = transformation(), jax.tree.map(jnp.asarray, PARAMS)
    state = optimizer.init(params)
    draws = [bp.ivon_draw(jax.random.key(n), params, state) for n in range(2)]
    slopes = [jax.grad(loss)(w) for w in draws]
    said = [bp.ivon_curvature(g, w, params, state) for g, w in zip(slopes, draws, strict=True)]
    mean = lambda trees: jax.tree.map(lambda a, b: (a + b) / 2, *trees)  # noqa: E731
    updates, _ = optimizer.update(mean(slopes), state, params, curvature=mean(said))
    one = InNumPy(PARAMS["a"], 0.8, 0.9)
    hh = sum(np.asarray(g["a"] * (w["a"] - PARAMS["a"])) * LAM * (H0 + DELTA) for g, w in zip(slopes, draws, strict=True)) / 2
    one.step(np.asarray(mean(slopes)["a"]), hh, RATE * (H0 + DELTA))
    np.testing.assert_allclose(params["a"] + updates["a"], one.m, rtol=1e-9)


def test_short_numbers_lose_no_small_steps(rng_key) -> None:
    """Of bfloat16 a step of a thousandth would round away: the means are kept in float32."""
    optimizer, params = transformation(b1=0.0, learning_rate=1e-3, rescale=False), {"w": jnp.ones(8, jnp.bfloat16)}
    state = optimizer.init(params)
    for _ in range(3):
        w = bp.ivon_draw(rng_key, params, state)
        assert w["w"].dtype == jnp.bfloat16
        g = {"w": jnp.full(8, 0.1, jnp.bfloat16)}
        updates, state = optimizer.update(g, state, params, curvature={"w": jnp.full(8, H0)})
        params = optax.apply_updates(params, updates)
    assert params["w"].dtype == jnp.bfloat16
    exact = 1.0
    for _ in range(3):
        exact -= 1e-3 * (float(g["w"][0]) + DELTA * exact) / (H0 + DELTA)
    np.testing.assert_allclose(state.mean[0], exact, rtol=1e-5)
    np.testing.assert_array_equal(params["w"], state.mean[0].astype(jnp.bfloat16))


def test_what_is_missing_is_named(rng_key) -> None:
    optimizer, params = transformation(), {"w": jnp.ones(2)}
    state = optimizer.init(params)
    for given in ({}, {"sample": params, "curvature": params}):
        with pytest.raises(ValueError, match=r"sample=weights"):
            optimizer.update(params, state, params, **given)
    with pytest.raises(ValueError, match=r"sample=weights"):
        optimizer.update(params, state, sample=params)
    with pytest.raises(ValueError, match=r"one bp\.ivon"):
        bp.ivon_draw(rng_key, params, optax.adam(1e-3).init(params))
    with pytest.raises(ValueError, match=r"params must have the tree .* got 2 arrays for 1"):
        bp.ivon_draw(rng_key, {"w": 1.0, "v": 2.0}, state)
    for bad in (
        {"num_rows": 0},
        {"weight_decay": 0.0},
        {"h0": -1.0},
        {"b1": 1.0},
        {"b2": -0.1},
        {"clip": 0.0},
        {"learning_rate": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            transformation(**bad)


def linear(**settings) -> bp.BNN:
    """A regression without a hidden layer, of known noise."""
    chosen = {"prior": bp.priors.Gaussian(2.0), "likelihood": bp.likelihoods.Normal(programs.NOISE), "input_shape": (3,)}
    net = bp.nets.MLP(hidden=(), num_outputs=1)
    return bp.BNN(net, bayesian=bp.select.kernels, prunable=bp.select.kernels, **(chosen | settings))


TOLD = bp.kernels.IVON(
    learning_rate=lambda step: RATE, h0=H0, b1=0.8, b2=0.9, num_rows=int(LAM), prior_scale=(LAM * DELTA) ** -0.5
)


def test_the_kernel_takes_the_same_steps(float64) -> None:
    """The slopes of a bound by sampled weights in loc and scale, against NumPy's (24.1) to (24.3)."""
    m = PARAMS["a"]
    params = TOLD.begin({"w_auto_loc": jnp.asarray(m), "w_auto_scale": jnp.zeros(2), "c": jnp.ones(3)})
    state, oracle = TOLD.init(params), InNumPy(m, 0.8, 0.9)
    for number in range(5):
        eps = np.random.default_rng(number).normal(size=2)
        s = (LAM * (oracle.h + DELTA)) ** -0.5
        np.testing.assert_allclose(jax.nn.softplus(params["w_auto_scale"]), s, rtol=1e-8)
        w = oracle.m + s * eps
        g = -np.sin(w) + 2 * w
        of_scale = g * eps + (s * LAM * DELTA - 1 / s) / LAM
        gradient = {
            "w_auto_loc": jnp.asarray(g + DELTA * oracle.m),
            "w_auto_scale": jnp.asarray(of_scale) * jax.nn.sigmoid(params["w_auto_scale"]),
            "c": jnp.ones(3),
        }
        params, state = jax.jit(TOLD.step)(jax.random.key(0), gradient, params, state)
        oracle.step(g, g * (w - oracle.m) * LAM * (oracle.h + DELTA), RATE * (H0 + DELTA))
        np.testing.assert_allclose(params["w_auto_loc"], oracle.m, rtol=1e-8)
    np.testing.assert_allclose(params["c"], 1 - 5e-3, rtol=1e-4)  # Adam's, by its own rate


def test_it_is_a_kernel_like_any_other() -> None:
    """Pure, jitted alike, its moments are put back where they come from, and dead weights rest."""
    assert isinstance(TOLD, Kernel)
    params = TOLD.begin({"w_auto_loc": jnp.array([0.3, -1.0]), "w_auto_scale": jnp.zeros(2), "c": jnp.ones(3)})
    gradient = {"w_auto_loc": jnp.array([0.1, 0.0]), "w_auto_scale": jnp.array([0.01, 0.0]), "c": jnp.ones(3)}
    state = TOLD.init(params)
    one, other = (step(jax.random.key(0), gradient, params, state) for step in (TOLD.step, jax.jit(TOLD.step)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), one, other)
    again = TOLD.with_moments(one[1], TOLD.moments(one[1]))
    jax.tree.map(np.testing.assert_array_equal, again, one[1])
    np.testing.assert_allclose(one[0]["w_auto_loc"][1], -1.0, atol=1e-6)  # without a slope in loc and scale, as under a mask
    np.testing.assert_allclose(one[0]["w_auto_scale"][1], params["w_auto_scale"][1], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["weight", "local"])
def test_a_fit_ends_at_the_best_mean_field(estimator, rng_key) -> None:
    """Of a linear regression, by linear algebra. The mean of h varies by sqrt(1e-3/8) a weight, about 4 %; seven times that."""
    data, _ = programs.line()
    loc, scale, _ = programs.best_mean_field(data, prior_scale=2.0)
    bnn = linear(prior=bp.priors.Gaussian(2.0, centred=True))
    kernel = bp.kernels.IVON(b2=0.998, h0=4.0)
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=6_000, optimizer=kernel, num_particles=8, estimator=estimator,
        init_params={"Dense_0.bias": jnp.zeros(1)}, course=bp.courses.Plain(),
    )  # fmt: skip
    # The bias is a point of its own, next to zero: rows are centred about it.
    np.testing.assert_allclose(fit.params["Dense_0.kernel_auto_loc"][:, 0], loc, atol=0.5 * scale.max())
    np.testing.assert_allclose(fit.params["Dense_0.kernel_auto_scale"][:, 0], scale, rtol=0.28)
    assert bp.bmr_prune(fit.params, dead="prior").mask["Dense_0.kernel"][:, 0].tolist() == [True, False, True]


@pytest.mark.slow
def test_its_fit_goes_through_the_doors(rng_key, tmp_path) -> None:
    """Same key, same bits; the rate and the start are the kernel's own; cut, predicted, saved, compacted, gone on from."""
    bnn, data = programs.small_bnn(prior=bp.priors.Flat()), programs.classes()
    settings = {
        "num_steps": 12,
        "optimizer": bp.kernels.IVON(),
        "sparsifier": bp.methods.SNR(0.5),
        "every": 6,
        "batch_size": 20,
    }
    fit = bp.fit_svi(rng_key, bnn, data, **settings)
    again = bp.fit_svi(
        rng_key, bnn, data, **settings | {"optimizer": bp.kernels.IVON()}, checkpoint=tmp_path / "c", checkpoint_every=5
    )
    assert programs.same_bits(fit.params, again.params)
    pruned = bp.bmr_prune(fit.params, program=bnn, mask=fit.mask)
    before = bp.predict(rng_key, bnn, pruned.params, data.x, mask=pruned.mask, num_samples=2)
    assert before.shape == (60, 3)
    fit.save(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(
        bp.load(tmp_path / "fit.safetensors").params["Dense_0.kernel_auto_loc"], fit.params["Dense_0.kernel_auto_loc"]
    )
    assert bp.compact(bnn, fit.params, fit.mask) is not None
    more = bp.fit_svi(rng_key, bnn, data, num_steps=3, optimizer=bp.kernels.IVON(), init=fit)
    assert np.isfinite(more.losses).all()


@pytest.mark.slow
def test_the_start_is_h0_s_in_the_network_s_units(rng_key) -> None:
    data, scale = programs.classes(), 0.5
    kernel = bp.kernels.IVON(h0=0.4, learning_rate=lambda step: 0.0, b2=0.999999)
    fit = bp.fit_svi(rng_key, programs.small_bnn(prior=bp.priors.Gaussian(scale)), data, num_steps=1, optimizer=kernel)
    expected = (60 * (0.4 + 1 / (60 * scale**2))) ** -0.5 / scale
    np.testing.assert_allclose(fit.params["Dense_0.kernel_auto_scale"], expected, rtol=1e-3)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("h0", [0.1, 30.0])
def test_weights_without_data_come_back_to_the_prior_within_the_fit(h0, rng_key) -> None:
    """Rows of zeros say nothing: h = h0 exp(-(1 - b2) t) by (24.2), next to the decay's .1 at the end, whatever h0."""
    data = bp.Dataset(np.zeros((20, 3), np.float32), np.zeros(20, np.float32))
    kernel = bp.kernels.IVON(h0=h0)
    fit = bp.fit_svi(rng_key, linear(prior=bp.priors.Gaussian(2.0)), data, num_steps=400, optimizer=kernel, batch_size=20)
    scale = np.asarray(fit.params["Dense_0.kernel_auto_scale"])
    assert (scale > 0.93).all() and (scale < 1.0).all()


def test_what_it_is_not_for_is_refused(rng_key) -> None:
    data, kernel = programs.classes(), bp.kernels.IVON()
    line, _ = programs.line()
    for bnn, words in (
        (programs.small_bnn(posterior="map"), "posterior='mean_field'"),
        (programs.small_bnn(posterior="full"), "posterior='mean_field'"),
        (programs.small_bnn(prior=bp.priors.Cauchy()), r"priors\.Cauchy is none"),
    ):
        with pytest.raises(ValueError, match=words):
            bp.fit_svi(rng_key, bnn, data, num_steps=2, optimizer=kernel)
    with pytest.raises(ValueError, match="hand-written program"):
        bp.fit_svi(rng_key, programs.linear_program(), line, num_steps=2, optimizer=kernel)
    with pytest.raises(ValueError, match="leave kl_weight out"):
        bp.fit_svi(rng_key, programs.small_bnn(), data, num_steps=2, optimizer=kernel, kl_weight=0.1)
    with pytest.raises(ValueError, match="leave them out"):
        bp.fit_svi(rng_key, programs.small_bnn(), data, num_steps=2, optimizer=bp.kernels.IVON(num_rows=7))
    with pytest.raises(TypeError, match="must be a sampler"):
        bp.fit_sgmcmc(rng_key, programs.small_bnn(), data, num_steps=2, kernel=kernel)
    with pytest.raises(ValueError, match="num_rows and prior_scale are not known"):
        kernel.begin({"w_auto_loc": jnp.ones(2), "w_auto_scale": jnp.ones(2)})
    for bad in ({"learning_rate": -1.0}, {"h0": 0.0}, {"b1": 1.0}, {"b2": 1.5}, {"clip": -1.0}, {"num_rows": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            bp.kernels.IVON(**bad)


@pytest.mark.slow
def test_replicates_and_exchanges_of_weights_take_it(rng_key) -> None:
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian(0.5)), programs.classes()
    rows = bp.Dataset(np.stack([data.x] * 2), np.stack([data.y] * 2))
    fits = bp.fit_replicates(rng_key, bnn, rows, num_steps=5, optimizer=bp.kernels.IVON(), progress=False)
    assert np.isfinite(fits.losses).all() and fits.losses.shape == (2, 5)
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=6, optimizer=bp.kernels.IVON(), sparsifier=bp.methods.SSVI(0.4), every=2, storage="active"
    )
    assert fit.history["prune/num_grown"].sum() > 0 and np.isfinite(fit.losses).all()


def test_a_net_s_own_tree_is_pruned_from_the_state(rng_key) -> None:
    """Parameters as Flax has them, nested: the mask is by path, what is left in their tree; weights far from zero stay."""
    optimizer = bp.ivon(0.1, num_rows=1_000, weight_decay=0.01, h0=0.5)
    params = {"params": {"Dense_0": {"kernel": jnp.array([[3.0, 0.0], [0.001, -2.0]]), "bias": jnp.zeros(2)}}}
    pruned = bp.bmr_prune(bp.ivon_posterior(params, (optimizer.init(params), optax.EmptyState())))
    assert pruned.mask["params.Dense_0.kernel"].tolist() == [[True, False], [False, True]]
    assert pruned.params["params"]["Dense_0"]["kernel"].loc[0].tolist() == [3.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("around", ["clipped", "accumulated"])
def test_behind_or_within_others_the_curvature_that_is_given_is_what_counts(around, rng_key) -> None:
    """The spread of a regression, 1 / sqrt(diagonal of the precision), where clipping binds and where steps are gathered."""
    x = jax.random.normal(rng_key, (200, 2))
    y = x @ jnp.array([1.0, -0.5]) + 0.5 * jax.random.normal(jax.random.key(7), (200,))
    inner = bp.ivon(0.1, num_rows=200, weight_decay=0.01, h0=1.0, b2=0.999)
    optimizer = optax.chain(optax.clip_by_global_norm(0.1), inner) if around == "clipped" else optax.MultiSteps(inner, 4)
    params = {"w": jnp.zeros(2)}

    def step(carry, key):
        params, state = carry
        w = bp.ivon_draw(key, params, state)
        g = jax.grad(lambda w: jnp.mean((y - x @ w["w"]) ** 2) / 2 / 0.25)(w)
        curvature = bp.ivon_curvature(g, w, params, state)
        updates, state = optimizer.update(g, state, params, curvature=curvature)
        return (optax.apply_updates(params, updates), state), None

    keys = jax.random.split(rng_key, 12_000)
    (params, state), _ = jax.jit(lambda carry: jax.lax.scan(step, carry, keys))((params, optimizer.init(params)))
    found = bp.ivon_posterior(params, state)["w"].scale
    exact = 1.0 / np.sqrt(np.diag(np.asarray(x.T @ x)) / 0.25 + 200 * 0.01)
    np.testing.assert_allclose(found, exact, rtol=0.15)


def test_settings_may_be_injected() -> None:
    """`optax.inject_hyperparams` hands traced numbers on, which no check can compare."""
    optimizer = optax.inject_hyperparams(bp.ivon)(learning_rate=0.1, num_rows=64, weight_decay=0.03)
    params = {"w": jnp.ones(3)}
    state = optimizer.init(params)
    update = jax.jit(lambda g, state: optimizer.update(g, state, params, sample=params))
    plain = bp.ivon(0.1, num_rows=64, weight_decay=0.03)
    wanted, _ = plain.update({"w": jnp.ones(3)}, plain.init(params), params, sample=params)
    np.testing.assert_allclose(update({"w": jnp.ones(3)}, state)[0]["w"], wanted["w"], rtol=1e-6)


@pytest.mark.parametrize("around", [lambda tx: tx, lambda tx: optax.chain(optax.clip(1.0), tx)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_under_keep_zeros_dead_weights_are_in_no_draw(around, dtype, rng_key) -> None:
    """Nor in the posterior, so that a prune of it leaves them dead; the living are as they would be."""
    params = {"w": jnp.array([1.0, 0.0, 0.5, 0.0], dtype), "b": jnp.array([0.3], dtype)}
    alive = np.array([True, False, True, False])
    tx = bp.keep_zeros(around(bp.ivon(0.1, num_rows=50, weight_decay=0.01, b2=0.9)))
    state = tx.init(params)
    for n in range(4):
        drawn = bp.ivon_draw(jax.random.fold_in(rng_key, n), params, state)
        assert not np.asarray(drawn["w"], np.float32)[~alive].any() and np.asarray(drawn["w"] != params["w"])[alive].all()
        gradient = jax.tree.map(lambda w: 2.0 * (w - 1.0), drawn)
        updates, state = tx.update(gradient, state, params, sample=drawn)
        params = optax.apply_updates(params, updates)
    posterior = bp.ivon_posterior(params, state)
    np.testing.assert_array_equal(np.asarray(posterior["w"].scale) > 0, alive)
    assert posterior["b"].scale > 0 and not np.asarray(posterior["w"].loc, np.float32)[~alive].any()
    assert not np.asarray(bp.bmr_prune(posterior).mask["w"])[~alive].any()
