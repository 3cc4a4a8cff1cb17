"""SSVI: what it promises beyond the laws of every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.types import Evidence
from bayesprune.methods.ssvi import ADDITIONS, REMOVALS
from bayesprune.posteriors.mean_field import MeanField
from tests.methods import laws

SSVI = bp.methods.SSVI


def rounds(method, key, number=4, ties=False):
    """Masks after each of several exchanges."""
    seen = [laws.evidence(jax.random.fold_in(key, n), ties) for n in range(number)]
    state = method.init(key, seen[0].posterior)
    found = [state.mask]
    for n in range(number):
        state, _ = method.step(jax.random.fold_in(key, 100 + n), seen[n], state)
        found.append(state.mask)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("removal", "addition", "distribution"),
    [
        *((removal, "gradient", "uniform") for removal in REMOVALS),
        *(("snr", addition, "erdos_renyi") for addition in ADDITIONS),
        *(("magnitude", addition, "global") for addition in ("gradient", "random")),
    ],
)
def test_the_count_is_exact_at_every_moment_ties_included(removal, addition, distribution, rng_key) -> None:
    method = SSVI(0.3, removal=removal, addition=addition, distribution=distribution)
    found = rounds(method, rng_key, ties=True)
    for mask in found:
        assert int(masks.count(mask)) == round(0.3 * 55)
    if distribution != "global":
        each = [{site: int(m.sum()) for site, m in mask.items()} for mask in found]
        assert all(counts == each[0] for counts in each)
    assert not laws.same(found[0], found[-1])


@pytest.mark.slow
def test_scores_2_and_4_give_the_same_masks(rng_key) -> None:
    two, four = (rounds(SSVI(0.3, removal=name), rng_key, 8) for name in ("snr", "expected_abs_over_std"))
    assert laws.same(two, four)
    one = rounds(SSVI(0.3, removal="magnitude"), rng_key, 8)
    assert not laws.same(one, four)


@pytest.mark.slow
def test_it_drops_the_lowest_scores_and_wakes_the_largest_gradients(rng_key) -> None:
    rng = np.random.default_rng(0)
    loc, scale, gradient = rng.normal(size=100), rng.uniform(0.1, 1.0, 100), rng.normal(size=100)
    posterior = {"w": MeanField(jnp.asarray(loc), jnp.asarray(scale))}
    method = SSVI(0.4, removal="snr", replace=0.5)
    state = method.init(rng_key, posterior)
    old = np.asarray(state.mask["w"])
    new = np.asarray(method.step(rng_key, Evidence(posterior, {"w": jnp.asarray(gradient)}), state)[0].mask["w"])
    ratio, alive = np.abs(loc) / scale, np.flatnonzero(old)
    staying = alive[np.argsort(-ratio[alive])][:20]  # r = 0.5: half of 40 fall
    others = np.setdiff1d(np.arange(100), staying)
    waking = others[np.argsort(-np.abs(gradient[others]))][:20]
    np.testing.assert_array_equal(np.flatnonzero(new), np.sort(np.concatenate([staying, waking])))


@pytest.mark.slow
def test_the_share_replaced_falls_with_a_cosine_and_ends(rng_key) -> None:
    """r_t = (0.3/2)(1 + cos(pi t/T_end)), T_end = 75 % of eight updates; no gradient is in the mask that falls."""
    rng = np.random.default_rng(1)
    posterior = {"w": MeanField(jnp.asarray(rng.normal(size=4000)), jnp.ones(4000))}
    method = SSVI(0.25)
    state = method.init(rng_key, posterior)
    for step in range(1, 9):
        gradient = {"w": jnp.where(state.mask["w"], 0.0, 1.0 + jnp.asarray(rng.random(4000)))}
        state, info = method.step(rng_key, Evidence(posterior, gradient, step / 8), state)
        share = 0.15 * (1 + np.cos(np.pi * min(step / 6, 1)))
        assert int(info.num_grown) == round(share * 1000)


def test_the_first_mask_is_uniform(rng_key) -> None:
    """2,000 keys, 10 weights of which 3: each is alive 600 times +- 5 standard deviations (fails once in 1e5 keys)."""
    posterior = {"w": MeanField(jnp.zeros(10), jnp.ones(10))}
    draw = jax.vmap(lambda key: SSVI(0.3).init(key, posterior).mask["w"])
    alive = np.asarray(draw(jax.random.split(rng_key, 2000)))
    assert (alive.sum(1) == 3).all()
    np.testing.assert_allclose(alive.sum(0), 600, atol=5 * np.sqrt(2000 * 0.3 * 0.7))


@pytest.mark.parametrize(
    ("knobs", "name"),
    [
        ({"removal": "snrr"}, "removal"), ({"addition": "grad"}, "addition"), ({"distribution": "even"}, "distribution"),
        ({"replace": 0.0}, "replace"), ({"until": 1.5}, "until"), ({"new_scale": -1.0}, "new_scale"),
        ({"growth": "all"}, "growth"), ({"num_draws": 0}, "num_draws"), ({"lam": 0.0}, "lam"), ({"first": "no"}, "first"),
    ],
)  # fmt: skip
def test_bad_knobs_are_named(knobs, name) -> None:
    with pytest.raises(ValueError, match=name):
        SSVI(**knobs)


def test_it_needs_a_training() -> None:
    with pytest.raises(ValueError, match="train with fit_svi"):
        bp.prune_once({"w_auto_loc": jnp.ones(4), "w_auto_scale": jnp.ones(4)}, SSVI(0.5))
