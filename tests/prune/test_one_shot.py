"""One pruning pass over finished parameters, by any sparsifier."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core.types import Info, SparseState
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.prune.bookkeeping import make_info

LOC = np.array([[0.0, 3.0], [-2.0, 0.1]], np.float32)
SCALE = np.array([[0.9, 0.1], [0.1, 0.8]], np.float32)
PARAMS = {"w_auto_loc": jnp.asarray(LOC), "w_auto_scale": jnp.asarray(SCALE), "v_auto_loc": jnp.ones(3),
          "v_auto_scale": jnp.full(3, 0.1), "other": jnp.array(7.0), "nn$params": {}}  # fmt: skip
WIDE = {"w_auto_loc": jnp.ones(64), "w_auto_scale": jnp.ones(64)}
HALF = bp.methods.Magnitude(density=0.5, scope="per_layer")


def tree():
    return {"net": {"w": MeanField(jnp.asarray(LOC), jnp.asarray(SCALE)), "v": MeanField(jnp.ones(3), jnp.full(3, 0.1))}}


def test_parameters_of_numpyro() -> None:
    pruned = bp.prune_once(PARAMS, HALF)
    np.testing.assert_array_equal(pruned.mask["w"], [[False, True], [True, False]])
    np.testing.assert_array_equal(pruned.params["w_auto_loc"], np.where(pruned.mask["w"], LOC, 0))
    np.testing.assert_array_equal(pruned.params["w_auto_scale"], np.where(pruned.mask["w"], SCALE, 0))
    assert pruned.params["other"] is PARAMS["other"] and pruned.params["nn$params"] == {}
    assert isinstance(pruned.info, Info) and int(pruned.info.num_alive) == 4
    assert np.isnan(pruned.info.readiness), "one posterior does not show whether it moves: it was 1, all at rest"
    assert isinstance(pruned, tuple) and pruned._fields == ("params", "mask", "info")


def test_a_tree_of_posteriors_is_cut_the_same_and_keeps_its_form() -> None:
    flat, nested = bp.prune_once(PARAMS, HALF), bp.prune_once(tree(), HALF)
    assert jax.tree.structure(nested.params) == jax.tree.structure(tree())
    node = nested.params["net"]["w"]
    assert isinstance(node, MeanField) and node.prior_scale == 1.0
    np.testing.assert_array_equal(node.loc, flat.params["w_auto_loc"])
    np.testing.assert_array_equal(node.scale, flat.params["w_auto_scale"])
    np.testing.assert_array_equal(nested.mask["net.w"], flat.mask["w"])


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16])
def test_low_precisions_are_scored_as_what_they_are_in_float32_and_come_back(kind: type) -> None:
    """By its eight bits bfloat16 cuts some other weights of these."""
    rng = np.random.default_rng(0)
    loc, scale = 0.05 * rng.standard_normal((100, 100)), 0.02 * np.exp(0.3 * rng.standard_normal((100, 100)))
    low = {"w_auto_loc": jnp.asarray(loc, kind), "w_auto_scale": jnp.asarray(scale, kind)}
    single = jax.tree.map(lambda values: values.astype(jnp.float32), low)
    for cut in (
        functools.partial(bp.bmr_prune, prior_scale=0.05),
        functools.partial(bp.prune_once, sparsifier=bp.methods.SNR(0.1)),
    ):
        found, wanted = cut(low), cut(single)
        np.testing.assert_array_equal(found.mask["w"], wanted.mask["w"])
        np.testing.assert_array_equal(found.info.evidence_gained, wanted.info.evidence_gained)
        assert {leaf.dtype for leaf in jax.tree.leaves(found.params)} == {jnp.dtype(kind)}


def test_the_arguments_are_left_as_they_are() -> None:
    for params in (PARAMS, tree()):
        before = [np.array(leaf) for leaf in jax.tree.leaves(params)]
        bp.prune_once(params, HALF)
        assert all(np.array_equal(a, b) for a, b in zip(before, jax.tree.leaves(params), strict=True))


def test_what_the_predicate_refuses_is_not_in_the_mask() -> None:
    pruned = bp.prune_once(PARAMS, HALF, prunable=lambda path, shape: len(shape) == 2)
    assert set(pruned.mask) == {"w"}
    np.testing.assert_array_equal(pruned.params["v_auto_loc"], np.ones(3))
    with pytest.raises(ValueError, match="prunable refuses all of w, v"):
        bp.prune_once(PARAMS, HALF, prunable=lambda path, shape: False)


def test_the_dead_stay_dead() -> None:
    given = {"w": np.array([[True, False], [False, True]])}
    pruned = bp.prune_once(PARAMS, bp.methods.Magnitude(density=1.0), mask=given)
    np.testing.assert_array_equal(pruned.mask["w"], given["w"])
    again = bp.prune_once(pruned.params, bp.methods.Magnitude(density=1.0))
    np.testing.assert_array_equal(again.mask["w"], given["w"])
    assert int(again.info.num_pruned) == 0


@pytest.mark.parametrize("params", [PARAMS, {"w": tree()["net"]["w"], "v": tree()["net"]["v"]}], ids=["numpyro", "tree"])
def test_the_dead_of_a_site_that_prunable_keeps_out_stay_dead(params) -> None:
    """They came back alive: the result has no mask of that site, and its parameters were whole."""
    given = {"v": np.array([True, False, True])}
    pruned = bp.prune_once(params, HALF, prunable=lambda path, shape: path == "w", mask=given)
    loc = pruned.params["v_auto_loc"] if "v_auto_loc" in params else pruned.params["v"].loc
    np.testing.assert_array_equal(loc, [1.0, 0.0, 1.0])
    assert set(pruned.mask) == {"w"}


def test_prior_scales_by_number_or_by_site() -> None:
    params = {"w_auto_loc": jnp.array([1.0, 1.0]), "w_auto_scale": jnp.array([0.5, 0.5])}
    # Alone with its own prior the weight goes where log(s0/scale) > (loc/scale)²/2 = 2: s0 > 0.5 e² = 3.69.
    method = bp.methods.BMR(num_iters=1)
    keeps = lambda scale: bp.prune_once(params, method, prior_scale=scale).mask["w"].tolist()  # noqa: E731
    assert keeps(3.6) == [True, True] and keeps(3.8) == [False, False]
    assert keeps({"w": np.array([3.6, 3.8])}) == [True, False]


BAD = {
    "map": ({"w_map_loc": jnp.ones(3)}, {}, "A MAP fit has no evidence to prune by"),
    "empty": ({}, {}, "no mean-field posterior"),
    "an array": (jnp.ones(3), {}, "no mean-field posterior"),
    "scalars": ({"b_auto_loc": jnp.ones(()), "b_auto_scale": jnp.ones(())}, {}, "single numbers are not taken"),
    "shapes": ({"w_auto_loc": jnp.ones(3), "w_auto_scale": jnp.ones(2)}, {}, r"loc of shape \(3,\) and scale of shape \(2,\)"),
    "negative": ({"w_auto_loc": jnp.ones(2), "w_auto_scale": jnp.array([1.0, -1.0])}, {}, "'w' is no Gaussian posterior"),
    "nan": ({"w_auto_loc": jnp.array([jnp.nan]), "w_auto_scale": jnp.ones(1)}, {}, "'w' is no Gaussian posterior"),
    "mask of another": (PARAMS, {"prior_scale": 1.0, "mask": {"u": jnp.ones(3, bool)}}, "unknown site in mask 'u'"),
    "mask of another shape": (
        PARAMS,
        {"prior_scale": 1.0, "mask": {"w": jnp.ones(3, bool)}},
        r"mask\['w'\] has shape \(3,\), its site \(2, 2\)",
    ),
    "prior missing": (PARAMS, {"prior_scale": {"w": 1.0}}, "prior_scale has no entry for v"),
    "prior of another": (PARAMS, {"prior_scale": {"w": 1.0, "v": 1.0, "vv": 1.0}}, "unknown site in prior_scale 'vv'"),
    "prior negative": (PARAMS, {"prior_scale": -1.0}, "prior_scale of 'w' must be positive"),
    "prior shape": (PARAMS, {"prior_scale": {"w": np.ones(3), "v": 1.0}}, r"prior_scale\['w'\] has shape \(3,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_pruned_is_told(case) -> None:
    params, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        bp.prune_once(params, bp.methods.BMR(), **settings)


def test_it_can_be_jitted_with_the_same_result() -> None:
    params = {"w_auto_loc": jnp.array([0.0, 0.0, 3.0]), "w_auto_scale": jnp.array([0.5, 0.5, 0.1]), "nn$params": {}}
    prune = functools.partial(bp.bmr_prune, prior_scale=1.0)
    plain, jitted = prune(params), jax.jit(prune)(params)
    assert jax.tree.structure(plain) == jax.tree.structure(jitted)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*map(jax.tree.leaves, (plain, jitted)), strict=True))


@dataclass(frozen=True)
class Coin:
    """Keeps every weight with probability 1/2: the shortest method that draws; ``at``: in `init` or in `step`."""

    at: str

    def init(self, rng_key, posterior):
        mask = {site: jnp.ones(node.loc.shape, bool) for site, node in posterior.items()}
        return SparseState(self.flipped(rng_key, mask) if self.at == "init" else mask, (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state):
        new = state._replace(mask=self.flipped(rng_key, state.mask) if self.at == "step" else state.mask)
        return new, make_info(state.mask, new)

    def flipped(self, rng_key, mask):
        return {site: jax.random.bernoulli(rng_key, 0.5, alive.shape) & alive for site, alive in mask.items()}


@pytest.mark.parametrize("at", ["init", "step"])
def test_what_draws_asks_for_a_key(at):
    with pytest.raises(ValueError, match=r"rng_key is needed, as numbers are drawn.*rng_key=jax\.random\.key\(0\)"):
        bp.prune_once(PARAMS, Coin(at))
    with pytest.raises(TypeError, match="rng_key must be a JAX random key, got int"):
        bp.prune_once(PARAMS, Coin(at), rng_key=0)


def test_a_mask_that_is_drawn_is_drawn_by_the_key():
    masks = [bp.prune_once(WIDE, Coin("step"), rng_key=jax.random.key(seed)).mask["w"] for seed in (0, 0, 1)]
    assert [np.array_equal(masks[0], other) for other in masks[1:]] == [True, False]  # 64 coins fall alike once in 2^64 times
    assert 0 < masks[0].sum() < 64


@pytest.mark.parametrize("data", [[(np.ones((2, 4)), np.zeros(2))], lambda: iter([])], ids=["batches", "a function"])
def test_what_streams_are_given_for_is_named(data, rng_key) -> None:
    bnn = programs.small_bnn()
    fit = bp.fit_svi(rng_key, bnn, programs.classes(), num_steps=2, progress=False)
    for look in (
        lambda: bp.bmr_prune(fit.params, program=bnn, data=data, rng_key=rng_key),
        lambda: bp.diagnose(rng_key, bnn, fit, data),
    ):
        with pytest.raises(TypeError, match=r"data must have fields x and y, .*bp\.Dataset"):
            look()
