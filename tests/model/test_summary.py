"""The table of parameters: counts against NumPy's own, uses against layers counted by hand, and what cannot be counted."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.model.adapters import adapt
from bayesprune.model.inputs import Inputs


class Tied(linen.Module):
    """A convolution of 6 x 5 outputs, then one matrix that is used twice."""

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(3, (2, 2), padding="VALID")(x).mean((1, 2))
        tied = linen.Dense(3)
        return linen.Dense(2)(tied(jnp.tanh(tied(x))))


class Waiting(linen.Module):
    """A loop whose turns are known only when it runs."""

    @linen.compact
    def __call__(self, x):
        kernel = self.param("kernel", linen.initializers.lecun_normal(), (4, 4))
        return jax.lax.while_loop(lambda h: jnp.abs(h).sum() > 1, lambda h: 0.1 * (h @ kernel), x)


def build(net, input_shape, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Gaussian(), "likelihood": bp.likelihoods.Categorical()} | settings
    return bp.BNN(net, input_shape=input_shape, **chosen)


def test_shared_weights_are_used_more_than_once() -> None:
    table = build(Tied(), (7, 6, 1)).summary()
    uses = {row.path: row.uses for row in table.rows}
    assert uses == {
        "Conv_0.kernel": 30, "Conv_0.bias": None, "Dense_0.kernel": 2, "Dense_0.bias": None,
        "Dense_1.kernel": 1, "Dense_1.bias": None,
    }  # fmt: skip


@pytest.mark.parametrize("net", [Tied(), eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))], ids=["linen", "equinox"])
def test_counts_are_those_of_the_modules_own_arrays(net) -> None:
    shape = (7, 6, 1) if isinstance(net, linen.Module) else (3,)
    own = jax.eval_shape(adapt(net, Inputs.of_shape(shape)).init, jax.random.key(0))[0]
    table = build(net, shape, bayesian=bp.select.kernels, prunable=bp.select.kernels).summary()
    assert {row.path: (row.shape, row.count) for row in table.rows} == {n: (a.shape, a.size) for n, a in own.items()}
    kernels = sum(array.size for array in own.values() if array.ndim > 1)
    assert (table.count, table.bayesian, table.prunable) == (sum(a.size for a in own.values()), kernels, kernels)
    assert all(row.bayesian == ("bias" not in row.path) for row in table.rows)
    assert re.fullmatch(rf"total +{kernels} +{kernels} +{table.count}", repr(table).splitlines()[-1])


def test_products_that_cannot_be_counted_are_told() -> None:
    table = build(Waiting(), (4,)).summary()
    assert [row.uses for row in table.rows] == [None]
    assert re.search(r"total .*\nuses are not known: net has products inside 'while'", repr(table))
