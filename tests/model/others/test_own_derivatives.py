"""Nets with functions that bring their own derivative (`jax.custom_vjp`): a straight-through sign, an ODE and its adjoint."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.model.inputs import Inputs
from bayesprune.model.network import Network, make_network
from bayesprune.model.transforms.lower import lower_convolutions

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
Y = np.arange(12) % 3


@jax.custom_vjp
def sign(x):
    """The sign, with the derivative of the identity."""
    return jnp.sign(x)


sign.defvjp(lambda x: (sign(x), None), lambda _, slope: (slope,))
STEPS, WIDTH = 8, 0.125


def field(w, y):
    return jnp.tanh(y @ w)


@jax.custom_vjp
def flow(w, y):
    """y(1) of y' = tanh(y w), by Euler's steps in a loop that JAX cannot go back through."""
    return jax.lax.fori_loop(0, jnp.asarray(STEPS), lambda _, y: y + WIDTH * field(w, y), y)


def _flow_back(kept, slope):
    """The steps are taken again, and their derivatives from the last to the first."""
    w, start = kept
    states = [start]
    for _ in range(STEPS - 1):
        states.append(states[-1] + WIDTH * field(w, states[-1]))
    total = jnp.zeros_like(w)
    for state in reversed(states):
        of_w, of_state = jax.vjp(field, w, state)[1](WIDTH * slope)
        total, slope = total + of_w, slope + of_state
    return total, slope


flow.defvjp(lambda w, y: (flow(w, y), (w, y)), _flow_back)


class Binary(linen.Module):
    """Activations and weights of one bit."""

    @linen.compact
    def __call__(self, x):
        w = self.param("w", linen.initializers.lecun_normal(), (4, 5))
        return linen.Dense(3, name="outer")(sign(linen.Dense(6, name="inner")(x @ sign(w))))


class Flow(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(flow(self.param("w", linen.initializers.lecun_normal(), (4, 4)), x))


class FlowOfRows(eqx.Module):
    head: eqx.nn.Linear
    w: jax.Array

    def __init__(self, key):
        self.head, self.w = eqx.nn.Linear(4, 3, key=key), jax.random.normal(key, (4, 4))

    def __call__(self, x):
        return self.head(flow(self.w, x))


class BinaryImages(linen.Module):
    """Where Quax ends, a convolution is JAX's own."""

    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(sign(linen.Conv(2, (3, 3))(x)).reshape(len(x), -1))


NETS = {"flow": Flow, "binary": Binary, "flow of rows": lambda: FlowOfRows(jax.random.key(0))}


def network(name: str) -> Network:
    """The net as a fit runs it."""
    return make_network(NETS[name](), Inputs.of_shape((4,)), {}, None)


def drawn(net: Network) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {path: rng.normal(size=like.shape) for path, like in net.params.items()}


def slopes(net: Network, weights) -> dict[str, np.ndarray]:
    """The gradient of the outputs' squares."""
    run = lambda w: (net.apply(w, {}, X, True, jax.random.key(0))[0] ** 2).sum()  # noqa: E731
    return jax.tree.map(np.asarray, jax.jit(jax.grad(run))(jax.tree.map(jnp.float32, weights)))


def test_the_derivative_of_an_ode_is_its_own() -> None:
    """Against differences of the steps written in NumPy; JAX alone cannot go back through the loop."""
    net = network("flow")
    weights = drawn(net)

    def squares(w: np.ndarray) -> float:
        y = X.astype(np.float64)
        for _ in range(STEPS):
            y = y + WIDTH * np.tanh(y @ w)
        return float(((y @ weights["Dense_0.kernel"] + weights["Dense_0.bias"]) ** 2).sum())

    found = slopes(net, weights)["w"]
    for i, j in ((0, 0), (1, 3), (3, 2)):
        away = np.zeros((4, 4))
        away[i, j] = 1e-4
        wanted = (squares(weights["w"] + away) - squares(weights["w"] - away)) / 2e-4
        assert found[i, j] == pytest.approx(wanted, rel=2e-3)


@jax.default_matmul_precision("highest")  # what is compared is in whole float32
def test_a_sign_passes_slopes_straight_through() -> None:
    """By hand: back through every sign as if it were not there."""
    net = network("binary")
    w = drawn(net)
    hidden = X @ np.sign(w["w"]) @ w["inner.kernel"] + w["inner.bias"]
    outputs = np.sign(hidden) @ w["outer.kernel"] + w["outer.bias"]
    back = 2 * outputs @ w["outer.kernel"].T @ w["inner.kernel"].T
    np.testing.assert_allclose(slopes(net, w)["w"], X.T @ back, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_convolutions_beside_them_are_jaxs_own() -> None:
    net = BinaryImages()
    x = np.random.default_rng(1).normal(size=(2, 4, 4, 1)).astype(np.float32)
    params = net.init(jax.random.key(0), x)
    squares = lambda apply: jax.grad(lambda p: (apply(p, x) ** 2).sum())(params)  # noqa: E731
    ours, plain = squares(lower_convolutions(net.apply)), squares(net.apply)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), ours, plain)
    assert np.abs(ours["params"]["Conv_0"]["kernel"]).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "estimator"), [("flow", "weight"), ("binary", "local"), ("flow of rows", "local")])
def test_they_are_trained(name, estimator, rng_key) -> None:
    prior, likelihood = bp.priors.Gaussian(), bp.likelihoods.Categorical()
    bnn = bp.BNN(NETS[name](), prior=prior, likelihood=likelihood, input_shape=(4,))
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=2, estimator=estimator, progress=False)
    assert np.isfinite(fit.losses).all()
    assert bp.predict(rng_key, bnn, fit.params, X, num_samples=2).shape == (12, 3)
    assert bp.connected(bnn, fit.mask).keys() == fit.mask.keys()
