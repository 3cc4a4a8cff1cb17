"""Heads: the features of a head's queries, keys and values go together, and nothing else does."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.structure.nets import NETS, case

import bayesprune as bp
from bayesprune.core.types import Evidence, MeanField
from bayesprune.structure import units

NONE = -1


class Grouped(nn.Module):
    """Four heads of queries that share two of keys and values, causal, with what ``change`` does to them."""

    change: str = ""

    @nn.compact
    def __call__(self, x):
        tokens, depth = x.shape[1], 1 if self.change == "one feature" else 3
        q, k, v = (
            nn.DenseGeneral((heads, size), name=name)(x)
            for name, heads, size in (("q", 4, depth), ("k", 2, depth), ("v", 2, 5))
        )
        if self.change == "norm":  # a sum of squares is no table of scores
            q = q / jnp.sqrt(jnp.einsum("bthd,bthd->bth", q, q))[..., None]
            k = k / jnp.linalg.norm(k, axis=-1, keepdims=True)
        scores = jnp.einsum("btgrd,bsgd->bgrts", q.reshape(-1, tokens, 2, 2, depth), k)
        if self.change == "bias":
            scores = scores + self.param("b", nn.initializers.normal(), (2, 2, tokens, tokens))
        if self.change == "mixed":
            scores = jnp.einsum("bgrts,grhu->bhuts", scores, self.param("mix", nn.initializers.normal(), (2, 2, 2, 2)))
        scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
        mixed = jnp.einsum("bgrts,bsgd->btgrd", nn.softmax(scores), v)
        return nn.Dense(3)(nn.Dense(4)(mixed.reshape(-1, tokens, 20)).mean(1))


class Bilinear(nn.Module):
    """Scores are the outputs: they mix nothing."""

    @nn.compact
    def __call__(self, x):
        return jnp.einsum("bd,bcd->bc", nn.Dense(4)(x), nn.DenseGeneral((3, 4))(x))


def heads_of(net, shape, **settings):
    """Site -> the head that each of its entries helps to make."""
    prior, likelihood = bp.priors.Gaussian(1.0), bp.likelihoods.Categorical()
    bnn = bp.BNN(net, prior=prior, likelihood=likelihood, input_shape=shape, **settings)
    numbers = np.append(bnn.units.heads, NONE)
    return bnn, {site: numbers[made] for site, made in bnn.units.producers.items()}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("change", ["", "norm"])
def test_heads_that_share_keys_are_one(change) -> None:
    _, found = heads_of(Grouped(change), (7, 4))
    for site, heads in (("q", [0, 0, 1, 1]), ("k", [0, 1]), ("v", [0, 1])):
        for part in ("kernel", "bias"):
            made = found[f"{site}.{part}"]
            np.testing.assert_array_equal(made, np.broadcast_to(np.array(heads)[:, None], made.shape))
    assert all((made == NONE).all() for site, made in found.items() if site.startswith("Dense"))


@pytest.mark.parametrize("change", ["one feature", "bias", "mixed"])
def test_where_no_table_of_scores_is_left_heads_are_refused(change) -> None:
    bnn, found = heads_of(Grouped(change), (7, 4))
    assert all((made == NONE).all() for made in found.values())
    with pytest.raises(ValueError, match="take scope='unit'"):
        bnn.groups("head")


def test_scores_that_are_given_out_make_no_head() -> None:
    _, found = heads_of(Bilinear(), (5,))
    assert all((made == NONE).all() for made in found.values())


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", NETS)
def test_only_attention_has_heads(name) -> None:
    found = units(case(name).graph)
    assert found.heads.shape == (found.count,) and found.heads.dtype == np.int32
    attends = name == "attention" or name.startswith("vit")
    assert sorted(set(found.heads.tolist())) == ([NONE, 0, 1] if attends else [NONE])


def test_every_block_has_heads_of_its_own_in_their_order() -> None:
    net = bp.nets.ViT(3, patch=2, features=4, num_blocks=2, num_heads=2, hidden=5, frame=0)
    bnn, found = heads_of(net, (4, 4, 2))
    for block in range(2):
        for part in ("query", "key", "value"):
            made = found[f"EncoderBlock_{block}.attention.{part}.kernel"]
            np.testing.assert_array_equal(made, np.broadcast_to(2 * block + np.arange(2)[:, None], made.shape))
    groups = bnn.groups("head")
    assert groups.count == 4 and groups.members["embed.kernel"].shape == (1, 1)


def test_heads_fall_by_the_evidence_of_all_their_weights() -> None:
    """(2.5) by hand for every weight, summed over slices of the arrays."""
    net = bp.nets.ViT(3, patch=2, features=6, num_blocks=1, num_heads=3, hidden=5, frame=0)
    bnn, _ = heads_of(net, (4, 4, 2))
    rng = np.random.default_rng(0)
    loc, scale = ({str(s.path): draw(s.shape) for s in bnn.layout if s.prunable} for draw in (
        lambda shape: rng.normal(size=shape), lambda shape: rng.uniform(0.3, 1.0, shape)))  # fmt: skip
    names = [f"EncoderBlock_0.attention.{part}.{kind}" for part in ("query", "key", "value") for kind in ("kernel", "bias")]
    gains = np.zeros(3)
    for name in names:  # log of the posterior's density at zero over the prior's, of standard deviation 1.2
        gain = np.log(1.2 / scale[name]) - loc[name] ** 2 / (2 * scale[name] ** 2)
        gains += gain.sum(axis=(0, 2) if gain.ndim == 3 else 1)

    least = float(np.median(-gains)) - 1e-3
    method, groups = bp.methods.Cut("evidence", threshold=least, scope="head"), bnn.groups("head")
    nodes = {site: MeanField(jnp.asarray(loc[site]), jnp.asarray(scale[site]), 1.2) for site in loc}
    key = jax.random.key(0)
    step = jax.jit(lambda nodes: method.step(key, Evidence(nodes, None, groups=groups), method.init(key, nodes)))
    mask = jax.device_get(step(nodes)[0].mask)
    for site, alive in mask.items():
        kept = -gains >= least if site in names else np.ones(3, bool)
        assert kept.sum() == (2 if site in names else 3), "what is in no head stays"
        np.testing.assert_array_equal(alive, np.broadcast_to(kept[:, None], alive.shape) if site in names else True)
