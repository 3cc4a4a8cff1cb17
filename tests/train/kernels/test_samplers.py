"""The samplers' kernels: against NumPy, BlackJAX, and the variances that they are known to have."""

import functools
import itertools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from blackjax.sgmcmc import diffusions
from blackjax.util import generate_gaussian_noise

import bayesprune as bp
from bayesprune.formulas import sghmc_spl as formula
from bayesprune.model.transforms.noise import normal_like
from bayesprune.train.kernel import Kernel
from bayesprune.train.kernels import sghmc, sghmc_spl, sgld

START = {"a": jnp.array([1.0, -2.0]), "b": jnp.array([[0.5]])}
GRADIENT = {"a": jnp.array([3.0, 0.5]), "b": jnp.array([[-1.0]])}
TOLD = bp.kernels.SGHMCSPL(num_rows=50, num_cycles=0, step_size=0.1, decay=0.2)
KERNELS = [
    bp.kernels.SGLD(0.01),
    bp.kernels.SGHMC(0.01),
    TOLD,
    bp.kernels.BlackJAX(blackjax.sgld.build_kernel(), step_size=0.01),
]


@pytest.fixture
def their_noise(monkeypatch):
    """BlackJAX's noise in our kernels."""
    for file in (sgld, sghmc, sghmc_spl):
        monkeypatch.setattr(file, "normal_like", generate_gaussian_noise)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_sampler_is_a_kernel(kernel) -> None:
    """Pure, jitted alike, and its moments are put back where they come from."""
    assert isinstance(kernel, Kernel)
    state = kernel.init(START)
    one = kernel.step(jax.random.key(0), GRADIENT, START, state)
    other = jax.jit(kernel.step)(jax.random.key(0), GRADIENT, START, state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), one, other)
    again = kernel.with_moments(one[1], kernel.moments(one[1]))
    jax.tree.map(np.testing.assert_array_equal, again, one[1])
    assert all(tree.keys() == START.keys() for tree in kernel.moments(state).values())


def test_the_noise_of_every_array_is_normal_and_its_own() -> None:
    """Large arrays and small ones, in any order. Means and variances lie within 5 deviations of those of n draws, and so do
    the products of two arrays' first numbers: one failure in a hundred thousand keys."""
    sizes = {"a": 7, "b": 2**15, "c": 1, "d": 2**15 + 1, "e": 0, "f": 2**15 - 1}
    params = {name: jnp.zeros((size, 1), jnp.bfloat16 if name == "f" else jnp.float32) for name, size in sizes.items()}
    noise = jax.jit(normal_like)(jax.random.key(1), params)
    assert {name: (leaf.shape, leaf.dtype) for name, leaf in noise.items()} == {
        name: (leaf.shape, leaf.dtype) for name, leaf in params.items()
    }
    numbers = {name: np.asarray(noise[name], np.float64).reshape(-1) for name in "bdf"}
    for one, other in itertools.combinations(numbers.values(), 2):
        products = one[: 2**15 - 1] * other[: 2**15 - 1]
        assert abs(products.mean()) < 5 / len(products) ** 0.5
    for found in numbers.values():
        assert abs(found.mean()) < 5 / len(found) ** 0.5 and abs(found.var() - 1) < 5 * (2 / len(found)) ** 0.5


def test_sgld_is_blackjax_s(their_noise) -> None:
    """(7.8)."""
    key, ours = jax.random.key(3), bp.kernels.SGLD(step_size=0.02, temperature=0.5)
    theirs = bp.kernels.BlackJAX(blackjax.sgld.build_kernel(), step_size=0.02, temperature=0.5)
    found, expected = (kernel.step(key, GRADIENT, START, kernel.init(START))[0] for kernel in (ours, theirs))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)


def test_sghmc_is_blackjax_s_in_other_units(their_noise) -> None:
    """(7.9): with v = h p, eps = h² and alpha = friction h, momentum before position instead of after."""
    h, friction, key = 0.1, 2.0, jax.random.key(4)
    momentum = {"a": jnp.array([0.3, 0.1]), "b": jnp.array([[-0.7]])}
    upwards = jax.tree.map(jnp.negative, GRADIENT)
    place, after = diffusions.sghmc(alpha=friction)(key, START, momentum, upwards, h, 1.0)
    kernel = bp.kernels.SGHMC(step_size=h**2, friction=friction * h)
    moved, state = kernel.step(key, GRADIENT, place, sghmc.Momentum(0, jax.tree.map(lambda p: h * p, momentum)))
    jax.tree.map(lambda v, p: np.testing.assert_allclose(v, h * p, rtol=1e-5), state.momentum, after)
    jax.tree.map(lambda w, x, p: np.testing.assert_allclose(w, x + h * p, rtol=1e-5), moved, place, after)


def test_a_thermostat_of_blackjax_runs() -> None:
    kernel = bp.kernels.BlackJAX(
        blackjax.sgnht.build_kernel(0.1), lambda at: blackjax.sgmcmc.sgnht.init(at, jax.random.key(0), 0.1), step_size=0.1
    )
    params, state = kernel.step(jax.random.key(0), GRADIENT, START, kernel.init(START))
    again, _ = kernel.step(jax.random.key(1), GRADIENT, params, state)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(again))
    assert not np.allclose(again["a"], params["a"])


def test_the_temperature_reaches_kernels_of_others(their_noise) -> None:
    """By its name, wherever it stands, else as the last of six."""
    ours = bp.kernels.SGLD(step_size=0.02, temperature=0.5)
    theirs = blackjax.sgld.build_kernel()

    def late(rng_key, state, grad_estimator, minibatch, step_size, scale=1.0, temperature=1.0):
        assert scale == 1.0
        return theirs(rng_key, state, grad_estimator, minibatch, step_size, temperature)

    def plain(rng_key, state, grad_estimator, minibatch, step_size, T):
        return theirs(rng_key, state, grad_estimator, minibatch, step_size, T)

    key = jax.random.key(3)
    expected = ours.step(key, GRADIENT, START, ours.init(START))[0]
    for inner in (late, plain):
        kernel = bp.kernels.BlackJAX(inner, step_size=0.02, temperature=0.5)
        found = jax.jit(kernel.step)(key, GRADIENT, START, kernel.init(START))[0]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)


def test_kernels_of_several_gradients_are_refused() -> None:
    """They would see one stale gradient: sghmc with its inner steps, one that asks twice, one that asks elsewhere."""

    def twice(rng_key, state, grad_estimator, minibatch, step_size, temperature):
        grad_estimator(state, minibatch)
        return grad_estimator(state, minibatch)

    def elsewhere(rng_key, state, grad_estimator, minibatch, step_size, temperature):
        return grad_estimator(jax.tree.map(lambda w: w + 1.0, state), minibatch)

    inner_steps = functools.partial(blackjax.sghmc.build_kernel(), num_integration_steps=1)
    for inner, words in ((inner_steps, "at another position"), (elsewhere, "at another position"), (twice, "twice in a step")):
        kernel = bp.kernels.BlackJAX(inner)
        with pytest.raises(ValueError, match=rf"{words}.*take kernels\.SGHMC"):
            jax.eval_shape(kernel.step, jax.random.key(0), GRADIENT, START, kernel.init(START))


def test_what_is_no_kernel_of_blackjax_is_refused_when_it_is_given() -> None:
    build = r"give blackjax\.sgld\.build_kernel\(\)"
    for given, words in (
        (blackjax.sgld, build),
        ("sgld", build),
        (blackjax.sgld(lambda position, minibatch: position), build),
        (blackjax.sgld.build_kernel, build),
        (blackjax.sghmc.build_kernel(), r"num_integration_steps.*take kernels\.SGHMC"),
    ):
        with pytest.raises(TypeError, match=rf"kernel must be.*{words}"):
            bp.kernels.BlackJAX(given)
    with pytest.raises(TypeError, match="start must be a function"):
        bp.kernels.BlackJAX(blackjax.sgld.build_kernel(), START)


@pytest.mark.parametrize(
    ("inner", "start"),
    [
        (blackjax.sgld.build_kernel(), None),
        (blackjax.sgnht.build_kernel(1.0), lambda at: blackjax.sgmcmc.sgnht.init(at, jax.random.key(0), 1.0)),
    ],
    ids=["sgld", "sgnht"],
)
def test_kernels_of_blackjax_sample_a_gaussian(inner, start) -> None:
    """N(0, 1/4), four standard errors, and 5 % for a step of finite size: its bias, .042 for sgld, is (7.8)'s."""
    kernel = bp.kernels.BlackJAX(inner, *([start] if start else []), step_size=0.02)
    found, _ = settled(kernel, 4.0, 600)
    assert found.var() == pytest.approx(0.25, rel=4 * np.sqrt(2 / CHAINS) + 0.05)


def test_the_kernel_of_spl_is_its_formula(their_noise) -> None:
    """(7.1) to (7.3), two steps; a decay that was set counts from then on."""
    params, state, w = START, TOLD.init(START), np.asarray(START["a"])
    knobs = formula.Knobs(50**-0.5, 50)
    before = formula.Moved(jnp.zeros(2), jnp.zeros(2), jnp.zeros(2))
    for number, decay in ((0, 0.2), (1, 0.06)):
        key = jax.random.key(number)
        if number:
            state = TOLD.with_decay(state, {"a": jnp.array([3.0, 3.0])})  # nats: 3/50 per row
        noise = generate_gaussian_noise(key, params)["a"]
        change, before = formula.step(w, GRADIENT["a"], decay, before, noise, 0.1, knobs)
        w = w + change
        params, state = TOLD.step(key, GRADIENT, params, state)
        np.testing.assert_allclose(params["a"], w, rtol=1e-6)
    np.testing.assert_allclose(state.decay["b"], 0.2)


def test_the_optax_form_moves_alike() -> None:
    """The same noise key, step by step, as in any optax loop."""
    moves = bp.optimizers.sghmc_spl(jax.random.key(5), num_rows=50, step_size=0.1, num_cycles=0, decay=0.2)
    state, params = moves.init(START), START
    kernel_state, others = TOLD.init(START), START
    for number in range(3):
        updates, state = moves.update(GRADIENT, state, params)
        params = optax.apply_updates(params, updates)
        others, kernel_state = TOLD.step(jax.random.fold_in(jax.random.key(5), number), GRADIENT, others, kernel_state)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), params, others)
    with pytest.raises(ValueError, match="needs the parameters"):
        moves.update(GRADIENT, state)


CHAINS = 4000  # side by side; a variance of so many draws has a standard error of sqrt(2/4000) = 2.2 %


def settled(kernel, curvature, steps: int) -> np.ndarray:
    """Where 4,000 chains on a Gaussian of this curvature, or of a column of them, stand after ``steps`` steps."""

    def body(number, carry):
        params, state = carry
        gradient = jax.tree.map(lambda w: curvature * w, params)
        return kernel.step(jax.random.fold_in(jax.random.key(7), number), gradient, params, state)

    first = {"w": jnp.zeros((*np.shape(curvature)[:1], CHAINS))}
    params, state = jax.jit(lambda: jax.lax.fori_loop(0, steps, body, (first, kernel.init(first))))()
    return np.asarray(params["w"]), state


@pytest.mark.parametrize(
    ("kernel", "curvature", "variance"),
    [
        (bp.kernels.SGLD(0.1, temperature=0.5), 4.0, 0.5 / 4 / (1 - 0.4 / 2)),
        (bp.kernels.SGHMC(0.05, friction=0.3, temperature=2.0), 4.0, 2 / 4 / (1 - 0.2 / (2 * 1.7))),
    ],
    ids=["sgld", "sghmc"],
)
def test_the_variance_on_a_gaussian_is_the_derived_one(kernel, curvature, variance) -> None:
    """(7.8), (7.9): four standard errors are allowed, one failure in 16,000 keys; the key is fixed."""
    found, _ = settled(kernel, curvature, 300)
    assert found.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / CHAINS))


def test_the_variance_of_spl_is_the_derived_one() -> None:
    """(7.6) with the tau that the run ends at, whose movement is slow; the same allowance, and 2 % for that movement."""
    kernel = bp.kernels.SGHMCSPL(step_size=0.2, temperature=0.1, num_cycles=0, num_rows=1000)
    found, state = settled(kernel, 2.0, 300)
    tau = float(formula.spread(state.rho["w"]).mean())
    assert 0.5 < tau < 0.6
    exact = float(formula.variance(2.0, 0.2, tau, formula.Knobs(0.1, 1000)))
    assert found.var() == pytest.approx(exact, rel=4 * np.sqrt(2 / CHAINS) + 0.02)


@pytest.mark.parametrize("steps", [100, 1000])
def test_the_tau_of_spl_climbs_to_one(steps) -> None:
    """By eta/(tau n) in rho: 1 - tau falls by the factor exp(-eta/n) in a step, and the spread's factor rises with tau."""
    kernel = bp.kernels.SGHMCSPL(step_size=0.01, num_cycles=0, num_rows=50)
    tau = formula.spread(settled(kernel, 1.0, steps)[1].rho["w"])
    np.testing.assert_allclose(np.mean(1 - tau), 0.5 * np.exp(-0.1 / 50 * steps), rtol=0.02)
    for at, factor in ((0.5, 0.056), (1.0, 0.112)):
        exact = float(formula.variance(1.0, 0.01, at, formula.Knobs(50**-0.5, 50)))
        assert exact * 50 == pytest.approx(factor, rel=0.02)


def test_the_spread_of_the_thermostat_is_biased_as_it_says() -> None:
    """Its steps heat steep directions, and its thermostat cools flat ones; terms of the second order are left out, 3 %."""
    curvature, alpha, h = np.array([[2.0], [10.0]]), 2.0, 0.05
    start = lambda at: blackjax.sgmcmc.sgnht.init(at, jax.random.key(0), alpha)  # noqa: E731
    found, _ = settled(bp.kernels.BlackJAX(blackjax.sgnht.build_kernel(alpha), start, step_size=h), curvature, 600)
    told = 1 + h * (curvature - curvature.mean()) / alpha - alpha * h / 2
    np.testing.assert_allclose(found.var(axis=1) * curvature[:, 0], told[:, 0], rtol=4 * np.sqrt(2 / CHAINS) + 0.03)
    assert told[0] < 0.9 < 1.04 < told[1]


def test_cycles_begin_anew() -> None:
    kernel = bp.kernels.SGLD(0.1, temperature=0.0, num_cycles=2, num_steps=20)
    paces = []
    params, state = START, kernel.init(START)
    for _ in range(20):
        new, state = kernel.step(jax.random.key(0), GRADIENT, params, state)
        paces.append(float((params["a"] - new["a"])[0] / 3.0))
        params = new
    cosine = 0.05 * (1 + np.cos(np.pi * np.arange(10) / 10))
    np.testing.assert_allclose(paces, np.tile(cosine, 2), atol=1e-6)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="step_size must be positive"):
        bp.kernels.SGLD(-1.0)
    for rates in ("a", np.array([1e-3, 1e-4])):
        with pytest.raises(TypeError, match="step_size must be one number"):
            bp.kernels.SGLD(step_size=rates)
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 0, got -1"):
        bp.kernels.SGLD(num_steps=-1)
    with pytest.raises(TypeError, match="momentum must be one number, got 'a'"):
        bp.kernels.SGHMCSPL(momentum="a")
    with pytest.raises(ValueError, match=r"friction must lie in \(0, 1\]"):
        bp.kernels.SGHMC(friction=0.0)
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        bp.kernels.SGHMCSPL(momentum=1.0)
    with pytest.raises(ValueError, match=r"num_rows of kernels\.SGHMCSPL is not known"):
        kernel = bp.kernels.SGHMCSPL(num_cycles=0)
        kernel.step(jax.random.key(0), GRADIENT, START, kernel.init(START))
    with pytest.raises(ValueError, match="num_steps of the kernel is not known"):
        kernel = bp.kernels.SGHMC(1e-3, num_cycles=2)
        kernel.step(jax.random.key(0), GRADIENT, START, kernel.init(START))


def test_arrays_in_the_place_of_numbers_are_refused() -> None:
    """Each column of the weights would have a number of its own."""
    for kernel, names in ((bp.kernels.SGLD, ["temperature"]), (bp.kernels.SGHMCSPL, ["temperature", "push", "rate", "decay"])):
        for name in names:
            with pytest.raises(TypeError, match=f"{name} must be one number"):
                kernel(**{name: np.array([0.1, 0.2])})


@pytest.mark.parametrize("name", ["SGLD", "SGHMC"])
def test_without_a_step_size_it_is_that_of_a_learning_rate_over_the_rows(name: str) -> None:
    kernel = getattr(bp.kernels, name)
    friction = 0.25 if name == "SGHMC" else 1.0
    settings = {"friction": 0.25} if name == "SGHMC" else {}
    weights, slope = {"w": jnp.ones(3)}, {"w": jnp.full(3, 2.0)}
    here, there = kernel(num_rows=50, **settings), kernel(0.1 * friction / 50, **settings)
    moved = [one.step(jax.random.key(0), slope, weights, one.init(weights))[0]["w"] for one in (here, there)]
    np.testing.assert_array_equal(*moved)
    with pytest.raises(ValueError, match="give num_rows=, or step_size="):
        kernel().step(jax.random.key(0), slope, weights, kernel().init(weights))
