"""Optimisers by name: SGD as its authors run it, in whatever units; decay where it belongs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bayesprune.train.optimizers import make_optimizer


def test_a_step_of_w_hat_is_the_step_of_w() -> None:
    """Oracle: SGD with momentum and decay as its authors run it, on w itself, by NumPy in float64; four steps."""
    rng = np.random.default_rng(0)
    x, w, b, unit, decay = rng.normal(size=(20, 3)), rng.normal(size=3), 0.3, 0.005, 0.2
    y = x @ np.array([1.0, -2.0, 0.5]) + 1.0
    rates = [0.1, 0.05, 0.02, 0.01]
    params = {"k_auto_loc": jnp.asarray(w / unit), "k_auto_scale": jnp.asarray([-2.0, 0.0, 1.0]), "bias": jnp.asarray(b)}
    sgd = make_optimizer("sgd", lambda step: jnp.asarray(rates)[step], decay, unit)
    state = sgd.init(params)
    velocity = np.zeros(4)
    for rate in rates:
        error = x @ w + b - y
        gradient = np.append(x.T @ error, error.sum()) / len(y) + decay * np.append(w, b)
        velocity = 0.9 * velocity + gradient
        w, b = w - rate * velocity[:3], b - rate * velocity[3]
        loss = lambda p: 0.5 * jnp.mean((x @ (unit * p["k_auto_loc"]) + p["bias"] - y) ** 2)  # noqa: E731
        updates, state = sgd.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(unit * np.asarray(params["k_auto_loc"]), w, rtol=1e-4)
    np.testing.assert_allclose(params["bias"], b, rtol=1e-4)
    np.testing.assert_array_equal(params["k_auto_scale"], [-2.0, 0.0, 1.0])  # no gradient, and no decay


def test_a_step_of_the_raw_scale_is_that_of_the_authors_where_scales_are_small(float64: None) -> None:
    unit, rate, scales = 0.005, 0.01, np.array([1e-7, 1e-6, 5e-6])
    slope = np.array([3.0, -2.0, 40.0])  # of a loss in the scale itself, in the weights' units
    raw = np.log(np.expm1(scales))
    theirs = np.logaddexp(0.0, raw - rate * slope / (1.0 + np.exp(-raw)))
    params = {"k_auto_scale": jnp.asarray(np.log(np.expm1(scales / unit)))}
    sgd = make_optimizer("sgd", rate, 5e-4, unit)
    grads = jax.grad(lambda p: jnp.sum(slope * unit * jax.nn.softplus(p["k_auto_scale"])))(params)
    ours = optax.apply_updates(params, sgd.update(grads, sgd.init(params), params)[0])
    moved = unit * np.asarray(jax.nn.softplus(ours["k_auto_scale"]))
    np.testing.assert_allclose(moved - scales, theirs - scales, rtol=2e-3)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["adam", "adabelief"])
def test_decay_stands_beside_adaptive_steps(name: str) -> None:
    params = {"k_auto_loc": jnp.array([2.0, -1.0]), "k_auto_scale": jnp.array([0.5]), "BatchNorm_0.scale": jnp.array([1.0])}
    grads = jax.tree.map(jnp.ones_like, params)
    plain, decayed = make_optimizer(name, 0.1), make_optimizer(name, 0.1, weight_decay=0.01)
    one, other = (made.update(grads, made.init(params), params)[0] for made in (plain, decayed))
    direct = getattr(optax, name)(0.1)
    jax.tree.map(np.testing.assert_array_equal, one, direct.update(grads, direct.init(params), params)[0])
    shrunk = {site: np.asarray(other[site] - one[site]) / params[site] for site in params}
    np.testing.assert_allclose(shrunk["k_auto_loc"], -0.001, rtol=1e-3)
    np.testing.assert_allclose(shrunk["BatchNorm_0.scale"], -0.001, rtol=1e-3)
    np.testing.assert_array_equal(shrunk["k_auto_scale"], 0.0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("adam", 0.0), "learning_rate must be positive"), (("sgd", 0.1, -1.0), "weight_decay must be finite and not negative")],
)
def test_a_rate_or_a_decay_that_is_none_is_refused(arguments, told) -> None:
    with pytest.raises(ValueError, match=told):
        make_optimizer(*arguments)
