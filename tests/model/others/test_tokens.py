"""A classifier of tokens: whole numbers all the way, from the data through every door to the embedding."""

import functools

import equinox as eqx
import jax
import numpy as np
import pytest
from flax import linen, nnx

import bayesprune as bp

X = np.random.default_rng(0).integers(0, 11, (24, 3))
Y = X[:, 0] % 3


class Recurrent(linen.Module):
    """An embedding, a recurrent cell, and attention of the last state over all of them."""

    @linen.compact
    def __call__(self, tokens):
        x = linen.RNN(linen.GRUCell(4))(linen.Embed(11, 4)(tokens))
        x = x + linen.MultiHeadDotProductAttention(num_heads=2)(x, x)
        return linen.Dense(3)(x[:, -1])


class Averaged(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.table, self.head = nnx.Embed(11, 4, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, tokens):
        return self.head(self.table(tokens).mean(1))


class AveragedRow(eqx.Module):
    table: eqx.nn.Embedding
    head: eqx.nn.Linear

    def __init__(self, key):
        self.table, self.head = eqx.nn.Embedding(11, 4, key=key), eqx.nn.Linear(4, 3, key=key)

    def __call__(self, tokens):
        return self.head(jax.vmap(self.table)(tokens).mean(0))


NETS = {
    "nnx": lambda: Averaged(nnx.Rngs(0)),
    "equinox": lambda: AveragedRow(jax.random.key(0)),
    "linen, recurrent": Recurrent,
}


@functools.cache
def bnn_of(name: str, posterior: str = "mean_field") -> bp.BNN:
    return bp.BNN(
        NETS[name](), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), example=X[:1], posterior=posterior,
        bayesian=bp.select.everything,
    )  # fmt: skip


@pytest.mark.slow
def test_it_is_trained_and_predicts(rng_key) -> None:
    bnn = bnn_of("nnx")
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=2, progress=False)
    assert np.isfinite(fit.losses).all()
    probs = bp.predict(rng_key, bnn, fit.params, X, num_samples=2)
    assert probs.shape == (24, 3)
    np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
    with pytest.raises(TypeError, match=r"x must hold integers.*got dtype float32"):
        bp.predict(rng_key, bnn, fit.params, X.astype(np.float32))


@pytest.mark.slow
def test_it_goes_through_every_door(rng_key) -> None:
    bnn, data = bnn_of("equinox"), bp.Dataset(X, Y)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=3, batch_size=8, sparsifier=bp.methods.BMR(), every=2, progress=False)
    assert np.isfinite(fit.losses).all()
    probs = bp.predict(rng_key, bnn, fit.params, X, num_samples=2)
    figures = bp.evaluate(rng_key, bnn, fit.params, data, num_samples=2)
    assert figures["accuracy"] == pytest.approx(np.mean(probs.argmax(-1) == Y))
    assert set(np.unique(bp.sample_targets(rng_key, bnn, fit.params, X, num_samples=2))) <= {0, 1, 2}
    assert bp.connected(bnn, fit.mask).keys() == fit.mask.keys()


@pytest.mark.slow
def test_a_recurrent_net_with_attention(rng_key) -> None:
    bnn = bnn_of("linen, recurrent")
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=2, progress=False)
    np.testing.assert_allclose(bp.predict(rng_key, bnn, fit.params, X, num_samples=2).sum(-1), 1.0, rtol=1e-5)
    assert bp.connected(bnn, fit.mask).keys() == fit.mask.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nnx", "equinox"])
def test_a_point_predicts_what_the_module_does(name, rng_key) -> None:
    bnn = bnn_of(name, "map")
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=2, estimator="local", progress=False)
    own = bnn.net_params(fit.params)
    module = NETS[name]()
    if isinstance(module, nnx.Module):
        nnx.update(module, own)
        outputs = module(X)
    else:
        outputs = jax.vmap(own)(X)
    found = bp.predict(rng_key, bnn, fit.params, X, num_samples=1)
    np.testing.assert_allclose(found, jax.nn.softmax(outputs), rtol=1e-4, atol=1e-6)


def test_what_does_not_occur_in_the_net_is_idle() -> None:
    """A column of the table that the head does not read."""
    mask = {"head.kernel": np.arange(4)[:, None].repeat(3, 1) > 0, "table.embedding": np.ones((11, 4), bool)}
    used = bp.connected(bnn_of("nnx"), mask)
    assert not used["table.embedding"][:, 0].any() and used["table.embedding"][:, 1:].all()


def test_real_numbers_are_refused(rng_key) -> None:
    with pytest.raises(TypeError, match=r"data\.x must hold integers.*got dtype float32"):
        bp.fit_svi(rng_key, bnn_of("nnx"), bp.Dataset(X.astype(np.float32), Y), num_steps=1)
