"""Scores, amounts and scopes multiply; the named methods are cases of it; groups fall whole and in exact numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core.schedules import Constant
from bayesprune.core.types import Evidence, Groups
from bayesprune.posteriors.correlated import Correlated, marginal
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune.cutting import ALL_SCOPES
from bayesprune.prune.scores import BY_NAME

RNG = np.random.default_rng(0)
SHAPES = {"a.kernel": (6, 4), "a.bias": (4,), "b.kernel": (4, 3)}
LOC = {site: RNG.normal(size=shape) for site, shape in SHAPES.items()}
SCALE = {site: RNG.uniform(0.1, 1.0, size=shape) for site, shape in SHAPES.items()}
POSTERIOR = {s: SpikeSlab(*map(jnp.asarray, (LOC[s], SCALE[s], LOC[s] - SCALE[s]))) for s in SHAPES}
GAUSSIAN = {s: MeanField(jnp.asarray(LOC[s]), jnp.asarray(SCALE[s])) for s in SHAPES}
# Units are the columns of the first kernel with their biases; the outputs of the second are the network's.
FLOPS = np.array([1.0, 4.0, 2.0, 8.0])
UNITS = Groups({"a.kernel": np.arange(4)[None], "a.bias": np.arange(4), "b.kernel": np.full((1, 1), -1)}, 4, lambda: FLOPS)
OUTPUTS = Groups({"a.kernel": np.arange(4)[None], "a.bias": np.arange(4), "b.kernel": np.arange(3)[None]}, 0)


def cut(scope="global", posterior=GAUSSIAN, mask=None, method=None, **settings):
    method = method or bp.methods.Cut(scope=scope, **settings)
    state = method.init(jax.random.key(0), posterior)
    state = state if mask is None else state._replace(mask=mask)
    groups = {"unit": UNITS, "head": UNITS, "per_output": OUTPUTS}.get(scope)
    state, _ = method.step(jax.random.key(0), Evidence(posterior, None, groups=groups), state)
    return {site: np.asarray(alive) for site, alive in state.mask.items()}


@pytest.mark.slow_cases(22)
@pytest.mark.slow
@pytest.mark.parametrize("scope", ALL_SCOPES)
@pytest.mark.parametrize("score", BY_NAME)
def test_every_score_goes_with_every_scope(score, scope) -> None:
    posterior = POSTERIOR if score == "inclusion" else GAUSSIAN
    alive = cut(scope, posterior, score=score, density=0.5)
    assert 0 < sum(a.sum() for a in alive.values()) < sum(a.size for a in alive.values())
    none = cut(scope, posterior, score=score, threshold=np.inf)
    assert sum(a.sum() for a in none.values()) == (12 if scope in ("unit", "head") else 0), "what is in no group stays"


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["global", "layer"])
def test_the_named_methods_are_cases_of_it(scope) -> None:
    for name, method in (("magnitude", bp.methods.Magnitude), ("snr", bp.methods.SNR)):
        one, other = cut(scope, score=name, density=0.3), cut(scope, method=method(0.3, scope))
        assert all(np.array_equal(one[s], other[s]) for s in SHAPES)
    for method in (bp.methods.SBNN, bp.methods.SVBNN):
        one = cut(scope, POSTERIOR, score="inclusion", density=0.3)
        other = cut(scope, POSTERIOR, method=method(density=0.3, scope=scope))
        assert all(np.array_equal(one[s], other[s]) for s in SHAPES)


@pytest.mark.slow
def test_units_fall_whole_by_the_norm_of_their_weights() -> None:
    alive = cut("unit", score="magnitude", density=0.5)
    norm = np.sqrt((LOC["a.kernel"] ** 2).sum(0) + LOC["a.bias"] ** 2)
    staying = np.isin(np.arange(4), np.argsort(-norm)[:2])
    np.testing.assert_array_equal(alive["a.kernel"], np.broadcast_to(staying, (6, 4)))
    np.testing.assert_array_equal(alive["a.bias"], staying)
    assert alive["b.kernel"].all()


def evidence_of_units() -> np.ndarray:
    gain = {s: np.log(1 / SCALE[s]) - 0.5 * (LOC[s] / SCALE[s]) ** 2 for s in SHAPES}
    return -gain["a.kernel"].sum(0) - gain["a.bias"]


@pytest.mark.slow
def test_the_evidence_of_a_unit_is_the_sum_of_its_weights() -> None:
    total = evidence_of_units()
    least = float(np.sort(total)[-2] - 1e-3)  # below the second surest, above the third
    np.testing.assert_array_equal(cut("unit", score="evidence", threshold=least)["a.bias"], total >= least)


@pytest.mark.slow
def test_units_pay_for_their_flops_at_a_price() -> None:
    """(2.8): the evidence of a unit less price x FLOPs, for a threshold, a density, and a price that rises."""
    total = evidence_of_units()
    price = float(np.sort(total / FLOPS)[1:3].mean())  # two of four do not pay
    assert price > 0 and (total - price * FLOPS >= 0).sum() == 2 and (total >= 0).all()
    staying = total - price * FLOPS >= 0
    np.testing.assert_array_equal(cut("unit", score="evidence", threshold=0.0, price=price)["a.bias"], staying)
    half = np.isin(np.arange(4), np.argsort(-(total - price * FLOPS))[:2])
    np.testing.assert_array_equal(cut("unit", score="evidence", density=0.5, price=price)["a.bias"], half)
    rising = lambda step: price * step  # noqa: E731
    np.testing.assert_array_equal(cut("unit", score="evidence", threshold=0.0, price=rising)["a.bias"], staying)


@pytest.mark.slow
def test_at_any_price_the_best_unit_stays() -> None:
    total = evidence_of_units() - 1e6 * FLOPS
    alive = cut("unit", score="evidence", threshold=0.0, price=1e6)
    np.testing.assert_array_equal(alive["a.bias"], np.arange(4) == total.argmax())


def test_units_that_are_equally_dear_rank_by_their_worth() -> None:
    """At a price of which single precision cannot tell one unit's worth from another's, or of none that is a number."""
    free = {"a.kernel": UNITS.members["a.kernel"], "a.bias": UNITS.members["a.bias"], "b.kernel": UNITS.members["b.kernel"]}
    equal = Groups(free, 4, lambda: np.ones(4))
    best = np.arange(4) == evidence_of_units().argmax()
    for price in (1e9, lambda step: jnp.where(step == 3, jnp.nan, 1.0)):
        method = bp.methods.Cut("evidence", threshold=0.0, scope="unit", price=price)
        state = method.init(jax.random.key(0), GAUSSIAN)._replace(step=jnp.asarray(2))
        state, _ = method.step(jax.random.key(0), Evidence(GAUSSIAN, None, groups=equal), state)
        np.testing.assert_array_equal(state.mask["a.bias"], best)


@pytest.mark.parametrize("density", [lambda step: jnp.nan * step, lambda step: 0.5 / (step - 2.0)])
def test_a_schedule_of_densities_without_a_value_is_refused(density) -> None:
    """It kept one weight of each array, in silence."""
    with pytest.raises(ValueError, match=r"density at step [12] of its schedule must be a share in \(0, 1\], got (nan|inf)"):
        bp.methods.Cut("snr", density=density)


@pytest.mark.parametrize("density", [lambda step: 50.0 / step, Constant(5.0)])
def test_a_schedule_in_percent_is_refused(density) -> None:
    """It cut nothing, in silence."""
    with pytest.raises(ValueError, match=r"density at step 1 of its schedule must be a share in \(0, 1\], got (50|5)\.0"):
        bp.methods.Cut("snr", density=density)


@pytest.mark.parametrize("price", [lambda step: -1.0, lambda step: jnp.nan, lambda step: 1.5 - step])
def test_schedules_of_prices_are_looked_at(price) -> None:
    with pytest.raises(ValueError, match=r"price at step \d+ of its schedule must be finite and not negative"):
        bp.methods.Cut("evidence", threshold=0.0, scope="unit", price=price)


def test_the_evidence_of_weights_that_vary_together_does_not_add_up() -> None:
    twins = jnp.array([[0.5, 0.0], [0.499, 0.03]])
    node = Correlated(jnp.zeros(2), marginal(twins, jnp.ones((1, 1)), (2,)), rows=twins, columns=jnp.ones((1, 1)))
    with pytest.raises(ValueError, match=r"one after the other by bp\.bmr_prune"):
        bp.prune_once({"w": node}, bp.methods.Cut("evidence", threshold=0.0))
    assert bp.prune_once({"w": node}, bp.methods.Cut("snr", density=0.5)).mask["w"].sum() == 1


def test_groups_without_flops_have_no_price() -> None:
    method = bp.methods.Cut("magnitude", threshold=0.0, scope="unit", price=1.0)
    free = Evidence(GAUSSIAN, None, groups=Groups(UNITS.members, UNITS.count))
    with pytest.raises(ValueError, match="count_flops"):
        method.step(jax.random.key(0), free, method.init(jax.random.key(0), GAUSSIAN))


def test_the_dead_do_not_count_and_dead_units_stay_dead() -> None:
    mask = {s: np.ones(shape, bool) for s, shape in SHAPES.items()}
    mask["a.kernel"][:, 1], mask["a.bias"][1], mask["a.kernel"][0, 2] = False, False, False
    alive = cut("unit", mask={s: jnp.asarray(m) for s, m in mask.items()}, score="magnitude", density=1.0)
    assert all(np.array_equal(alive[s], mask[s]) for s in SHAPES)


def test_units_are_exactly_as_many_under_ties() -> None:
    tied = {s: MeanField(jnp.ones(shape), jnp.ones(shape)) for s, shape in SHAPES.items()}
    assert cut("unit", tied, score="snr", density=0.75)["a.bias"].sum() == 3
    assert cut("unit", tied, score="snr", density=0.01)["a.bias"].sum() == 1


@pytest.mark.slow
def test_every_output_keeps_as_many() -> None:
    alive = cut("per_output", score="magnitude", density=0.5)
    assert alive["a.kernel"].sum(0).tolist() == [3] * 4 and alive["b.kernel"].sum(0).tolist() == [2] * 3
    column = np.abs(LOC["a.kernel"][:, 2])
    np.testing.assert_array_equal(alive["a.kernel"][:, 2], column >= np.sort(column)[-3])


def test_groups_need_a_network() -> None:
    with pytest.raises(ValueError, match="give program=bnn to prune_once"):
        bp.prune_once(GAUSSIAN, bp.methods.Cut(scope="unit"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"score": "snrs"}, "unknown score"), ({"scope": "units"}, "unknown scope"), ({"density": 2.0}, "density"),
        ({"density": 0.5, "threshold": 1.0}, "not both"), ({"price": 1.0}, "price needs scope"),
        ({"price": -1.0, "scope": "unit"}, "price must"),
    ],
)  # fmt: skip
def test_bad_settings_are_named(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        bp.methods.Cut(**settings)


@pytest.mark.slow
def test_units_of_a_network_are_cut_from_its_parameters() -> None:
    """Through the door: the network says which weights make a unit; a unit falls with its bias, the outputs are no units."""
    from tests.infer import programs

    bnn = programs.small_bnn(prior=bp.priors.Gaussian(0.5), prunable=bp.select.everything)
    fit = bp.fit_svi(jax.random.key(0), bnn, programs.classes(), num_steps=1, batch_size=16, progress=False)
    mask = bp.prune_once(fit.params, bp.methods.Cut(score="magnitude", density=0.5, scope="unit"), program=bnn).mask
    for layer in ("Dense_0", "Dense_1"):
        kernel, bias = np.asarray(mask[f"{layer}.kernel"]), np.asarray(mask[f"{layer}.bias"])
        np.testing.assert_array_equal(kernel, np.broadcast_to(bias, kernel.shape))
    assert int(mask["Dense_0.bias"].sum() + mask["Dense_1.bias"].sum()) == 7, "half of 14 units"
    assert bool(mask["Dense_2.kernel"].all())
    rows = bp.prune_once(fit.params, bp.methods.Cut(density=0.5, scope="per_output"), program=bnn).mask
    assert np.asarray(rows["Dense_1.kernel"]).sum(0).tolist() == [4] * 6


def test_units_that_no_prunable_weight_makes_may_come_last() -> None:
    """Those of a later layer that is frozen, or kept: they are none of the groups, and cost nothing that is cut."""
    net = bp.nets.MLP((3, 4), 2)
    settings = {"prior": bp.priors.Gaussian(), "likelihood": bp.likelihoods.Categorical(), "input_shape": (5,)}
    bnn = bp.BNN(net, prunable="Dense_0", **settings)
    groups, whole = bnn.groups("unit"), bp.BNN(net, **settings).groups("unit")
    assert (groups.count, whole.count) == (3, 7)
    np.testing.assert_array_equal(groups.members["Dense_0.kernel"], whole.members["Dense_0.kernel"])
    np.testing.assert_array_equal(groups.flops, whole.flops[:3])
