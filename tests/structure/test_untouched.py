"""Whether rows meet the weights as they are, of nets that do something to them first, and of nets that do not."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from tests.structure.nets import NETS

import bayesprune as bp
from bayesprune.structure.untouched import untouched

KEY = jax.random.key(0)


def of(net, x=None, **settings):
    """What is found of a network, by the rows that it takes."""
    shape = {"example": x} if x is not None else {"input_shape": settings.pop("shape", (4,))}
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), **shape, **settings)
    return untouched(bnn.jaxpr(), len(bnn.layout))


class Then(nn.Module):
    """A function, or a layer, and a dense layer behind it."""

    first: object

    @nn.compact
    def __call__(self, x):
        x = self.first(x)
        return nn.Dense(1)(x.reshape(len(x), -1))


class Placed(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(x + self.param("place", nn.initializers.normal(), (4,)))


class Weighted(nn.Module):
    """A weight of each input, as of automatic relevance determination."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(jnp.tanh(x * self.param("relevance", nn.initializers.normal(), (4,))))


class Steady(nnx.Module):
    def __init__(self):
        self.norm, self.head = nnx.BatchNorm(4, rngs=nnx.Rngs(0)), nnx.Linear(4, 1, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return self.head(self.norm(x))


AS_THEY_ARE = {
    "moved": Then(lambda x: jnp.flip(x.reshape(-1, 2, 2).swapaxes(1, 2), 1)),
    "cast": Then(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32)),
    "chosen": Then(lambda x: jnp.where(x > 0, x, 0.0)),
    "side by side": Then(lambda x: jnp.concatenate([x, jnp.log1p(x)], axis=1)),
    "pooled": Then(lambda x: nn.max_pool(x[..., None], (2,), (2,))),
    "under a name": Then(jax.jit(lambda x: x[:, ::-1])),
    "made again": Then(jax.checkpoint(lambda x: x[:, ::-1])),
    "added to": Placed(),
    "multiplied": Weighted(),
    "equinox": eqx.nn.Sequential([eqx.nn.Linear(4, 2, key=KEY), eqx.nn.LayerNorm(2), eqx.nn.Linear(2, 1, key=KEY)]),
    "turn by turn": nn.Sequential([lambda x: x[..., None], nn.RNN(nn.SimpleCell(2)), lambda x: x[:, -1], nn.Dense(1)]),
}
TOUCHED = {
    "layer norm": Then(nn.LayerNorm()),
    "layer norm without weights": Then(nn.LayerNorm(use_bias=False, use_scale=False)),
    "batch norm": Then(nn.BatchNorm(use_running_average=True)),
    "group norm": Then(nn.GroupNorm(num_groups=2)),
    "root mean square norm": Then(nn.RMSNorm()),
    "batch norm of nnx": Steady(),
    "layer norm of equinox": eqx.nn.Sequential([eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 1, key=KEY)]),
    "division": Then(lambda x: x / 255.0),
    "factor": Then(lambda x: 1e-3 * x),
    "shift": Then(lambda x: x - 300.0),
    "logarithm": Then(jnp.log1p),
    "squash": Then(jnp.tanh),
    "bounds": Then(lambda x: jnp.clip(x, -1.0, 1.0)),
}


@pytest.mark.parametrize("case", AS_THEY_ARE)
def test_rows_that_meet_a_weight_as_they_are(case) -> None:
    assert of(AS_THEY_ARE[case]) == (True,)


@pytest.mark.parametrize("case", TOUCHED)
def test_rows_that_do_not(case) -> None:
    assert of(TOUCHED[case]) == (False,)


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize("name", [name for name in NETS if name != "chosen"])
def test_no_net_of_the_zoo_touches_its_rows(name) -> None:
    make, shape = NETS[name]
    assert of(make(), shape=shape) == (True,)


def test_each_of_several() -> None:
    class Two(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(1)(x["raw"]) + nn.Dense(1)(nn.LayerNorm()(x["normed"])) + nn.Embed(9, 1)(x["token"])

    x = {"normed": jnp.ones((1, 2)), "raw": jnp.ones((1, 3)), "token": jnp.ones(1, int)}
    assert of(Two(), x) == (False, True, False), "in the order of the tree's leaves"


def test_a_loop_of_any_length() -> None:
    long = jax.make_jaxpr(lambda w, x: jax.lax.scan(lambda h, row: (jnp.tanh(w @ row + h), None), jnp.zeros(2), x)[0])
    assert untouched(long(jnp.ones((2, 3)), jnp.ones((10_000, 3))), num_weights=1) == (True,)
