"""IVON within optax's own wrappers: numbers that are injected, some parameters only, gathered steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp

H0, RATE, B1, B2 = 0.3, 0.1, 0.8, 0.9
ROWS, DECAY = 1_000.0, 0.02


def injected(**schedules) -> optax.GradientTransformationExtraArgs:
    settings = {"learning_rate": RATE, "num_rows": ROWS, "weight_decay": DECAY, "h0": H0, "b1": B1, "b2": B2}
    return optax.inject_hyperparams(bp.ivon)(**settings | schedules)


SCHEDULES = {
    "num_rows": (lambda t: ROWS / (1 + t), lambda t: DECAY),
    "weight_decay": (lambda t: ROWS, lambda t: DECAY * (1 + t)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_numbers_that_change_are_those_of_the_last_update(name, rng_key) -> None:
    """(24.1) to (24.3) in NumPy. A draw has the numbers of the update before it, and so has what it says of the curvature."""
    rows, decay = SCHEDULES[name]
    optimizer = injected(**{name: rows if name == "num_rows" else decay})
    m, params, g = np.array([1.0, -0.5, 0.2]), {"w": jnp.array([1.0, -0.5, 0.2])}, np.array([0.3, -0.1, 0.2])
    state, h, gm = optimizer.init(params), np.full(3, H0), np.zeros(3)
    update = jax.jit(lambda state, params, w: optimizer.update({"w": jnp.asarray(g)}, state, params, sample=w))
    for t in range(5):
        w = bp.ivon_draw(jax.random.fold_in(rng_key, t), params, state)
        before = rows(max(t - 1, 0)), decay(max(t - 1, 0))
        hh = g * (np.asarray(w["w"]) - m) * before[0] * (h + before[1])
        np.testing.assert_allclose(bp.ivon_curvature({"w": g}, w, params, state)["w"], hh, rtol=1e-3)
        updates, state = update(state, params, w)
        params = optax.apply_updates(params, updates)
        d = decay(t)
        gm, h = B1 * gm + (1 - B1) * g, B2 * h + (1 - B2) * hh + (1 - B2) ** 2 * (h - hh) ** 2 / (2 * (h + d))
        m = m - RATE * (H0 + d) * (gm / (1 - B1 ** (t + 1)) + d * m) / (h + d)
    node = bp.ivon_posterior(params, state)["w"]
    np.testing.assert_allclose(node.loc, m, rtol=1e-4)
    np.testing.assert_allclose(node.scale, (rows(4) * (np.maximum(h, 0) + decay(4))) ** -0.5, rtol=1e-3)
    np.testing.assert_allclose(node.prior_scale, (rows(4) * decay(4)) ** -0.5, rtol=1e-5)
    gain = 0.5 * np.log1p(np.maximum(h, 0) / decay(4)) - 0.5 * rows(4) * (np.maximum(h, 0) + decay(4)) * m**2
    np.testing.assert_allclose(node.gain(), gain, rtol=1e-2, atol=1e-3)


def test_numbers_are_injected_as_short_as_the_parameters(rng_key) -> None:
    """optax hands them on in the parameters' type; the step is that of the same rounded numbers without it."""
    params, gradient = {"w": jnp.array([1.0, -0.5], jnp.bfloat16)}, {"w": jnp.array([0.5, 0.25], jnp.bfloat16)}
    h0, b1, b2, rate, decay = (float(jnp.bfloat16(number)) for number in (H0, B1, B2, RATE, DECAY))
    plain = bp.ivon(rate, num_rows=ROWS, weight_decay=decay, h0=h0, b1=b1, b2=b2)
    steps = []
    for optimizer in (injected(), plain):
        state = optimizer.init(params)
        weights = bp.ivon_draw(rng_key, params, state)
        steps.append(np.asarray(optimizer.update(gradient, state, params, sample=weights)[0]["w"], np.float32))
    np.testing.assert_allclose(*steps, rtol=0.05)
    assert np.abs(steps[0]).min() > 0.001


def test_draws_have_the_injected_spread(rng_key) -> None:
    """The same noise, by a hundredth of the rows ten times as wide."""
    params = {"w": jnp.zeros(50)}
    wide = injected(num_rows=lambda t: jnp.where(t == 1, ROWS / 100, ROWS))
    plain = injected()
    draws = []
    for optimizer in (wide, plain):
        state = optimizer.init(params)
        for _ in range(2):
            _, state = optimizer.update(params, state, params, curvature={"w": jnp.full(50, H0)})
        draws.append(bp.ivon_draw(rng_key, params, state)["w"])
    np.testing.assert_allclose(draws[0], 10 * draws[1], rtol=1e-4)


PARTS = {"w": jnp.array([1.0, 0.0, -0.5]), "norm": {"scale": jnp.ones(2), "bias": jnp.zeros(2, jnp.bfloat16)}}
LEAVES = {"w": True, "norm": {"scale": False, "bias": False}}
BRANCH = {"w": True, "norm": False}
LABELS = {"w": "ivon", "norm": "sgd"}
ALIVE = np.array([True, False, True])
ORDERS = {
    "around": lambda tx: bp.keep_zeros(optax.masked(tx, BRANCH), mask={"w": ALIVE, "norm": True}),
    "within": lambda tx: optax.masked(bp.keep_zeros(tx), BRANCH),
}


def inner() -> optax.GradientTransformationExtraArgs:
    return bp.ivon(RATE, num_rows=ROWS, weight_decay=DECAY, h0=H0, b1=B1, b2=B2)


def by_labels(tx: optax.GradientTransformation) -> optax.GradientTransformation:
    return optax.multi_transform({"ivon": tx, "sgd": optax.sgd(0.5)}, LABELS)


WITHIN = {
    "masked leaves": lambda: optax.masked(inner(), LEAVES),
    "a masked branch": lambda: optax.masked(inner(), BRANCH),
    "extra arguments masked too": lambda: optax.masked(inner(), LEAVES, mask_compatible_extra_args=True),
    "multi_transform": lambda: by_labels(inner()),
    "multi_transform in a chain": lambda: optax.chain(by_labels(inner()), optax.scale(1.0)),
}


@pytest.mark.parametrize("by", ["sample", "curvature"])
@pytest.mark.parametrize("name", WITHIN)
def test_of_some_parameters_it_is_what_it_is_of_these_alone(name, by, rng_key) -> None:
    """The others are drawn as they are, moved by their own optimiser, and no nodes of the posterior."""
    optimizer, alone, params = WITHIN[name](), inner(), PARTS
    state, its = optimizer.init(params), alone.init({"w": params["w"]})
    for n in range(3):
        key, own = jax.random.fold_in(rng_key, n), {"w": params["w"]}
        drawn = bp.ivon_draw(key, params, state)
        np.testing.assert_array_equal(drawn["w"], bp.ivon_draw(key, own, its)["w"])
        jax.tree.map(np.testing.assert_array_equal, drawn["norm"], params["norm"])
        g = jax.tree.map(lambda w: w + jnp.asarray(0.25, w.dtype), drawn)
        said = bp.ivon_curvature(g, drawn, params, state)
        assert len(jax.tree.leaves(said)) == 1  # a mean over draws needs no parts that are none
        updates, state = optimizer.update(g, state, params, **{by: drawn if by == "sample" else said})
        wanted, its = alone.update({"w": g["w"]}, its, own, sample={"w": drawn["w"]})
        np.testing.assert_allclose(updates["w"], wanted["w"], rtol=1e-6)
        factor = -0.5 if "multi" in name else 1.0  # `optax.masked` hands on what is not its own
        np.testing.assert_allclose(updates["norm"]["scale"], factor * g["norm"]["scale"], rtol=1e-6)
        params = optax.apply_updates(params, updates)
    posterior, expected = bp.ivon_posterior(params, state), bp.ivon_posterior({"w": params["w"]}, its)["w"]
    np.testing.assert_allclose(posterior["w"].scale, expected.scale, rtol=1e-6)
    np.testing.assert_array_equal(posterior["norm"]["scale"], params["norm"]["scale"])
    pruned = bp.bmr_prune(posterior)
    assert list(pruned.mask) == ["w"]
    np.testing.assert_array_equal(pruned.params["norm"]["bias"], params["norm"]["bias"])


@pytest.mark.parametrize("order", ORDERS)
def test_zeros_are_kept_in_some_parameters_too(order, rng_key) -> None:
    optimizer = ORDERS[order](inner())
    state = optimizer.init(PARTS)
    drawn = bp.ivon_draw(rng_key, PARTS, state)
    np.testing.assert_array_equal(drawn["w"] != 0, ALIVE)
    np.testing.assert_array_equal(drawn["norm"]["scale"], 1.0)
    updates, state = optimizer.update(drawn, state, PARTS, sample=drawn)
    posterior = bp.ivon_posterior(optax.apply_updates(PARTS, updates), state)
    np.testing.assert_array_equal(np.asarray(posterior["w"].scale) > 0, ALIVE)
    np.testing.assert_array_equal(np.asarray(posterior["w"].loc) != 0, ALIVE)


def test_two_of_them_are_drawn_one_after_the_other(rng_key) -> None:
    """Each by its own part of the state, as the refusal of both at once says."""
    optimizer = optax.multi_transform(
        {"a": inner(), "b": bp.ivon(RATE, num_rows=10, weight_decay=1.0)}, {"w": "a", "norm": "b"}
    )
    state = optimizer.init(PARTS)
    with pytest.raises(ValueError, match=r"got 2 .*inner_states"):
        bp.ivon_draw(rng_key, PARTS, state)
    drawn, posterior = PARTS, PARTS
    for n, part in enumerate(state.inner_states.values()):
        drawn = bp.ivon_draw(jax.random.fold_in(rng_key, n), drawn, part)
        posterior = bp.ivon_posterior(posterior, part)
    assert all(jnp.all(a != b) for a, b in zip(jax.tree.leaves(drawn), jax.tree.leaves(PARTS), strict=True))
    assert posterior["w"].prior_scale < posterior["norm"]["scale"].prior_scale == np.float32(0.1) ** 0.5
    updates, _ = optimizer.update(drawn, state, PARTS, sample=drawn)
    assert jax.tree.structure(updates) == jax.tree.structure(PARTS)


def test_one_array_of_all_is_refused(rng_key) -> None:
    for params in ({"w": jnp.ones(2)}, {"w": jnp.ones(2), "b": jnp.ones(1)}):
        optimizer = optax.flatten(inner())
        state = optimizer.init(params)
        for call in (
            lambda: bp.ivon_draw(rng_key, params, state),  # noqa: B023
            lambda: bp.ivon_posterior(params, state),  # noqa: B023
            lambda: bp.ivon_curvature(params, params, params, state),  # noqa: B023
            lambda: optimizer.update(params, state, params, sample=params),  # noqa: B023
            lambda: optimizer.update(params, state, params, curvature=params),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=r"leave out optax\.flatten"):
                call()


def test_multi_steps_have_the_last_curvature_and_a_loop_has_the_mean(rng_key) -> None:
    """(24.2) in NumPy: what the docstring says of `optax.MultiSteps`, and what it says to do instead."""
    optimizer, params = inner(), {"w": jnp.zeros(3)}
    state, several = optimizer.init(params), optax.MultiSteps(inner(), 4)
    gathered, slopes, said = several.init(params), [], []
    for n in range(4):
        w = bp.ivon_draw(jax.random.fold_in(rng_key, n), params, state)
        g = jax.tree.map(lambda w: (1.0 + n) * w - 0.5, w)  # noqa: B023
        slopes, said = [*slopes, g], [*said, np.asarray(g["w"]) * np.asarray(w["w"]) * ROWS * (H0 + DECAY)]
        moved, gathered = several.update(g, gathered, params, curvature=bp.ivon_curvature(g, w, params, gathered))
    mean = jax.tree.map(lambda *leaves: sum(leaves) / 4, *slopes)
    updates, state = optimizer.update(mean, state, params, curvature={"w": jnp.asarray(sum(said) / 4)})
    for found, hh in ((gathered.inner_opt_state, said[-1]), (state, sum(said) / 4)):
        h = B2 * H0 + (1 - B2) * hh + (1 - B2) ** 2 * (H0 - hh) ** 2 / (2 * (H0 + DECAY))
        np.testing.assert_allclose(found.curvature["w"], h, rtol=1e-4)
        np.testing.assert_allclose(found.momentum["w"], (1 - B1) * mean["w"], rtol=1e-5)
    assert not np.allclose(moved["w"], updates["w"], rtol=1e-3)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_means_are_where_others_have_moved_the_parameters(dtype, rng_key) -> None:
    """By what follows in a chain, or by hand: the means that are kept of short numbers must not go elsewhere."""
    optimizer = optax.chain(bp.ivon(RATE, num_rows=ROWS, weight_decay=DECAY, h0=H0), optax.scale(0.1))
    params = {"w": jnp.ones(4, dtype)}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        gradient, curvature = {"w": 2.0 * params["w"]}, {"w": jnp.full(4, H0)}
        updates, state = optimizer.update(gradient, state, params, curvature=curvature)
        return optax.apply_updates(params, updates), state

    m, gm = 1.0, 0.0
    for t in range(1, 11):
        params, state = step(params, state)
        gm = 0.9 * gm + 0.1 * 2.0 * m
        m -= 0.1 * RATE * (H0 + DECAY) * (gm / (1 - 0.9**t) + DECAY * m) / (H0 + DECAY)
    np.testing.assert_allclose(bp.ivon_posterior(params, state)["w"].loc, m, rtol=0.02 if dtype == jnp.bfloat16 else 1e-5)
    params = {"w": jnp.array([0.25, -3.0, 0.0, 1.0], dtype)}
    np.testing.assert_array_equal(bp.ivon_posterior(params, state)["w"].loc, params["w"].astype(jnp.float32))


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.complex64])
def test_parameters_that_are_no_real_numbers_are_refused(dtype) -> None:
    with pytest.raises(ValueError, match=f"array of {dtype.__name__}: put optax.masked"):
        bp.ivon(RATE, num_rows=ROWS, weight_decay=DECAY).init({"w": jnp.ones(2, dtype), "b": jnp.ones(2)})


@pytest.mark.parametrize("name", ["num_rows", "weight_decay", "h0", "clip"])
def test_an_array_in_the_place_of_a_number_is_refused(name) -> None:
    """It would be broadcast along the last axis of every array."""
    with pytest.raises(TypeError, match=f"{name} must be one number"):
        bp.ivon(RATE, **{"num_rows": ROWS, "weight_decay": DECAY} | {name: np.array([0.1, 0.2])})
