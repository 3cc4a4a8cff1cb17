"""The layers that nets of other hands are made of, in as few nets as hold them: each is trained, predicts and is followed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import bayesprune as bp

X = np.random.default_rng(0).normal(size=(6, 3, 4)).astype(np.float32)
Y = np.arange(6) % 3


class Linen(linen.Module):
    """GRU, LSTM, attention, a block that is made again in the backward pass, half precision, normed and tied weights."""

    @linen.compact
    def __call__(self, x):
        x = linen.RNN(linen.GRUCell(4))(x) + linen.RNN(linen.LSTMCell(4))(x)
        x = x + linen.MultiHeadDotProductAttention(num_heads=2)(linen.LayerNorm()(x))
        x = linen.remat(linen.Dense)(4, dtype=jnp.bfloat16)(x).astype(jnp.float32)
        x = linen.WeightNorm(linen.Dense(4))(x.swapaxes(1, 2)).swapaxes(1, 2)  # a mixer's dense layer over tokens
        tied = linen.Dense(4)
        return linen.Dense(3)(tied(linen.gelu(tied(x))).mean(1))


class Nnx(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.gru = nnx.RNN(nnx.GRUCell(4, 4, rngs=rngs))
        self.lstm = nnx.RNN(nnx.OptimizedLSTMCell(4, 4, rngs=rngs))
        self.attend = nnx.MultiHeadAttention(2, 4, decode=False, rngs=rngs)
        self.norm, self.head = nnx.LayerNorm(4, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        x = self.gru(x) + self.lstm(x)
        return self.head(nnx.remat(lambda x: x + self.attend(self.norm(x)))(x).mean(1))


class Equinox(eqx.Module):
    cell: eqx.nn.GRUCell
    attend: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.cell, self.norm = eqx.nn.GRUCell(4, 4, key=keys[0]), eqx.nn.LayerNorm(4)
        self.attend, self.head = eqx.nn.MultiheadAttention(2, 4, key=keys[1]), eqx.nn.Linear(4, 3, key=keys[2])

    def __call__(self, x):
        states = jax.lax.scan(lambda h, token: (self.cell(token, h),) * 2, jnp.zeros(4), x)[1]
        states = states + self.attend(*[jax.vmap(self.norm)(states)] * 3)
        return self.head(states.mean(0))


NETS = {"linen": Linen, "nnx": lambda: Nnx(nnx.Rngs(0)), "equinox": lambda: Equinox(jax.random.key(0))}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "estimator"), [("linen", "weight"), ("nnx", "local"), ("equinox", "local")])
def test_they_are_trained(name, estimator, rng_key) -> None:
    bnn = bp.BNN(NETS[name](), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), example=X[:1])
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=2, estimator=estimator, progress=False)
    assert np.isfinite(fit.losses).all()
    np.testing.assert_allclose(bp.predict(rng_key, bnn, fit.params, X, num_samples=2).sum(-1), 1.0, rtol=1e-4)
    assert bp.connected(bnn, fit.mask).keys() == fit.mask.keys()
