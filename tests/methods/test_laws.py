"""Every method that is found obeys the common laws."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune import methods
from bayesprune.core import masks
from bayesprune.core.types import Evidence, Info, Sparsifier
from bayesprune.prune.needs import needs_of
from tests.methods import laws

METHODS = [pytest.param(laws.method_of(cls), id=name) for name, cls in methods.find().items()]
# Methods that promise an exact number of survivors.
COUNTED = [pytest.param(cls, id=name) for name, cls in methods.find().items() if "density" in cls.__dataclass_fields__]
every_method = pytest.mark.parametrize("method", METHODS)


@pytest.mark.fast_cases(1)
@every_method
def test_it_is_a_sparsifier_of_hashable_knobs(method, rng_key) -> None:
    assert isinstance(method, Sparsifier)
    assert hash(method) == hash(copy.copy(method))


@pytest.mark.slow
@every_method
def test_purity(method, rng_key) -> None:
    seen = laws.evidence(rng_key, kind=laws.kind_of(method))
    before = jax.tree.map(np.array, seen)
    first, again = laws.act(method, rng_key, seen), laws.act(method, rng_key, seen)
    assert laws.same(first, again)
    assert laws.same(before, jax.tree.map(np.array, seen))


@pytest.mark.fast_cases(1)
@every_method
def test_jit_changes_nothing_and_traces_once(method, rng_key) -> None:
    traces = []

    @jax.jit
    def step(key, seen, state):
        traces.append(1)
        return method.step(key, seen, state)

    state = jitted = method.init(rng_key, laws.posterior(rng_key, kind=laws.kind_of(method)))
    for round_ in range(3):
        seen = laws.evidence(jax.random.fold_in(rng_key, round_), kind=laws.kind_of(method))
        state, info = method.step(rng_key, seen, state)
        jitted, jitted_info = step(rng_key, seen, jitted)
        assert laws.same(state.mask, jitted.mask)
        np.testing.assert_allclose(info.density, jitted_info.density, rtol=1e-6)
    assert len(traces) == 1


@pytest.mark.fast_cases(1)
@every_method
def test_mask_is_whole_and_boolean_and_info_counts_it(method, rng_key) -> None:
    seen = laws.evidence(rng_key, kind=laws.kind_of(method))
    state, info = laws.act(method, rng_key, seen)
    assert {site: alive.shape for site, alive in state.mask.items()} == laws.SHAPES
    assert all(alive.dtype == bool for alive in state.mask.values())
    alive = sum(int(np.sum(np.asarray(a))) for a in state.mask.values())
    total = sum(int(np.prod(shape)) for shape in laws.SHAPES.values())
    before = int(masks.count(method.init(rng_key, seen.posterior).mask))
    assert int(info.num_alive) == alive
    assert int(info.num_pruned) - int(info.num_grown) == before - alive
    assert float(info.density) == pytest.approx(alive / total)
    assert set(info._fields) == set(Info._fields) and set(info.density_per_site) == set(laws.SHAPES)
    assert int(state.step) == 1


@pytest.mark.fast_cases(1)
@every_method
def test_the_dead_stay_dead_where_nothing_regrows(method, rng_key) -> None:
    kind = laws.kind_of(method)
    state, _ = laws.act(method, rng_key, laws.evidence(rng_key, kind=kind))
    later, info = method.step(rng_key, laws.evidence(jax.random.key(9), kind=kind), state)
    if int(info.num_grown) == 0:
        revived = [jnp.any(later.mask[s] & ~state.mask[s]) for s in state.mask]
        assert not any(bool(r) for r in revived)


@pytest.mark.fast_cases(1)
@every_method
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-6])
def test_finite_at_loc_zero_and_scale_to_zero(method, rng_key, scale) -> None:
    kind = laws.kind_of(method)
    nodes = {s: laws.node(kind, jnp.zeros(shape), jnp.full(shape, scale)) for s, shape in laws.SHAPES.items()}
    gradient = {s: jnp.zeros(shape) for s, shape in laws.SHAPES.items()}
    state, info = laws.act(method, rng_key, Evidence(nodes, gradient), times=2)
    assert np.isfinite(float(info.density))
    assert all(alive.dtype == bool for alive in state.mask.values())
    assert all(
        np.all(np.isfinite(np.asarray(leaf))) for leaf in jax.tree.leaves(state.memory) if np.asarray(leaf).dtype.kind == "f"
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("method", [param for param in METHODS if not needs_of(param.values[0]).chain])  # it draws by position
def test_permutation_of_units_permutes_the_mask(method, rng_key) -> None:
    seen = laws.evidence(rng_key, kind=laws.kind_of(method))
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    permute = lambda leaf: leaf[order] if jnp.shape(leaf) == (7, 5) else leaf  # noqa: E731
    moved = jax.tree.map(permute, seen)
    start = method.init(rng_key, seen.posterior)  # which may be random: the units are permuted with their start
    here = method.step(rng_key, seen, start)[0].mask
    there = method.step(
        rng_key,
        moved,
        start._replace(mask=jax.tree.map(permute, start.mask), memory=method.init(rng_key, moved.posterior).memory),
    )[0].mask
    assert laws.same(jax.tree.map(permute, here), there)


@pytest.mark.slow
@pytest.mark.parametrize("cls", COUNTED)
@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
def test_exact_counts_under_ties(cls, density, rng_key) -> None:
    seen = laws.evidence(rng_key, ties=True, kind=laws.kind_of(cls))
    state, _ = laws.act(cls(density=density), rng_key, seen)
    total = sum(int(np.prod(shape)) for shape in laws.SHAPES.values())
    assert int(masks.count(state.mask)) == max(len(laws.SHAPES), round(density * total))


@pytest.mark.parametrize("cls", COUNTED)
@pytest.mark.parametrize("density", [0.0, 1.5, -0.1, float("nan")])
def test_a_density_that_is_none_is_refused(cls, density) -> None:
    with pytest.raises(ValueError, match="density must lie in"):
        cls(density=density)


def test_an_unknown_method_is_told_its_neighbours() -> None:
    with pytest.raises(ValueError, match="Did you mean 'bmr'"):
        methods.get("brm")
    with pytest.raises(AttributeError, match="no method 'Nothing'"):
        _ = methods.Nothing
