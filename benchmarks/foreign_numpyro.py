"""Programs in NumPyro as other people write them, for `foreign.py`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from flax import nnx
from foreign_data import LABELS, REAL, VECTORS, Net
from numpyro.contrib.module import flax_module, random_eqx_module, random_flax_module, random_nnx_module
from numpyro.infer.autoguide import AutoNormal

import bayesprune as bp


def two_layers(x: Any, y: Any = None) -> None:
    """The Bayesian network of NumPyro's own example."""
    w1 = numpyro.sample("w1", dist.Normal(jnp.zeros((5, 6)), 1).to_event(2))
    w2 = numpyro.sample("w2", dist.Normal(jnp.zeros((6, 6)), 1).to_event(2))
    w3 = numpyro.sample("w3", dist.Normal(jnp.zeros((6, 1)), 1).to_event(2))
    noise = 1.0 / jnp.sqrt(numpyro.sample("precision", dist.Gamma(3.0, 1.0)))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal((jnp.tanh(jnp.tanh(x @ w1) @ w2) @ w3)[:, 0], noise), obs=y)


def hierarchical(x: Any, y: Any = None) -> None:
    """A logistic regression of three groups, not centred."""
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    slopes = scale * numpyro.sample("slopes", dist.Normal(jnp.zeros((5, 3)), 1).to_event(2))
    bias = numpyro.sample("bias", dist.Normal(jnp.zeros(3), 1).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=x @ slopes + bias), obs=y)


def of_linen(x: Any, y: Any = None) -> None:
    """A Flax module with random weights."""
    net = random_flax_module("net", nn.Sequential([nn.Dense(6), nn.relu, nn.Dense(3)]), dist.Normal(), input_shape=(5,))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=net(x)), obs=y)


def of_nnx(x: Any, y: Any = None) -> None:
    """A module of nnx with random weights."""
    net = random_nnx_module("net", nnx.Linear(5, 3, rngs=nnx.Rngs(0)), dist.Normal())
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=net(x)), obs=y)


def of_equinox(x: Any, y: Any = None) -> None:
    """A module of Equinox with random weights."""
    net = random_eqx_module("net", eqx.nn.MLP(5, 3, 6, 1, key=jax.random.key(0)), dist.Normal())
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=jax.vmap(net)(x)), obs=y)


def features(x: Any, y: Any = None) -> None:
    """Features of a trained module, a Bayesian last layer."""
    trunk = flax_module("trunk", nn.Dense(6), input_shape=(5,))
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros((6, 3)), 1).to_event(2))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=jnp.tanh(trunk(x)) @ weights), obs=y)


def program(model: Callable[..., None]) -> Callable[[], bp.Program]:
    """The model with NumPyro's own guide."""
    return lambda: bp.Program(model, AutoNormal(model))


NUMPYRO = {
    "numpyro/bnn": Net("NumPyro's Bayesian network", program(two_layers), VECTORS, REAL),
    "numpyro/hierarchical": Net("a hierarchical logistic regression", program(hierarchical), VECTORS, LABELS),
    "numpyro/flax": Net("`random_flax_module`", program(of_linen), VECTORS),
    "numpyro/nnx": Net("`random_nnx_module`", program(of_nnx), VECTORS),
    "numpyro/equinox": Net("`random_eqx_module`", program(of_equinox), VECTORS),
    "numpyro/features": Net("a trained trunk, a Bayesian last layer", program(features), VECTORS),
}
