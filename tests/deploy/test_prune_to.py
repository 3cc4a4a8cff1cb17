"""Budgets: what comes back keeps to them, is the network that was measured, and no larger one that was measured does."""

import types

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.deploy.prune_to import _search
from bayesprune.deploy.rungs import Ladder, Rung
from bayesprune.prune.scores import evidence
from bayesprune.structure import flops_of_entries, flops_of_units
from tests.deploy.fits import DATA, PRIORS, fitted
from tests.infer.programs import small_bnn
from tests.infer.test_predict import start


@pytest.fixture(scope="module")
def fit():
    """A fit of three classes, whole."""
    bnn, params, _ = fitted("gaussian")
    return bnn, types.SimpleNamespace(params=params, mask={})


def ladder(bnn, fit, budget: str, engine: str = "numpy") -> Ladder:
    return Ladder(bnn, fit, DATA, budget, engine, 1, None, 1, "float32")


@pytest.mark.slow
def test_flops_are_kept_to_and_nearly_used(fit) -> None:
    bnn, given = fit
    whole = ladder(bnn, given, "flops").rung(ladder(bnn, given, "flops").count)
    found = bp.prune_to(given, bnn, DATA, flops=whole.flops // 2)
    assert 0.8 * (whole.flops // 2) <= found.rung.flops <= whole.flops // 2
    assert found.compact.cost.theoretical == found.rung.flops
    for rung in found.frontier:  # none that keeps to the budget has more weights
        assert rung.kept <= found.rung.kept or rung.flops > whole.flops // 2
    order = ladder(bnn, given, "flops")
    assert {site: alive.tolist() for site, alive in found.mask.items()} == {
        site: alive.tolist() for site, alive in order.mask(found.rung.rank).items()
    }
    dead = {site: ~alive for site, alive in found.mask.items()}
    assert all((np.asarray(bnn.posterior(found.params)[site].loc)[gone] == 0).all() for site, gone in dead.items())
    figures = bp.evaluate(jax.random.key(0), bp.compact(bnn, given.params, found.mask, keep="mean"), None, DATA, num_samples=1)
    assert figures["nll"] == pytest.approx(found.rung.figures["nll"], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "budget"), [("numpy", {"flops": 2}), ("jax", {"flops": 2}), ("numpy", {"bytes": 1500})])
def test_a_network_without_a_path_keeps_to_no_budget(fit, engine: str, budget: dict[str, int]) -> None:
    """It costs next to nothing, and predicts the same for every row."""
    bnn, given = fit
    with pytest.raises(ValueError, match=r"is kept to by none of .* the least is \d+, of \d+ weights"):
        bp.prune_to(given, bnn, DATA, engine=engine, **budget)
    nothing = types.SimpleNamespace(params=given.params, mask={"Dense_0.kernel": np.zeros((4, 8), bool)})
    with pytest.raises(ValueError, match="predicts the same for every row"):
        bp.prune_to(nothing, bnn, DATA, engine=engine, **budget)


@pytest.mark.slow
def test_nats_and_calibration_and_bytes_are_kept_to(fit) -> None:
    bnn, given = fit
    nats = bp.prune_to(given, bnn, DATA, nll_increase=0.05)
    assert nats.rung.nll_increase <= 0.05
    assert nats.rung.kept == min(rung.kept for rung in nats.frontier if rung.nll_increase <= 0.05) < nats.frontier[0].kept
    least, most = (f(rung.bytes for rung in nats.frontier) for f in (min, max))
    room = (least + most) // 2
    small = bp.prune_to(given, bnn, DATA, bytes=room, rng_key=jax.random.key(0), num_samples=5)
    assert 0.9 * room <= small.rung.bytes <= room
    whole = nats.frontier[0].figures["ece"]
    assert bp.prune_to(given, bnn, DATA, ece=whole + 0.05).rung.figures["ece"] <= whole + 0.05


@pytest.mark.slow
def test_calibration_that_the_whole_network_has_not_is_looked_for_in_smaller_ones() -> None:
    bnn, params, data = surest_where_whole()
    whole, *smaller = bp.prune_to(types.SimpleNamespace(params=params, mask={}), bnn, data, nll_increase=1e6).frontier
    errors = [rung.figures["ece"] for rung in smaller]
    room = (min(errors) + whole.figures["ece"]) / 2
    assert min(errors) < room < whole.figures["ece"]  # the whole one is no candidate
    found = bp.prune_to(types.SimpleNamespace(params=params, mask={}), bnn, data, ece=room)
    assert found.rung.figures["ece"] <= room
    assert found.rung.kept < whole.kept


class NoNetworks(Ladder):
    """A ladder of 1,024 ranks, of which those from one to another have a small calibration error."""

    def __init__(self, first: int, last: int, least: int = 1) -> None:
        self.count, self.rungs, self.small_errors, self.least = 1024, {}, range(first, last + 1), least

    def rung(self, rank: int) -> Rung:
        error = 0.01 if rank in self.small_errors else 0.2
        return self.rungs.setdefault(rank, Rung(rank, 0.0, rank, 0, 0.0, 0.0, {"ece": error}, 0.0, rank))

    timed = rung

    def leads(self, rank: int) -> bool:
        return rank >= self.least


def test_a_budget_is_kept_to_by_the_largest_network_through_which_a_path_leads() -> None:
    """Bytes are ranks here. Of 1,024, 256, 64, ... none leads below 300: 310 is looked for between them."""
    steps = NoNetworks(0, 0, least=300)
    assert 300 <= _search(steps, "bytes", 310.0).kept <= 310
    with pytest.raises(ValueError, match=r"bytes=250 is kept to by none of .*: the least is 3\d\d"):
        _search(steps, "bytes", 250.0)


@pytest.mark.parametrize("holds", [(400, 700), (90, 130)])
def test_between_two_rungs_a_calibration_error_may_be_kept_to(holds: tuple[int, int]) -> None:
    """Rungs are 1,024, 256, 64, ..., of which none keeps to it. Below what does, the search goes on as below a rung."""

    steps = NoNetworks(*holds)
    assert holds[0] <= _search(steps, "ece", 0.05).kept <= 1.02 * holds[0] + 1
    with pytest.raises(ValueError, match=r"ece=0\.005 is kept to by none of \d+ networks.* the least is 0\.01"):
        _search(steps, "ece", 0.005)


def surest_where_whole():
    """A fit to a hundred rows of three noisy classes: too sure of other rows, and less so with fewer weights."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1100, 8)).astype(np.float32)
    y = np.argmax(1.5 * x[:, :3] + rng.gumbel(size=(1100, 3)), axis=1).astype(np.int32)
    bnn = bp.BNN(bp.nets.MLP((16,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(8,))
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x[:100], y[:100]), num_steps=400, progress=False)
    return bnn, fit.params, bp.Dataset(x[100:], y[100:])


@pytest.mark.slow
def test_time_is_verified_by_timing_anew(fit, monkeypatch) -> None:
    """A made-up clock, on which a call takes a microsecond for each weight: the largest network within the budget is taken."""
    bnn, given = fit
    monkeypatch.setattr(Ladder, "_time", lambda self, small: (1e-3 * small.cost.alive, 0.0))
    most = ladder(bnn, given, "latency_ms").rung(ladder(bnn, given, "latency_ms").count).latency_ms
    found = bp.prune_to(given, bnn, DATA, latency_ms=0.7 * most)
    assert 0.6 * most <= found.rung.latency_ms <= 0.7 * most
    assert found.budget == "latency_ms"


def test_rows_may_be_nested_lists(fit) -> None:
    lists = DATA._replace(x=np.asarray(DATA.x).tolist())
    whole, same = (Ladder(*fit, data, "flops", "numpy", 3, None, 1, "float32") for data in (DATA, lists))
    assert same.rung(same.count).figures == whole.rung(whole.count).figures


def test_the_order_is_evidence_for_what_it_costs(fit) -> None:
    bnn, given = fit
    order = ladder(bnn, given, "flops").order
    nodes = {site: node for site, node in bnn.posterior(given.params).items() if site in order}
    worth, prices = evidence(nodes), flops_of_entries(bnn.graph)
    for budget, price in (("flops", prices), ("bytes", None)):
        made = ladder(bnn, given, budget).order
        for site in nodes:
            each = np.asarray(worth[site], float) / (1 if price is None else np.maximum(price[site], 1))
            np.testing.assert_allclose(made[site], each, rtol=1e-6, atol=1e-9)


def test_what_multiplies_zeros_is_paid_in_units(fit) -> None:
    """Every weight of a unit has one worth, the sum over those that make it, for all FLOPs that go with it."""
    bnn, given = fit
    order = ladder(bnn, given, "flops", "onnx").order
    worth, flops = (
        evidence({s: n for s, n in bnn.posterior(given.params).items() if s in order}),
        flops_of_units(bnn.graph, bnn.units),
    )
    totals = np.zeros(bnn.units.count)
    for unit in range(bnn.units.count):
        where = {site: bnn.units.producers[site] == unit for site in order}
        totals[unit] = sum(float(np.asarray(worth[site], float)[own].sum()) for site, own in where.items())
        values = np.concatenate([order[site][own] for site, own in where.items()])
        np.testing.assert_allclose(values, totals[unit] / flops[unit], rtol=1e-5, atol=1e-8)
    kept = [order[site][bnn.units.producers[site] < 0] for site in order]  # what makes no unit stays to the end
    assert np.concatenate(kept).min(initial=np.inf) > max((totals / flops).max(initial=0), 0)


def parted(bnn: bp.BNN, mask: dict[str, np.ndarray]) -> list[str]:
    """Sites with a weight that is dead while the unit that it makes and what it reads live, or alive while one is dead."""
    units, living = bnn.units, np.ones(bnn.units.count + 1, bool)  # the last, which -1 shows, is the data and the outputs
    living[:-1] = False
    for site, alive in mask.items():
        living[units.producers[site][alive]] = True
    both = {site: living[units.producers[site]] & living[units.consumers[site]] for site in mask}
    return [site for site, alive in mask.items() if not np.array_equal(alive, both[site])]


def whole_net() -> tuple[bp.BNN, types.SimpleNamespace]:
    """As `fit`, with a last layer that may be cut; untrained."""
    bnn = small_bnn(prior=PRIORS["gaussian"], prunable=bp.select.everything)
    return bnn, types.SimpleNamespace(params=start(bnn), mask={})


@pytest.mark.parametrize("last_too", [False, True])
def test_no_rung_of_units_parts_one(fit, last_too: bool) -> None:
    """Whatever number of weights is asked for; down to the last unit, below which single weights of the last layer fall."""
    bnn, given = whole_net() if last_too else fit
    steps = ladder(bnn, given, "flops", "jax")
    last = sum(int((bnn.units.producers[site] < 0).sum()) for site in steps.order)
    ranks = range(last + 1, steps.count + 1)
    assert [parted(bnn, steps.mask(rank)) for rank in ranks] == [[]] * len(ranks)
    assert len({steps.kept(rank) for rank in ranks}) <= bnn.units.count == 14
    assert last == (6 * 3 + 3 if last_too else 0)


def test_ranks_with_as_many_alive_share_a_mask(fit) -> None:
    """By which rungs are held."""
    bnn, given = fit
    for engine in ("numpy", "jax"):
        steps, masks = ladder(bnn, given, "flops", engine), {}
        for rank in range(1, steps.count + 1):
            mask = {site: alive.tolist() for site, alive in steps.mask(rank).items()}
            assert masks.setdefault(steps.kept(rank), mask) == mask
        assert len(masks) < steps.count


def test_what_makes_no_unit_falls_by_its_own_evidence() -> None:
    bnn, given = whole_net()
    order = ladder(bnn, given, "flops", "jax").order
    scores = evidence({site: node for site, node in bnn.posterior(given.params).items() if site in order})
    free = {site: bnn.units.producers[site] < 0 for site in order}
    worth, found = (np.concatenate([np.asarray(of[site])[free[site]] for site in order]) for of in (scores, order))
    assert len(np.unique(worth)) > 6 and (np.diff(worth[np.argsort(found)]) >= 0).all()


@pytest.mark.slow
def test_a_rung_says_what_is_alive_in_it(fit) -> None:
    """Of a budget paid in units, kept to, with the same network each time."""
    bnn, given = fit
    room = 2 * (4 * 8 + 8 * 6 + 6 * 3) // 3
    found, again = (bp.prune_to(given, bnn, DATA, flops=room, engine="jax") for _ in range(2))
    assert found.rung.kept == sum(int(alive.sum()) for alive in found.mask.values()) < found.frontier[0].kept
    assert found.rung.density == found.rung.kept / sum(alive.size for alive in found.mask.values())
    assert found.compact.cost.executed == found.rung.flops <= room
    assert parted(bnn, found.mask) == []
    numbers = [rung.kept for rung in found.frontier]
    assert numbers == sorted(set(numbers), reverse=True) == [rung.kept for rung in again.frontier]
    assert all((again.mask[site] == alive).all() for site, alive in found.mask.items())


@pytest.mark.slow
def test_onnx_runtime_is_timed_and_its_figures_are_in_the_table(fit) -> None:
    pytest.importorskip("onnxruntime")
    bnn, given = fit
    whole = ladder(bnn, given, "flops", "onnx")
    room = whole.rung(whole.count).flops * 2 // 3
    as_numpy_makes_them = bp.Dataset(np.asarray(DATA.x, np.float64), DATA.y)
    found = bp.prune_to(given, bnn, as_numpy_makes_them, flops=room, engine="onnx", rows=4)
    assert found.compact.cost.executed <= room
    lines = found.table().splitlines()
    assert len(lines) == 2 + len(found.frontier)
    assert sum("**" in line for line in lines) == 1
    assert len(found.figure().axes) == 2


@pytest.mark.slow
def test_bad_budgets_are_refused(fit) -> None:
    bnn, given = fit
    for how, why in (
        ({}, "give one budget of latency_ms, bytes, flops, nll_increase, ece, got none"),
        ({"flops": 10, "bytes": 10}, "got bytes, flops"),
        ({"flops": 0}, "flops must be"),
        ({"flops": 10, "engine": "tpu"}, "unknown engine 'tpu'"),
        ({"flops": 10, "rows": 0}, "rows must be"),
        ({"bytes": 10}, "bytes=10 is kept to by none of .* networks of this fit that were tried: the least is"),
    ):
        with pytest.raises(ValueError, match=why):
            bp.prune_to(given, bnn, DATA, **how)
    with pytest.raises(TypeError, match=r"bnn must be a bp\.BNN"):
        bp.prune_to(given, "net", DATA, flops=10)


@pytest.mark.slow
def test_counts_are_judged_by_the_masked_network() -> None:
    """A compact one does not hold the law of its targets."""
    data = bp.Dataset(DATA.x, np.repeat(np.asarray(DATA.y, np.float32)[:, None], 3, axis=1))
    bnn = small_bnn(likelihood=bp.likelihoods.Poisson())
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=30, progress=False)
    key = jax.random.key(3)
    found = bp.prune_to(fit, bnn, data, nll_increase=0.3, rng_key=key, num_samples=20)
    expected = bp.evaluate(key, bnn, fit.params, data, mask=found.mask, num_samples=20)
    assert found.rung.figures == pytest.approx(expected) and found.rung.nll_increase <= 0.3
    with pytest.raises(ValueError, match=r"ece is a figure of classes, and those of Poisson are rmse, nll, "):
        bp.prune_to(fit, bnn, data, ece=0.1, rng_key=key, num_samples=20)
    with pytest.raises(ValueError, match=r"law of Poisson's targets, so that rows are judged by drawn networks: give rng_key="):
        bp.prune_to(fit, bnn, data, flops=10)


def test_posteriors_that_it_cannot_order_or_ship_are_refused() -> None:
    for prior, posterior, told in (
        (
            "scale mixture",
            "mean_field",
            r"order of their evidence, which those of ScaleMixture .*Gaussian or priors\.Flat",
        ),
        ("flat", "map", r"order of their evidence, which points do not have: .* bp\.laplace.*Magnitude\(density\)"),
        ("gaussian", "full", r"makes networks of independent Gaussian weights.*bp\.compact\(\.\.\., rng_key=, num_draws=\)"),
    ):
        bnn = small_bnn(prior=PRIORS[prior], posterior=posterior)
        given = types.SimpleNamespace(params=start(bnn), mask={})
        with pytest.raises(ValueError, match=told):
            bp.prune_to(given, bnn, DATA, flops=10)


@pytest.mark.slow
def test_training_goes_on_from_it_and_the_dead_stay_dead(fit) -> None:
    bnn, given = fit
    found = bp.prune_to(given, bnn, DATA, nll_increase=0.1)
    more = bp.fit_svi(jax.random.key(1), bnn, DATA, num_steps=20, batch_size=30, init=found.pruned, progress=False)
    assert all((np.asarray(more.mask[site]) <= alive).all() for site, alive in found.mask.items())


def test_nothing_prunable_and_a_percentage_say_so() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    prior, likelihood = bp.priors.Gaussian(1.0), bp.likelihoods.Normal(0.5)
    bnn = bp.BNN(bp.nets.MLP((), 1), prior=prior, likelihood=likelihood, input_shape=(2,))
    with pytest.raises(ValueError, match=r"ece must lie in \(0, 1\), got 5.0: it is a share"):  # percent
        bp.prune_to(types.SimpleNamespace(params=start(bnn), mask={}), bnn, bp.Dataset(x, x[:, 0]), ece=5.0)
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x, x[:, 0]), num_steps=2, progress=False)
    with pytest.raises(ValueError, match=r"nothing to prune: .* prunable="):
        bp.prune_to(fit, bnn, bp.Dataset(x, x[:, 0]), nll_increase=0.1)
    with pytest.raises(ValueError, match=r"nothing to prune: .* prunable="):
        bp.reduce_scales(jax.random.key(0), bnn, fit.params, bp.priors.Horseshoe(), num_steps=3)


def test_a_mask_of_what_may_not_be_pruned_is_not_forgotten(fit) -> None:
    bnn, given = fit
    (site,) = (str(spec.path) for spec in bnn.layout if not spec.prunable and len(spec.shape) == 2)
    names = [f"{site}_dense_{part}" for part in ("loc", "scale")]
    alive = np.arange(given.params[names[0]].size).reshape(given.params[names[0]].shape) > 2
    with pytest.raises(ValueError, match=rf"fit\.mask has dead weights at '{site}', where nothing may be pruned"):
        ladder(bnn, types.SimpleNamespace(params=given.params, mask={site: alive}), "flops")
    cut = given.params | {name: np.where(alive, given.params[name], 0) for name in names}
    assert (
        ladder(bnn, types.SimpleNamespace(params=cut, mask={site: alive}), "flops").count == ladder(bnn, given, "flops").count
    )
