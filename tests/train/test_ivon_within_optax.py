"""IVON within optax's own wrappers: numbers that are injected."""

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
