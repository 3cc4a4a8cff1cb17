"""Whole numbers beyond the tables that a network looks them up in: refused at every door, by the graph's own sizes."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp

WORDS, LENGTH = 7, 3
TOKENS = np.random.default_rng(0).integers(0, WORDS, (20, LENGTH))
TOKENS[0] = WORDS - 1
Y = TOKENS[:, 0] % 2


class Words(nn.Module):
    """Three ways to the table."""

    way: str = "embed"

    @nn.compact
    def __call__(self, x):
        table = self.param("table", nn.initializers.normal(1.0), (WORDS, 2))
        ways = {"embed": nn.Embed(WORDS, 2), "one hot": lambda x: jax.nn.one_hot(x, WORDS) @ table, "take": lambda x: table[x]}
        return nn.Dense(2)(ways[self.way](x).reshape(x.shape[0], -1))


def words(way: str = "embed", net: nn.Module | None = None) -> bp.BNN:
    return bp.BNN(net or Words(way), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), example=TOKENS[:1])


BNN = words()


@pytest.fixture(scope="module")
def fit() -> bp.FitResult:
    return bp.fit_svi(jax.random.key(0), BNN, bp.Dataset(TOKENS, Y), num_steps=1)


def beyond(value: int, row: int = 4) -> np.ndarray:
    x = TOKENS.copy()
    x[row, 1] = value
    return x


DOORS = {
    "fit": lambda key, fit, x: bp.fit_svi(key, BNN, bp.Dataset(x, Y), num_steps=1),
    "on the device": lambda key, fit, x: bp.fit_svi(key, BNN, bp.Dataset(jnp.asarray(x), Y), num_steps=1),
    "batches": lambda key, fit, x: bp.fit_svi(key, BNN, [(x, Y)], num_rows=20, num_steps=1),
    "held out": lambda key, fit, x: bp.fit_svi(key, BNN, bp.Dataset(TOKENS, Y), num_steps=1, eval_data=bp.Dataset(x, Y)),
    "predict": lambda key, fit, x: bp.predict(key, BNN, fit.params, x),
    "evaluate": lambda key, fit, x: bp.evaluate(key, BNN, fit.params, bp.Dataset(x, Y)),
    "sample": lambda key, fit, x: bp.sample_targets(key, BNN, fit.params, x),
}


@pytest.mark.parametrize("value", [-1, WORDS, 2_000_000])
@pytest.mark.parametrize("door", DOORS)
def test_a_token_beyond_the_table_is_refused(door, value, fit, rng_key) -> None:
    table = r"Embed_0\.embedding, which takes 0 to 6"
    with pytest.raises(ValueError, match=rf"x\[:, 1\] holds {value}, and the network looks it up in {table}"):
        DOORS[door](rng_key, fit, beyond(value))


@pytest.mark.parametrize("way", ["one hot", "take"])
def test_whatever_the_way_to_the_table(way, rng_key) -> None:
    with pytest.raises(ValueError, match=rf"x\[:, 1\] holds {WORDS}, and the network looks it up"):
        bp.fit_svi(rng_key, words(way), bp.Dataset(beyond(WORDS), Y), num_steps=1)


class Layers(eqx.Module):
    """Equinox's own layer, over the tokens of a row as its pages have it."""

    table: eqx.nn.Embedding
    last: eqx.nn.Linear

    def __init__(self, rng_key):
        self.table, self.last = eqx.nn.Embedding(WORDS, 2, key=rng_key), eqx.nn.Linear(2 * LENGTH, 2, key=rng_key)

    def __call__(self, x):
        return self.last(jax.vmap(self.table)(x).ravel())


@pytest.mark.parametrize("value", [-1, WORDS])
def test_tables_of_equinox_have_ends(value, rng_key) -> None:
    with pytest.raises(
        ValueError, match=rf"x\[:, 1\] holds {value}, and the network looks it up in table\.weight, which takes"
    ):
        bp.fit_svi(rng_key, words(net=Layers(rng_key)), bp.Dataset(beyond(value), Y), num_steps=1)


def test_the_bounds_are_no_part_of_what_a_network_is() -> None:
    assert words() == BNN and hash(BNN) == hash(words())
    assert BNN.inputs.bounds[0].high.tolist() == [6] * LENGTH


def test_trees_name_their_part(rng_key) -> None:
    class Two(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.Embed(WORDS, 2)(x["word"]) + nn.Dense(2)(x["age"]))

    x = {"word": TOKENS[:, 0], "age": np.ones((20, 1))}
    bnn = bp.BNN(
        Two(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), example={k: v[:1] for k, v in x.items()}
    )
    x["word"] = np.where(np.arange(20) == 3, 9, x["word"])
    with pytest.raises(ValueError, match=r"data\.x\['word'\] holds 9, and the network"):
        bp.fit_svi(rng_key, bnn, bp.Dataset(x, Y), num_steps=1)
