"""Training on what is connected: the fit is that of whole arrays, to 1e-10 in float64, over several shrinkages.

Both draw the same noise for the same weight, so that nothing but the order of sums differs.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core.types import SparseState
from bayesprune.model import short_program
from bayesprune.model.transforms.entries import Entries
from bayesprune.prune.bookkeeping import first_state, take_step
from bayesprune.train import shrinking
from bayesprune.train.shrinking import as_single, as_slices, single_written

DATA = programs.classes(rows=120, features=6)


@dataclass(frozen=True)
class Halving:
    """Cuts units with all that they read and all that reads them: at each act half of those that are left, and inputs too."""

    bnn: bp.BNN = field(compare=False)

    def init(self, rng_key: jax.Array, posterior: Any) -> SparseState:
        return first_state(posterior)

    def step(self, rng_key: jax.Array, evidence: Any, state: SparseState) -> tuple[SparseState, Any]:
        divisor, units, alive = 2 ** (state.step + 1), self.bnn.units, {}
        for site, old in state.mask.items():
            stays = old
            for of_unit in (units.producers[site], units.consumers[site]):
                inputs = np.arange(len(of_unit)).reshape(-1, *[1] * (of_unit.ndim - 1)) * (of_unit.ndim == 2)
                stays &= np.where(of_unit < 0, inputs, of_unit) % divisor == 0
            alive[site] = stays
        return take_step(state, alive, evidence.posterior)


SETTINGS = {
    "num_steps": 30, "batch_size": 30, "course": bp.courses.Plain(), "optimizer": optax.adabelief(1e-2), "every": 8,
    "progress": False,
}  # fmt: skip


def network(net=None, prior=None, posterior="mean_field", shape=(6,)) -> bp.BNN:
    net = bp.nets.MLP((32, 24), 3) if net is None else net
    prior = bp.priors.Flat() if prior is None else prior
    return bp.BNN(net, prior=prior, posterior=posterior, likelihood=bp.likelihoods.Categorical(), input_shape=shape)


def both(bnn: bp.BNN, data=DATA, **changes) -> list[bp.FitResult]:
    settings = SETTINGS | {"sparsifier": Halving(bnn)} | changes
    return [bp.fit_svi(jax.random.key(5), bnn, data, storage=storage, **settings) for storage in ("masked", "compact")]


def check_same(masked: bp.FitResult, compact: bp.FitResult, sizes: int) -> None:
    """The same but for rounding, where weights live; and so many sizes, each of fewer numbers."""
    numbers = compact.history["shrunk/numbers"]
    assert len(numbers) >= sizes
    assert (np.diff(numbers) < 0).all()
    assert "shrunk/numbers" not in masked.history
    np.testing.assert_allclose(compact.losses, masked.losses, rtol=1e-10)
    for name, alive in masked.mask.items():
        np.testing.assert_array_equal(compact.mask[name], alive)
    for name, value in masked.params.items():
        if np.ndim(value):
            np.testing.assert_allclose(compact.params[name], value, rtol=1e-10, atol=1e-10, err_msg=name)
    for name in ("prune/step", "prune/num_alive", "prune/num_connected"):
        np.testing.assert_array_equal(compact.history[name], masked.history[name])
    states = [jax.tree_util.tree_leaves_with_path(fit.state.optim_state[1]) for fit in (masked, compact)]
    assert [path for path, _ in states[0]] == [path for path, _ in states[1]]
    for (path, left), (_, right) in zip(*states, strict=True):
        assert left.shape == right.shape
        site = next((s for s in masked.mask if f"'{s}_" in jax.tree_util.keystr(path)), None)
        there = np.asarray(masked.mask[site]) if site else np.ones(left.shape, bool)
        np.testing.assert_allclose(np.asarray(right)[there], np.asarray(left)[there], rtol=1e-9, atol=1e-12)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "changes"),
    [
        ("local_where_exact", {}),
        ("weight", {"optimizer": optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.05, momentum=0.9))}),
        ("local", {"optimizer": optax.contrib.schedule_free_adamw(1e-2), "num_particles": 2}),
    ],
)
def test_the_trajectory_is_that_of_whole_arrays(estimator, changes) -> None:
    with jax.enable_x64(True):
        check_same(*both(network(), estimator=estimator, **changes), sizes=2)


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "posterior"), [(bp.priors.Gaussian(0.5), "map"), (bp.priors.ScaleMixture(), "mean_field")])
def test_points_and_other_priors_too(prior, posterior) -> None:
    with jax.enable_x64(True):
        check_same(*both(network(prior=prior, posterior=posterior)), sizes=2)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["weight", "local_where_exact"])
def test_channels_leave_as_units_do(estimator) -> None:
    rng = np.random.default_rng(0)
    data = bp.Dataset(rng.normal(size=(60, 12, 12, 1)), rng.integers(0, 3, 60).astype(np.int32))
    with jax.enable_x64(True):
        net = bp.nets.LeNet5(3)
        check_same(*both(network(net, shape=(12, 12, 1)), data, estimator=estimator, num_steps=20, every=6), sizes=1)


@pytest.mark.every
@pytest.mark.slow
def test_the_standard_course_with_verified_acts() -> None:
    train, _ = bp.data.load("digits")
    bnn = bp.BNN(
        bp.nets.MLP((100, 100, 100), 10),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
    )
    with jax.enable_x64(True):
        changes = {"course": bp.courses.Standard(), "optimizer": None, "sparsifier": bp.methods.BMR(), "every": None}
        check_same(*both(bnn, train, num_steps=600, batch_size=64, **changes), sizes=1)


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("killed_at", [8, 21])
def test_a_resumed_fit_has_the_same_bits(killed_at, tmp_path) -> None:
    """Checkpoints hold whole arrays, and which slices of them the steps are done on."""

    def killer(moment) -> None:
        if moment.step >= killed_at:
            raise KilledError

    bnn = network()
    settings = SETTINGS | {"storage": "compact", "sparsifier": Halving(bnn)}
    alone = bp.fit_svi(jax.random.key(5), bnn, DATA, **settings)
    settings |= {"checkpoint_every": 4}
    with pytest.raises(KilledError):
        bp.fit_svi(jax.random.key(5), bnn, DATA, checkpoint=str(tmp_path), callbacks=[killer], **settings)
    resumed = bp.fit_svi(jax.random.key(5), bnn, DATA, checkpoint=str(tmp_path), **settings)
    assert len(alone.history["shrunk/step"]) >= 2
    assert programs.same_bits(alone.params, resumed.params)
    assert programs.same_bits(alone.state, resumed.state)
    assert alone.losses.tobytes() == resumed.losses.tobytes()
    np.testing.assert_array_equal(alone.history["shrunk/step"], resumed.history["shrunk/step"])


@pytest.mark.slow
def test_a_mask_that_is_given_shrinks_the_program_from_the_first_step_on() -> None:
    bnn = network()
    mask = {str(s.path): np.zeros(s.shape, bool) for s in bnn.layout if s.prunable}
    mask["Dense_0.kernel"][:3, :4] = mask["Dense_0.bias"][:4] = mask["Dense_1.kernel"][:4, :5] = mask["Dense_1.bias"][:5] = True
    changes = {"mask": {site: jnp.asarray(alive) for site, alive in mask.items()}, "sparsifier": bp.methods.BMR(), "every": 100}
    with jax.enable_x64(True), pytest.warns(UserWarning, match="never acts"):
        masked, compact = both(bnn, **changes)
    np.testing.assert_allclose(compact.losses, masked.losses, rtol=1e-10)
    np.testing.assert_array_equal(compact.history["shrunk/step"], [0])
    np.testing.assert_array_equal(compact.history["shrunk/numbers"], [3 * 4 + 4 + 4 * 5 + 5 + 24 * 3 + 3])


@pytest.mark.slow
def test_auto_shrinks_where_it_pays() -> None:
    """Of thirty steps of a small net no compilation is won back."""
    fit = bp.fit_svi(jax.random.key(5), network(), DATA, storage="auto", sparsifier=bp.methods.BMR(), **SETTINGS)
    assert "shrunk/step" not in fit.history


@pytest.mark.slow
def test_auto_keeps_whole_arrays_where_nobody_measured(monkeypatch) -> None:
    """On a device other than a CPU, though any saving would do."""
    monkeypatch.setattr(shrinking, "WORTH", 0.0)
    bnn, shrunk = network(), []
    for device in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda device=device: device)
        fit = bp.fit_svi(jax.random.key(5), bnn, DATA, storage="auto", sparsifier=Halving(bnn), **SETTINGS)
        shrunk.append("shrunk/step" in fit.history)
    assert shrunk == [True, False]


def test_slices_go_through_json() -> None:
    slices = (("w", (3, 2), ((0, 2), None)), ("b", (2,), (None,)))
    assert as_slices(json.loads(json.dumps(slices))) == slices


def test_single_entries_go_through_json() -> None:
    single = (("w", Entries.at([1, 5], (3, 2), ((0, 2), None))),)
    slices = (("w", (3, 2), ((0, 2), None)),)
    assert as_single(json.loads(json.dumps(single_written(single))), slices, {"w": (3, 2)}) == single


@pytest.mark.slow
def test_a_fit_killed_on_single_entries_is_resumed_to_the_same_bits(tmp_path, monkeypatch) -> None:
    """After 26 of 30 steps, acts at 8, 16 and 24: the entries that are held are those of an act before."""
    monkeypatch.setattr(short_program, "FEWEST", 100)

    def killer(moment) -> None:
        if moment.step >= 26:
            raise KilledError

    bnn = network()
    settings = SETTINGS | {"storage": "compact", "sparsifier": Thinning()}
    alone = bp.fit_svi(jax.random.key(5), bnn, DATA, **settings)
    settings |= {"checkpoint_every": 2}
    with pytest.raises(KilledError):
        bp.fit_svi(jax.random.key(5), bnn, DATA, checkpoint=str(tmp_path), callbacks=[killer], **settings)
    resumed = bp.fit_svi(jax.random.key(5), bnn, DATA, checkpoint=str(tmp_path), **settings)
    assert len(alone.history["shrunk/step"]) >= 1
    assert programs.same_bits(alone.params, resumed.params)
    assert alone.losses.tobytes() == resumed.losses.tobytes()


@pytest.mark.slow_cases(1)
@dataclass(frozen=True)
class Thinning:
    """Cuts single weights at random: at each act all but half of those that live, whatever their units."""

    def init(self, rng_key: jax.Array, posterior: Any) -> SparseState:
        return first_state(posterior)

    def step(self, rng_key: jax.Array, evidence: Any, state: SparseState) -> tuple[SparseState, Any]:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(3), state.step), len(state.mask))
        alive = {s: m & jax.random.bernoulli(key, 0.4, m.shape) for key, (s, m) in zip(keys, state.mask.items(), strict=True)}
        return take_step(state, alive, evidence.posterior)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "changes"),
    [
        ("local_where_exact", {}),
        ("weight", {"optimizer": optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.05, momentum=0.9))}),
        ("local", {"posterior": "map", "prior": bp.priors.Gaussian(0.5)}),
        ("local", {"prior": bp.priors.ScaleMixture()}),
    ],
)
def test_arrays_that_are_mostly_dead_are_held_by_their_entries(estimator, changes, monkeypatch) -> None:
    """Where no unit leaves: the numbers that are held are those of living weights, and the steps are the same."""
    monkeypatch.setattr(short_program, "FEWEST", 100)
    with jax.enable_x64(True):
        parts = {name: value for name, value in changes.items() if name in ("prior", "posterior")}
        changes = {name: value for name, value in changes.items() if name not in parts}
        masked, compact = both(network(**parts), estimator=estimator, sparsifier=Thinning(), every=5, **changes)
        check_same(masked, compact, sizes=1)
    last, alive = compact.history["shrunk/numbers"][-1], sum(int(np.sum(m)) for m in compact.mask.values())
    assert last < 0.25 * 1_227
    assert last >= alive


@pytest.mark.every
@pytest.mark.slow
def test_channels_held_by_their_entries(monkeypatch) -> None:
    monkeypatch.setattr(short_program, "FEWEST", 100)
    rng = np.random.default_rng(0)
    data = bp.Dataset(rng.normal(size=(60, 12, 12, 1)), rng.integers(0, 3, 60).astype(np.int32))
    with jax.enable_x64(True):
        bnn = network(bp.nets.LeNet5(3), shape=(12, 12, 1))
        check_same(*both(bnn, data, estimator="local", num_steps=20, every=6, sparsifier=Thinning()), sizes=1)
