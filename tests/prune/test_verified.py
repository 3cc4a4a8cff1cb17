"""Verified acts, (2.9): against a search by hand over the same nested masks, on bounds that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.types import Info, SparseState
from bayesprune.posteriors.correlated import Correlated
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.prune import verified
from bayesprune.prune.bookkeeping import make_info
from bayesprune.prune.verified import SHARES, verify

SIZE = 40
POSTERIOR = {"a": MeanField(np.zeros(SIZE), np.ones(SIZE)), "b": MeanField(np.zeros((4, 5)), np.ones((4, 5)))}


def act(gains: dict, cut: dict, bound, old: dict | None = None, posterior=POSTERIOR) -> tuple[SparseState, Info]:
    """A proposal that cuts ``cut``, verified."""
    old = {site: jnp.ones(np.shape(gain), bool) for site, gain in gains.items()} if old is None else old
    new = SparseState({site: old[site] & ~jnp.asarray(cut[site]) for site in old}, (), jnp.ones((), jnp.int32))
    info = make_info(old, new, evidence_gain={site: jnp.asarray(gain) for site, gain in gains.items()})
    return jax.jit(lambda: verify(bound, posterior, old, new, info))()


def random_case(seed: int) -> tuple[dict, dict, dict]:
    """Gains, a proposal, and what each weight is worth to the bound."""
    draw = np.random.default_rng(seed)
    shapes = {"a": (SIZE,), "b": (4, 5)}
    gains = {site: draw.normal(size=shape) for site, shape in shapes.items()}
    return gains, {s: gain > -0.3 for s, gain in gains.items()}, {s: draw.normal(size=shape) for s, shape in shapes.items()}


def taken_by_hand(gains: dict, cut: dict, worth: dict) -> set[tuple[str, int]]:
    """The dead weights of the nested mask to be taken, by sorting and trying one share after the other."""
    order = sorted(((gains[s].flat[i], s, i) for s in gains for i in range(gains[s].size) if cut[s].flat[i]), reverse=True)
    lost = lambda dead: sum(worth[s].flat[i] for s, i in dead)  # noqa: E731
    everything = lost({(s, i) for s in gains for i in range(gains[s].size)})
    taken: set[tuple[str, int]] = set()
    for share in SHARES:
        dead = {(s, i) for _, s, i in order[: int(np.ceil(share * len(order)))]}
        may = lost(dead) <= 0 and lost(dead) < everything
        if taken and not (may and lost(dead) <= lost(taken)):
            break
        taken = dead if may else taken
    return taken


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", range(8))
def test_the_first_share_that_is_better_than_the_next_is_cut(seed: int) -> None:
    gains, cut, worth = random_case(seed)
    bound = lambda mask: sum(jnp.sum(jnp.where(mask[s], worth[s], 0.0)) for s in mask)  # noqa: E731
    state, info = act(gains, cut, bound)
    dead = {(s, i) for s, alive in state.mask.items() for i in np.flatnonzero(~np.asarray(alive).reshape(-1))}
    assert dead == taken_by_hand(gains, cut, worth)
    assert int(info.num_proposed) == sum(int(c.sum()) for c in cut.values()) and int(info.num_pruned) == len(dead)
    np.testing.assert_allclose(info.bound_gained, -sum(worth[s].flat[i] for s, i in dead), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(info.evidence_gained, sum(gains[s].flat[i] for s, i in dead), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("worst", "fall"), [(40, 20), (15, 10), (9, 4), (3, 1), (0, 0)])
def test_without_evidence_only_what_is_cut_may_fall_and_in_its_order(worst: int, fall: int) -> None:
    """Of twenty units that a method cuts, in an order of its own: a bound that suffers with more than ``worst`` dead ones."""
    order = {"a": jnp.arange(SIZE, dtype=float)}  # above zero outside of what is cut as well: it is no evidence
    old = {"a": jnp.ones(SIZE, bool)}
    new = SparseState({"a": jnp.arange(SIZE) < 20}, (), jnp.ones((), jnp.int32))
    info = make_info(old, new)._replace(order=order)

    def bound(mask: dict) -> jax.Array:
        dead = jnp.sum(~mask["a"])
        return jnp.where(dead == SIZE, -1e3, jnp.where(dead > worst, -1.0, dead.astype(float)))

    state, info = jax.jit(lambda: verify(bound, {"a": MeanField(np.zeros(SIZE), np.ones(SIZE))}, old, new, info))()
    np.testing.assert_array_equal(state.mask["a"], np.arange(SIZE) < SIZE - fall)
    assert int(info.num_proposed) == 20 and int(info.num_pruned) == fall and info.evidence_gained is None


@pytest.mark.slow
def test_the_bound_is_looked_at_no_more_often_than_needed() -> None:
    """As it was, down the shares until the next is worse, and the empty one: each look is a forward pass."""
    gains, cut = {"a": np.arange(100) - 49.5}, {"a": np.arange(100) >= 50}
    fallen = lambda mask: jnp.sum(~mask["a"])  # noqa: E731
    for best, share in enumerate(SHARES):
        looks = []

        def bound(mask: dict, share: float = share, looks: list = looks) -> jax.Array:
            jax.debug.callback(lambda: looks.append(1))
            # Worse than before with more than this share.
            more, empty = fallen(mask) > np.ceil(50 * share), ~jnp.any(mask["a"])
            return jnp.where(empty, -200.0, jnp.where(more, -100.0, fallen(mask).astype(float)))

        state, _ = act(gains, cut, bound, posterior={"a": MeanField(0, 1)})
        jax.effects_barrier()
        assert int(fallen(state.mask)) == np.ceil(50 * share)
        assert len(looks) == min(2 + best + 2, 2 + len(SHARES))


def test_a_refused_act_does_not_look_at_the_empty_network() -> None:
    """As it was, and every share: none is better, so that it is of no interest whether the empty one is worse than it."""
    gains, cut, _ = random_case(0)
    seen: list[int] = []

    def bound(mask: dict) -> jax.Array:
        number = sum(jnp.sum(alive) for alive in mask.values())
        jax.debug.callback(lambda alive: seen.append(int(alive)), number)
        return number.astype(float)  # the more is alive the better

    state, _ = act(gains, cut, bound)
    jax.effects_barrier()
    assert all(bool(alive.all()) for alive in state.mask.values())
    assert len(seen) == 1 + len(SHARES) and 0 not in seen


def test_while_the_empty_network_is_better_nothing_is_cut() -> None:
    gains, cut, _ = random_case(0)
    number = lambda mask: sum(jnp.sum(alive) for alive in mask.values())  # noqa: E731
    state, info = act(gains, cut, lambda mask: -number(mask))  # the more is cut the better: to the end
    assert all(bool(alive.all()) for alive in state.mask.values())
    assert int(info.num_pruned) == 0 and float(info.bound_gained) == 0 and int(info.num_proposed) > 0
    # The same, but for an empty network that is worth nothing: all that is proposed goes.
    state, info = act(gains, cut, lambda mask: jnp.where(number(mask) == 0, -1e9, -number(mask)))
    assert int(info.num_pruned) == int(info.num_proposed)


def test_a_bound_that_is_no_number_is_worst() -> None:
    gains, cut, _ = random_case(1)
    whole = sum(gain.size for gain in gains.values())
    number = lambda mask: sum(jnp.sum(alive) for alive in mask.values())  # noqa: E731
    state, _ = act(gains, cut, lambda mask: jnp.where(number(mask) < whole, jnp.nan, 0.0))
    assert all(bool(alive.all()) for alive in state.mask.values())


@pytest.mark.slow
def test_weights_of_equal_gain_fall_together() -> None:
    """A unit's weights have its gain: no share may split it."""
    gains = {"a": np.repeat(np.arange(8.0), 5), "b": np.full((4, 5), -1.0)}
    cut = {"a": np.ones(SIZE, bool), "b": np.zeros((4, 5), bool)}
    for wanted in range(0, SIZE, 3):
        bound = lambda mask, wanted=wanted: -jnp.abs(jnp.sum(~mask["a"]) - wanted) - 100.0 * ~jnp.any(mask["b"])  # noqa: E731
        state, _ = act(gains, cut, bound)
        rows = np.asarray(state.mask["a"]).reshape(8, 5)
        assert (rows.all(1) | (~rows).all(1)).all()


def test_nothing_proposed_is_nothing_done() -> None:
    gains = {site: -np.abs(gain) for site, gain in random_case(2)[0].items()}
    cut = {site: np.zeros(gain.shape, bool) for site, gain in gains.items()}
    state, info = act(gains, cut, lambda mask: jnp.zeros(()))
    assert int(info.num_proposed) == int(info.num_pruned) == 0 and all(bool(a.all()) for a in state.mask.values())


def test_a_few_candidates_may_wait() -> None:
    """Of a fit, which acts again; what is cut once is looked at whatever it is."""
    gains, cut = {"a": np.arange(200) - 198.5}, {"a": np.arange(200) >= 199}
    posterior, bound = {"a": MeanField(0, 1)}, lambda mask: -jnp.sum(mask["a"]) - 1e9 * ~jnp.any(mask["a"])
    old = {"a": jnp.ones(200, bool)}
    new = SparseState({"a": ~jnp.asarray(cut["a"])}, (), jnp.ones((), jnp.int32))
    info = make_info(old, new, evidence_gain={"a": jnp.asarray(gains["a"])})
    for least, pruned in ((0.0, 1), (0.005, 1), (0.01, 0)):
        state, found = verify(bound, posterior, old, new, info, least)
        assert int(found.num_pruned) == int((~state.mask["a"]).sum()) == int(found.num_proposed) == pruned


def test_what_gains_evidence_by_itself_is_a_candidate_too() -> None:
    """Though the method asks for more; not where weights vary together, whose gains hold for the act as it is."""
    gains, cut = {"a": np.array([2.0, 1.0, 0.5, -1.0])}, {"a": np.array([True, False, False, False])}
    bound = lambda mask: -jnp.sum(mask["a"]) - 1e9 * ~jnp.any(mask["a"])  # noqa: E731
    state, info = act(gains, cut, bound, posterior={"a": MeanField(0, 1)})
    assert list(np.asarray(state.mask["a"])) == [False, False, False, True] and int(info.num_proposed) == 3
    node = Correlated(jnp.zeros(4), jnp.ones(4), rows=jnp.eye(4), columns=jnp.ones((1, 1)))
    state, _ = act(gains, cut, bound, posterior={"a": node})
    assert list(np.asarray(state.mask["a"])) == [False, True, True, True]


def test_the_dead_stay_dead() -> None:
    gains, cut, worth = random_case(3)
    old = {site: jnp.asarray(np.random.default_rng(0).random(np.shape(gain)) < 0.5) for site, gain in gains.items()}
    state, info = act(gains, cut, lambda mask: sum(jnp.sum(jnp.where(mask[s], worth[s], 0.0)) for s in mask), old)
    assert all(not bool((state.mask[site] & ~old[site]).any()) for site in old)
    assert int(info.num_proposed) == sum(int((np.asarray(old[s]) & cut[s]).sum()) for s in old)


@pytest.mark.slow
def test_of_many_candidates_a_sample_says_where_a_share_ends(monkeypatch) -> None:
    """A share of many is met to one part in the sample's size; all of them are all of them."""
    monkeypatch.setattr(verified, "SAMPLED", 64)
    draw = np.random.default_rng(0)
    gains = {"a": draw.normal(size=3001), "b": np.full((4, 5), -9.0)}
    cut = {"a": gains["a"] > -1.0, "b": np.zeros((4, 5), bool)}
    candidates = int(cut["a"].sum())
    for share in SHARES:
        bound = lambda mask, share=share: -jnp.abs(jnp.sum(~mask["a"]) / candidates - share) - ~jnp.any(mask["b"])  # noqa: E731
        state, _ = act(gains, cut, bound, posterior={"a": MeanField(0, 1), "b": MeanField(0, 1)})
        met = int((~np.asarray(state.mask["a"])).sum()) / candidates
        assert abs(met - share) < 0.1 and (share < 1 or met == 1)


@pytest.mark.slow
def test_what_varies_together_goes_all_or_none() -> None:
    """Its gains are already evidence of the whole act: a part of it would be another act."""
    node = Correlated(jnp.zeros(6), jnp.ones(6), rows=jnp.eye(6), columns=jnp.ones((1, 1)))
    gains, cut = {"a": np.arange(6.0)}, {"a": np.arange(6) > 1}
    for wanted in range(7):
        bound = lambda mask, wanted=wanted: -jnp.abs(jnp.sum(~mask["a"]) - wanted) - 10.0 * ~jnp.any(mask["a"])  # noqa: E731
        state, _ = act(gains, cut, bound, posterior={"a": node})
        assert int((~np.asarray(state.mask["a"])).sum()) in (0, 4)
