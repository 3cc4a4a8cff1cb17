"""The networks of the papers: sizes, framing, activations, dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from flax.traverse_util import flatten_dict

import bayesprune as bp

MLP_5x400 = 784 * 400 + 400 + 4 * (400 * 400 + 400) + 400 * 10 + 10
LENET_WIDE = (25 * 3 * 18 + 18) + (25 * 18 * 48 + 48) + (25 * 48 * 360 + 360) + (360 * 256 + 256) + (256 * 10 + 10)


def shapes(net, x):
    return jax.eval_shape(net.init, jax.random.key(0), jax.ShapeDtypeStruct(x, jnp.float32))["params"]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("net", "shape", "count"),
    [
        (bp.nets.MLP(hidden=(400,) * 5, num_outputs=10), (1, 28, 28, 1), MLP_5x400),
        (bp.nets.LeNet5(num_outputs=10), (1, 28, 28, 1), 61_706),
        (bp.nets.LeNet5(num_outputs=10), (1, 32, 32, 1), 61_706),
        (bp.nets.LeNet5(num_outputs=10, features=(18, 48, 360), units=256), (1, 32, 32, 3), LENET_WIDE),
    ],
)
def test_number_of_parameters(net, shape, count) -> None:
    assert sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(shapes(net, shape))) == count


def test_lenet_layers_are_used_in_their_order() -> None:
    bnn = bp.BNN(
        bp.nets.LeNet5(num_outputs=10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(28, 28, 1)
    )
    kernels = [(str(s.path), s.shape, s.prunable) for s in bnn.layout if len(s.shape) > 1]
    assert kernels == [
        ("Conv_0.kernel", (5, 5, 1, 6), True),
        ("Conv_1.kernel", (5, 5, 6, 16), True),
        ("Conv_2.kernel", (5, 5, 16, 120), True),
        ("Dense_0.kernel", (120, 84), True),
        ("Dense_1.kernel", (84, 10), False),
    ]


@pytest.mark.slow
def test_small_images_are_framed_by_their_own_background() -> None:
    """A 28x28 image gives what the 32x32 image with two more lines of background on each side gives."""
    net = bp.nets.LeNet5(num_outputs=3, features=(2, 3, 4), units=5)
    background = np.array([-0.4, 1.5], np.float32)[:, None, None, None]
    small = np.broadcast_to(background, (2, 28, 28, 1)).copy()
    small[:, 9:20, 8:18] += np.random.default_rng(0).normal(size=(2, 11, 10, 1)).astype(np.float32)
    large = np.broadcast_to(background, (2, 32, 32, 1)).copy()
    large[:, 2:30, 2:30] = small
    params = net.init(jax.random.key(0), jnp.asarray(large))
    outputs = [net.apply(params, jnp.asarray(images)) for images in (small, large)]
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)


def test_mlp_against_matrix_products() -> None:
    net = bp.nets.MLP(hidden=(5, 4), num_outputs=2)
    x = np.random.default_rng(0).normal(size=(3, 2, 3))
    params = net.init(jax.random.key(0), jnp.asarray(x))["params"]
    p = {".".join(path): np.asarray(value, np.float64) for path, value in flatten_dict(params).items()}
    h = x.reshape(3, 6)
    for layer in ("Dense_0", "Dense_1"):
        h = h @ p[f"{layer}.kernel"] + p[f"{layer}.bias"]
        h = h / (1 + np.exp(-h))
    wanted = h @ p["Dense_2.kernel"] + p["Dense_2.bias"]
    np.testing.assert_allclose(net.apply({"params": params}, jnp.asarray(x)), wanted, rtol=1e-4, atol=1e-6)
    rectified = bp.nets.MLP(hidden=(5, 4), num_outputs=2, activation=linen.relu)
    assert not np.allclose(rectified.apply({"params": params}, jnp.asarray(x)), wanted, atol=1e-3)


def test_dropout_drops_a_share_in_training_alone() -> None:
    net = bp.nets.MLP(hidden=(1000,), num_outputs=1, dropout=0.2, activation=jnp.ones_like)
    params = {"Dense_0": {"kernel": jnp.zeros((1, 1000)), "bias": jnp.zeros(1000)},
              "Dense_1": {"kernel": jnp.ones((1000, 1)), "bias": jnp.zeros(1)}}  # fmt: skip
    x = jnp.zeros((50, 1))
    assert np.all(np.asarray(net.apply({"params": params}, x)) == 1000)
    kept = np.asarray(net.apply({"params": params}, x, train=True, rngs={"dropout": jax.random.key(1)})) * 0.8 / 1000
    # 50,000 coins of 0.8: five standard errors are 0.009.
    assert abs(kept.mean() - 0.8) < 0.009
