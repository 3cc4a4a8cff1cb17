"""Bayesian model reduction against a slow loop in SciPy, and against exact evidences of linear regression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import bayesprune as bp
from bayesprune.core.types import Evidence
from bayesprune.posteriors.mean_field import MeanField

SITES = {"a.kernel": (6, 5), "a.bias": (5,), "b.kernel": (5, 4), "c": (7,)}
RNG = np.random.default_rng(3)
LOCS = {s: RNG.normal(size=shape) * RNG.choice([0.05, 1.0], size=shape) for s, shape in SITES.items()}
SCALES = {s: RNG.uniform(0.05, 0.95, size=shape) for s, shape in SITES.items()}
DEAD = {s: RNG.uniform(size=shape) < 0.3 for s, shape in SITES.items()}
PRIORS = {"a.kernel": 1.0, "a.bias": 2.0, "b.kernel": 0.7, "c": 1.5}
GROUPS = {
    "layer": [["a.kernel", "a.bias"], ["b.kernel"], ["c"]],
    "site": [["a.kernel"], ["a.bias"], ["b.kernel"], ["c"]],
    "global": [list(SITES)],
}


def gain(loc: float, scale: float, prior: float) -> float:
    """(2.5): posterior density over prior density, at zero."""
    return scipy.stats.norm.logpdf(0.0, loc, scale) - scipy.stats.norm.logpdf(0.0, 0.0, prior)


def by_hand(group: str, dead: str, alpha0: float, beta0: float, rounds: int, margin: float = 0.0) -> tuple[dict, float]:
    """(2.6) and (2.13), one weight after the other."""
    alive, gained = {s: ~DEAD[s] for s in SITES}, 0.0
    for sites in GROUPS[group]:
        gains = {(s, i): gain(LOCS[s][i], SCALES[s][i], PRIORS[s]) for s in sites for i in np.ndindex(SITES[s])}
        zeta = scipy.special.digamma(alpha0) - scipy.special.digamma(beta0)
        for _ in range(rounds - 1):
            alpha, beta = alpha0, beta0
            for (site, index), value in gains.items():
                gone = DEAD[site][index]
                if gone and dead == "forgotten":
                    continue
                q = scipy.special.expit(zeta - (0.0 if gone else value))
                q = 0.0 if gone and dead == "excluded" else q
                alpha, beta = alpha + q, beta + 1 - q
            zeta = scipy.special.digamma(alpha) - scipy.special.digamma(beta)
        for (site, index), value in gains.items():
            if alive[site][index] and value > zeta + margin:
                alive[site][index] = False
                gained += value
    return alive, gained


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["prior", "forgotten", "excluded"])
@pytest.mark.parametrize("group", list(GROUPS))
def test_mask_and_evidence_against_a_slow_loop(group, dead) -> None:
    """(2.5), (2.6)."""
    posterior = {s: MeanField(jnp.asarray(LOCS[s]), jnp.asarray(SCALES[s]), jnp.asarray(PRIORS[s])) for s in SITES}
    method = bp.methods.BMR(alpha0=1.3, beta0=0.8, num_iters=5, group=group, dead=dead)
    state = method.init(jax.random.key(0), posterior)
    state = state._replace(mask={s: jnp.asarray(~DEAD[s]) for s in SITES})
    new, info = method.step(jax.random.key(0), Evidence(posterior, None), state)
    wanted, gained = by_hand(group, dead, 1.3, 0.8, 5)
    for site in SITES:
        np.testing.assert_array_equal(new.mask[site], wanted[site])
    assert float(info.evidence_gained) == pytest.approx(gained, rel=1e-4)
    fell = sum(int(np.sum(~DEAD[s] & ~wanted[s])) for s in SITES)
    assert int(info.num_pruned) == fell > 0 and int(info.num_grown) == 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("margin", [0.25, 1.0])
def test_a_margin_is_what_the_evidence_must_exceed(margin) -> None:
    """(2.13): the rate is that of (2.6), and what falls is a part of what falls without."""
    posterior = {s: MeanField(jnp.asarray(LOCS[s]), jnp.asarray(SCALES[s]), jnp.asarray(PRIORS[s])) for s in SITES}
    start = bp.methods.BMR().init(jax.random.key(0), posterior)._replace(mask={s: jnp.asarray(~DEAD[s]) for s in SITES})
    step = lambda method: method.step(jax.random.key(0), Evidence(posterior, None), start)  # noqa: E731
    paper, (kept, info) = step(bp.methods.BMR())[0].mask, step(bp.methods.BMR(margin=margin))
    wanted, gained = by_hand("layer", "prior", 1.0, 1.0, 4, margin)
    for site in SITES:
        np.testing.assert_array_equal(kept.mask[site], wanted[site])
        assert not (paper[site] & ~kept.mask[site]).any()
    assert sum(int((kept.mask[s] & ~paper[s]).sum()) for s in SITES) > 0
    assert float(info.evidence_gained) == pytest.approx(gained, rel=1e-4)


@pytest.mark.parametrize("idle", [0.02, 0.3])
def test_idle_weights_die_as_well(idle) -> None:
    """(2.12), the divergence by quadrature."""

    def divergence(loc, scale, prior):
        at = np.linspace(loc - 12 * scale, loc + 12 * scale, 4001)
        q, p = scipy.stats.norm.logpdf(at, loc, scale), scipy.stats.norm.logpdf(at, 0.0, prior)
        return np.trapezoid(np.exp(q) * (q - p), at)

    rng = np.random.default_rng(0)
    loc, scale = 0.5 * rng.normal(size=200), rng.uniform(0.7, 1.1, size=200)
    params = {"w_auto_loc": jnp.asarray(loc), "w_auto_scale": jnp.asarray(scale)}
    paper = np.asarray(bp.bmr_prune(params, prior_scale=0.9).mask["w"])
    pruned = bp.bmr_prune(params, prior_scale=0.9, idle=idle)
    at_prior = np.array([divergence(*pair, 0.9) for pair in zip(loc, scale, strict=True)]) <= idle
    assert 0 < (paper & at_prior).sum() < paper.sum()
    np.testing.assert_array_equal(pruned.mask["w"], paper & ~at_prior)
    assert int(pruned.info.num_pruned) == 200 - (paper & ~at_prior).sum()


def test_idle_weights_die_by_default_where_parameters_know_their_prior() -> None:
    # Of the third weight nothing is known but its prior: dF0 = 0, and the rate of its group decides.
    params = {"w_auto_loc": jnp.array([0.05, 2.0, 0.01]), "w_auto_scale": jnp.array([0.05, 0.2, 1.0])}
    told = params | {"w$prior_scale": jnp.float32(1.0), "w$unit": jnp.float32(1.0)}
    assert np.asarray(bp.bmr_prune(params, prior_scale=1.0).mask["w"]).tolist() == [False, True, True]
    assert np.asarray(bp.bmr_prune(told).mask["w"]).tolist() == [False, True, False]
    assert np.asarray(bp.bmr_prune(told, idle=0.0).mask["w"]).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="idle"):
        bp.bmr_prune(told, idle=-1.0)


def test_one_cut_asks_for_more_evidence_where_parameters_know_their_prior() -> None:
    """By default, and not where rows verify it; the first weight gains log 2 - .5 by its removal."""
    params = {"w_auto_loc": jnp.array([0.5, 2.0, 2.0, -2.0]), "w_auto_scale": jnp.array([0.5, 0.2, 0.2, 0.2])}
    told = params | {"w$prior_scale": jnp.float32(1.0), "w$unit": jnp.float32(1.0)}
    first = lambda params, **knobs: bool(bp.bmr_prune(params, dead="forgotten", num_iters=1, **knobs).mask["w"][0])  # noqa: E731
    assert not first(params, prior_scale=1.0) and not first(told, margin=0.1)
    assert first(told) and first(params, prior_scale=1.0, margin=0.25)
    assert not first(told, idle=0.0), "nothing that is idle would ever fall"
    with pytest.raises(ValueError, match="margin"):
        bp.bmr_prune(told, margin=-1.0)


def test_the_modes_differ_as_they_are_described() -> None:
    """The living alone keep most, counting the dead as out keeps least."""
    counts = {d: sum(int(np.sum(m)) for m in by_hand("global", d, 1.0, 1.0, 4)[0].values()) for d in ("forgotten", "excluded")}
    posterior = {s: MeanField(jnp.asarray(LOCS[s]), jnp.asarray(SCALES[s])) for s in SITES}
    for dead in counts:
        pruned = bp.bmr_prune(posterior, prior_scale=PRIORS, group="global", dead=dead, mask={s: ~DEAD[s] for s in SITES})
        assert int(pruned.info.num_alive) == counts[dead]
    assert counts["excluded"] <= counts["forgotten"]


def regression(seed: int = 0, prior: float = 1.3, noise: float = 0.5):
    """Linear regression whose inputs are orthogonal: the exact posterior is mean-field."""
    rng = np.random.default_rng(seed)
    x = np.linalg.qr(rng.normal(size=(40, 8)))[0] * rng.uniform(1.0, 4.0, size=8)
    y = x @ np.array([1.0, 0, 0, -0.8, 0, 0, 0.5, 0]) + noise * rng.normal(size=40)
    precision = np.sum(x**2, axis=0) / noise**2 + prior**-2

    def log_evidence(alive) -> float:
        cut = x[:, alive]
        return float(scipy.stats.multivariate_normal.logpdf(y, cov=noise**2 * np.eye(40) + prior**2 * cut @ cut.T))

    return (x.T @ y / noise**2 / precision, precision**-0.5), log_evidence, prior


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-4), (True, 1e-9)], ids=["float32", "float64"])
def test_evidence_gained_is_the_difference_of_exact_evidences(double, tolerance) -> None:
    (loc, scale), log_evidence, prior = regression()
    with jax.enable_x64(double):
        params = {"w_auto_loc": jnp.asarray(loc), "w_auto_scale": jnp.asarray(scale)}
        assert params["w_auto_loc"].dtype == (np.float64 if double else np.float32)
        pruned = bp.bmr_prune(params, prior_scale=prior)
        alive, found = np.asarray(pruned.mask["w"]), float(pruned.info.evidence_gained)
    assert 0 < alive.sum() < 8
    wanted = log_evidence(alive) - log_evidence(np.ones(8, bool))
    assert found == pytest.approx(wanted, rel=tolerance) and found > 1.0


def test_idempotent_and_pure() -> None:
    (loc, scale), _, prior = regression()
    params = {
        "w_auto_loc": jnp.asarray(loc),
        "w_auto_scale": jnp.asarray(scale),
        "nn$params": {},
        "sigma_auto_loc": jnp.ones(()),
    }
    before = {name: np.array(value) for name, value in params.items() if name != "nn$params"}
    first = bp.bmr_prune(params, prior_scale=prior)
    second = bp.bmr_prune(first.params, prior_scale=prior)
    np.testing.assert_array_equal(first.mask["w"], second.mask["w"])
    assert int(second.info.num_pruned) == 0 and float(second.info.evidence_gained) == 0.0
    np.testing.assert_array_equal(first.params["w_auto_loc"], second.params["w_auto_loc"])
    assert first.params["nn$params"] == {} and set(first.params) == set(params)
    assert all(np.array_equal(params[name], value) for name, value in before.items())
    assert np.isnan(float(first.info.readiness)), "one posterior does not show whether it moves"


@pytest.mark.slow
def test_a_tree_of_posteriors_is_taken() -> None:
    nodes = {s: MeanField(jnp.asarray(LOCS[s]), jnp.asarray(SCALES[s])) for s in SITES}
    pruned = bp.bmr_prune(nodes)
    named = {f"{s}_auto_{part}": getattr(node, part) for s, node in nodes.items() for part in ("loc", "scale")}
    flat = bp.bmr_prune(named, prior_scale=1.0)
    for site in SITES:
        np.testing.assert_array_equal(pruned.mask[site], flat.mask[site])
        np.testing.assert_array_equal(pruned.params[site].loc, flat.params[f"{site}_auto_loc"])
        np.testing.assert_array_equal(pruned.params[site].scale, flat.params[f"{site}_auto_scale"])
    assert bp.bmr_prune(nodes["c"]).params.loc.shape == (7,), "one node alone is a tree, too"


GOOD = {"w_auto_loc": jnp.ones(2), "w_auto_scale": jnp.ones(2)}
BAD = {
    "map": ({"w_map_loc": jnp.ones(2)}, {}, "A MAP fit has no evidence to prune by"),
    "empty": ({}, {}, "no mean-field posterior"),
    "negative scale": (GOOD | {"w_auto_scale": jnp.array([1.0, -0.1])}, {}, "scale finite and >= 0"),
    "negative prior": (GOOD, {"prior_scale": -1.0}, "prior_scale of 'w' must be positive"),
    "group": (GOOD, {"group": "layers"}, "unknown group 'layers'.*Did you mean 'layer'"),
    "dead": (GOOD, {"dead": "forget"}, "unknown dead 'forget'.*Did you mean 'forgotten'"),
    "rounds": (GOOD, {"num_iters": 0}, "num_iters must be an integer of at least 1"),
    "alpha0": (GOOD, {"alpha0": 0.0}, "alpha0 must be positive"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told(case) -> None:
    params, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        bp.bmr_prune(params, **settings)
