"""What kernels multiply, against inputs that were taken by hand, whatever library the layer is from."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.model.transforms.layer_inputs import with_input_moments

X = np.random.default_rng(0).normal(size=(7, 6, 6, 2)).astype(np.float32)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.tanh(nn.Conv(3, (2, 3), strides=(2, 1), padding="VALID", use_bias=False, name="conv")(x))
        return nn.Dense(2, name="dense")(x.reshape((len(x), -1)))


@pytest.mark.slow
def test_convolutions_and_dense_layers_of_linen() -> None:
    """The convolution's patches cut by hand, in the order of its kernel's axes."""
    net = Net()
    params = net.init(jax.random.key(0), X)["params"]
    weights = {"conv": params["conv"]["kernel"], "dense": params["dense"]["kernel"], "bias": params["dense"]["bias"]}

    def run(values, x):
        conv, dense, bias = values
        return net.apply({"params": {"conv": {"kernel": conv}, "dense": {"kernel": dense, "bias": bias}}}, x)

    found = jax.jit(lambda v, x: {s: m.moments for s, m in with_input_moments(run, list(weights))(v, x).items()})(
        list(weights.values()), X
    )
    axes = {site: met.axes for site, met in with_input_moments(run, list(weights))(list(weights.values()), X).items()}
    assert axes == {"conv": (2, 0, 1), "dense": (0,)}
    patches = [X[:, i : i + 2, j : j + 3] for i in range(0, 5, 2) for j in range(4)]  # (rows, 2, 3, channels)
    by_hand = np.concatenate([np.transpose(p, (0, 3, 1, 2)).reshape(len(X), -1) for p in patches])
    np.testing.assert_allclose(found["conv"], by_hand.T @ by_hand, rtol=1e-4, atol=1e-4)
    inputs = np.tanh(nn.Conv(3, (2, 3), strides=(2, 1), padding="VALID", use_bias=False).apply({"params": params["conv"]}, X))
    flat = inputs.reshape(len(X), -1)
    np.testing.assert_allclose(found["dense"], flat.T @ flat, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_layers_of_equinox_whose_kernels_are_turned_and_that_are_used_twice() -> None:
    layer = eqx.nn.Linear(4, 4, key=jax.random.key(0))
    rows = X.reshape(-1, 4)

    def run(values, x):
        (weight,) = values
        at = eqx.tree_at(lambda one: one.weight, layer, weight)
        return jax.vmap(lambda row: at(at(row)))(x)

    met = with_input_moments(run, ["weight"])([layer.weight], jnp.asarray(rows))["weight"]
    second = np.asarray(jax.vmap(layer)(rows))
    assert met.axes == (1,)
    np.testing.assert_allclose(met.moments, rows.T @ rows + second.T @ second, rtol=1e-4, atol=1e-3)
