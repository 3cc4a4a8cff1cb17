"""Heads: the features of a head's queries, keys and values go together, and nothing else does."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.structure.nets import NETS, case

import bayesprune as bp
from bayesprune.core.types import Evidence
from bayesprune.posteriors.mean_field import MeanField
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
        if self.change == "scales":  # a number for each feature of each head
            q, v = (y * self.param(f"s_{n}", nn.initializers.normal(), y.shape[2:]) for n, y in (("q", q), ("v", v)))
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


class Pairs(nn.Module):
    """Two heads, of two tables of scores each, that are added or multiplied."""

    how: str

    @nn.compact
    def __call__(self, x):
        q, k, v = (nn.DenseGeneral((2, 2, 3), name=name)(x) for name in "qkv")
        scores = nn.softmax(jnp.einsum("bthpd,bshpd->bhpts", q, k))
        one, other = scores[:, :, 0], scores[:, :, 1]
        mixed = jnp.einsum("bhts,bshpd->bthpd", one - 0.3 * other if self.how == "added" else one * other, v)
        return nn.Dense(3)(mixed.reshape(len(x), -1))


class HandedOn(nn.Module):
    """Two blocks, of which the second adds the scores of the first to its own."""

    @nn.compact
    def __call__(self, x):
        x, scores = nn.Dense(4)(x), 0.0
        for block in range(2):
            q, k, v = (nn.DenseGeneral((2, 3), name=f"{name}{block}")(x) for name in "qkv")
            scores = jnp.einsum("bthd,bshd->bhts", q, k) + scores
            x = x + nn.DenseGeneral(4, axis=(-2, -1))(jnp.einsum("bhts,bshd->bthd", nn.softmax(scores), v))
        return nn.Dense(3)(x.mean(1))


class Unprojected(nn.Module):
    """A block whose keys or values are its inputs, ``what`` "k", "v" or "kv", and a block of two whole heads."""

    what: str

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(4)(x)
        y = nn.LayerNorm()(x)
        q, k, v = (y if name in self.what else nn.Dense(4, name=name)(y) for name in "qkv")
        scores = nn.softmax(jnp.einsum("btd,bsd->bts", q, k))
        x = x + nn.Dense(4, name="o")(jnp.einsum("bts,bsd->btd", scores, v))
        return nn.Dense(3)((x + nn.MultiHeadDotProductAttention(num_heads=2, name="whole")(x, x)).mean(1))


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
@pytest.mark.parametrize("change", ["", "norm", "scales"])
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


def test_tables_that_are_added_or_multiplied_are_one_head() -> None:
    nets = {"q": Pairs("added"), "k": Pairs("multiplied"), "q0 k0 v0 q1 k1 v1": HandedOn()}
    for sites, net in nets.items():
        bnn, found = heads_of(net, (5, 4))
        for site in {*sites.split(), *("qkv" if isinstance(net, Pairs) else "")}:
            made = found[f"{site}.kernel"]
            np.testing.assert_array_equal(made, np.broadcast_to(np.arange(2).reshape(2, *[1] * (made.ndim - 2)), made.shape))
        assert bnn.units.headless == 0 and bnn.groups("head").count == 2


@pytest.mark.parametrize("what", ["k", "v", "kv"])
def test_what_has_no_projection_of_its_own_makes_no_head(what) -> None:
    """Its inputs would fall with it, and with them all that else reads them."""
    bnn, found = heads_of(Unprojected(what), (5, 4))
    for site, made in found.items():
        whole = site.startswith("whole") and not site.startswith("whole.out")
        np.testing.assert_array_equal(np.unique(made), [0, 1] if whole else [NONE], err_msg=site)
    with pytest.warns(UserWarning, match=r"cuts 2 heads, and none of 1 more tables.*no projection of their own"):
        assert bnn.groups("head").count == 2


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


@pytest.mark.slow
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
