"""Weights kept whole or only where alive: the same fit; and what happens to weights that are exchanged."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.loop import compile_loop
from bayesprune.train.objective import make_elbo
from bayesprune.train.sites import Example
from bayesprune.train.start import start_mask, start_storage
from bayesprune.train.state import Recipe
from bayesprune.train.storage import Active, make_storage

DATA = programs.classes(rows=120)
# Kinds of optimiser state: momentum, two moments, a chain, two optimisers for two kinds of parameters.
OPTIMIZERS = {
    "momentum": optax.sgd(0.05, momentum=0.9),
    "adam": optax.adam(1e-2),
    "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.adabelief(1e-2)),
    "two": optax.multi_transform(
        {"loc": optax.sgd(0.05, momentum=0.9), "other": optax.adam(1e-2)},
        lambda params: {name: "loc" if name.endswith("_loc") else "other" for name in params},
    ),
}


def small(posterior="mean_field") -> bp.BNN:
    return programs.small_bnn(prior=bp.priors.Gaussian(0.5), posterior=posterior)


def fit(key, storage, optimizer, posterior="mean_field", estimator="local", **changes):
    settings = {"sparsifier": bp.methods.SSVI(0.4), "every": 3} | changes
    return bp.fit_svi(
        key, small(posterior), DATA, num_steps=20, batch_size=30, optimizer=optimizer, estimator=estimator,
        storage=storage, progress=False, **settings,
    )  # fmt: skip


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "estimator"),
    [
        ("adam", "weight"),
        *(pytest.param(n, "local", marks=pytest.mark.slow) for n in ("momentum", "clipped", "two")),
    ],
)
def test_both_storages_give_the_same_fit(optimizer, estimator, rng_key) -> None:
    masked, active = (fit(rng_key, s, OPTIMIZERS[optimizer], estimator=estimator) for s in ("masked", "active"))
    assert masked.params.keys() == active.params.keys()
    np.testing.assert_allclose(masked.losses, active.losses, rtol=2e-4)
    for site, alive in masked.mask.items():
        np.testing.assert_array_equal(alive, active.mask[site])
    for name, value in masked.params.items():
        np.testing.assert_allclose(value, active.params[name], rtol=2e-3, atol=2e-4, err_msg=name)
    np.testing.assert_array_equal(masked.history["prune/num_grown"], active.history["prune/num_grown"])
    assert masked.history["prune/num_grown"].sum() > 0


@pytest.mark.slow
def test_points_too(rng_key) -> None:
    masked, active = (fit(rng_key, s, OPTIMIZERS["adam"], "map", "weight") for s in ("masked", "active"))
    np.testing.assert_allclose(masked.losses, active.losses, rtol=2e-4)
    assert "Dense_0.kernel_map_loc" in active.params


@pytest.mark.slow
def test_a_fixed_mask_without_a_sparsifier(rng_key) -> None:
    rng = np.random.default_rng(0)
    mask = {str(s.path): rng.random(s.shape) < 0.5 for s in small().layout if s.prunable}
    masked, active = (fit(rng_key, s, OPTIMIZERS["adam"], sparsifier=KeepAll(), mask=mask) for s in ("masked", "active"))
    np.testing.assert_allclose(masked.losses, active.losses, rtol=2e-4)
    for site in mask:
        np.testing.assert_array_equal(active.mask[site], mask[site])


def opened(storage: str, optimizer, key):
    """The compiled loop and its first states."""
    bnn, sparsifier = small(), bp.methods.SSVI(0.4)
    keywords = (("train", True), ("num_rows", 120))
    elbo = make_elbo("local", 1)
    recipe = Recipe(bnn, elbo, Optax(optimizer), sparsifier, bp.schedules.Constant(1.0), 30, keywords, None)
    loop, data = compile_loop(recipe, Example.of(DATA)), jax.tree.map(jnp.asarray, DATA)
    carry = loop.init(key, data)
    sparse = start_mask(key, sparsifier, bnn.read(loop.constrain(carry.params)), None)
    return *start_storage(storage, loop, recipe, carry, sparse, Example.of(data)), data


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["two"])
def test_nothing_that_lasts_is_longer_than_the_weights_that_are_alive(optimizer, rng_key) -> None:
    loop, carry, sparse, data = opened("active", OPTIMIZERS[optimizer], rng_key)
    carry, _, _ = loop.run(carry, data, sparse.mask, jnp.asarray(3))
    counts = {site: len(index) for site, index in sparse.mask.items()}
    assert sum(counts.values()) == round(0.4 * (4 * 8 + 8 + 8 * 6 + 6))
    sizes = [leaf.size for leaf in jax.tree.leaves((carry.params, carry.opt_state)) if leaf.ndim]
    whole = [math.prod(spec.shape) for spec in small().layout if not spec.prunable]  # the last layer
    assert max(sizes) == max([*counts.values(), *whole])
    arrays_per_site = 5  # loc and its momentum; scale and its two moments
    assert sum(sizes) == arrays_per_site * (sum(counts.values()) + sum(whole))


@pytest.mark.slow
@pytest.mark.parametrize(("storage", "optimizer"), [("masked", "adam"), ("active", "two")])
def test_exchanged_weights_begin_clean_and_the_others_go_on(optimizer, storage, rng_key) -> None:
    loop, carry, sparse, data = opened(storage, OPTIMIZERS[optimizer], rng_key)
    carry, _, _ = loop.run(carry, data, sparse.mask, jnp.asarray(5))
    old_params, old_mask = loop.whole(carry, sparse.mask, {})
    new, _ = loop.prune(carry, data, sparse, {}, jnp.asarray(100))
    renewed = loop.renew(carry, sparse.mask, new.mask, {})
    params, mask = loop.whole(renewed, new.mask, {})
    scatter = lambda leaf, kept, site: np.asarray(leaf) if storage == "masked" else spread(leaf, kept, mask[site].shape)  # noqa: E731
    exchanged = 0
    for site in mask:
        before, after = np.asarray(old_mask[site]), np.asarray(mask[site])
        grown, stayed = after & ~before, after & before
        exchanged += grown.sum()
        loc, scale = f"{site}_auto_loc", f"{site}_auto_scale"
        assert (np.asarray(params[loc])[grown] == 0).all()
        if grown.any():
            mean = np.asarray(old_params[scale])[stayed].mean()
            np.testing.assert_allclose(np.asarray(params[scale])[grown], mean, rtol=1e-4)
        np.testing.assert_allclose(np.asarray(params[loc])[stayed], np.asarray(old_params[loc])[stayed], rtol=1e-6)
        then = moments(carry.opt_state, loc, jnp.shape(carry.params[loc]))
        now = moments(renewed.opt_state, loc, jnp.shape(carry.params[loc]))
        assert then and len(then) == len(now)
        for one, other in zip(then, now, strict=True):
            one, other = scatter(one, sparse.mask[site], site), scatter(other, new.mask[site], site)
            assert (other[before != after] == 0).all()
            np.testing.assert_array_equal(other[stayed], one[stayed])
            assert np.abs(one[stayed]).max() > 0
    assert exchanged > 5


def spread(values, index, shape):
    whole = np.zeros(math.prod(shape))
    whole[np.asarray(index)] = np.asarray(values)
    return whole.reshape(shape)


def moments(opt_state, name: str, shape) -> list:
    """Arrays of the optimiser's state that belong to a parameter: those under its name."""
    paths, _ = jax.tree_util.tree_flatten_with_path(opt_state)
    mine = [leaf for path, leaf in paths if any(getattr(key, "key", None) == name for key in path)]
    return [leaf for leaf in mine if leaf.shape == shape]


def test_positions_and_back() -> None:
    mask = {"w": jnp.array([[True, False, True], [False, True, False]])}
    storage = make_storage("active", bp.methods.SSVI(0.5), mask)
    assert isinstance(storage, Active)
    kept = storage.keep_mask(mask)
    np.testing.assert_array_equal(kept["w"], [0, 2, 4])
    np.testing.assert_array_equal(storage.whole_mask(kept)["w"], mask["w"])
    params = {"w_auto_loc": jnp.arange(6.0).reshape(2, 3) + 1, "b_auto_loc": jnp.ones(2)}
    packed = storage.keep(params, kept)
    np.testing.assert_array_equal(packed["w_auto_loc"], [1, 3, 5])
    whole = storage.whole(packed, kept)
    np.testing.assert_array_equal(whole["w_auto_loc"], [[1, 0, 3], [0, 5, 0]])
    np.testing.assert_array_equal(whole["b_auto_loc"], [1, 1])


@pytest.mark.slow
def test_rematerialisation_changes_nothing_but_memory(rng_key) -> None:
    plain, lean = (fit(rng_key, "masked", OPTIMIZERS["adam"], estimator="weight", remat=remat) for remat in (False, True))
    np.testing.assert_allclose(plain.losses, lean.losses, rtol=2e-4)
    for site, alive in plain.mask.items():
        np.testing.assert_array_equal(alive, lean.mask[site])


@pytest.mark.slow
def test_a_killed_run_goes_on_as_it_would_have(rng_key, tmp_path) -> None:
    class Killed(Exception):
        pass

    def kill(moment) -> None:
        if moment.step == 12:
            raise Killed

    whole = fit(rng_key, "active", OPTIMIZERS["adam"])
    settings = {"checkpoint": tmp_path, "checkpoint_every": 6}
    with pytest.raises(Killed):
        fit(rng_key, "active", OPTIMIZERS["adam"], callbacks=[kill], **settings)
    again = fit(rng_key, "active", OPTIMIZERS["adam"], **settings)
    assert programs.same_bits(whole.params, again.params)
    with pytest.raises(ValueError, match="storage"):
        fit(rng_key, "masked", OPTIMIZERS["adam"], **settings)


@pytest.mark.slow
def test_the_step_is_traced_once_through_all_exchanges(rng_key) -> None:
    net, marks = programs.count_traces(bp.nets.MLP(hidden=(8, 6), num_outputs=3))
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    common = {"batch_size": 30, "every": 2, "storage": "active", "progress": False, "course": bp.courses.Plain()}
    bp.fit_svi(rng_key, bnn, DATA, num_steps=4, sparsifier=bp.methods.SSVI(0.3), **common)
    before = len(marks)
    bp.fit_svi(rng_key, bnn, DATA, num_steps=40, sparsifier=bp.methods.SSVI(0.3), **common)
    assert len(marks) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"storage": "sparse"}, "storage"),
        ({"storage": "active", "sparsifier": KeepAll()}, "nothing is dead"),
        ({"storage": "active", "sparsifier": bp.methods.SSVI(0.4, distribution="global")}, "storage='masked'"),
        ({"storage": "active", "sparsifier": bp.methods.BMR()}, "methods.SSVI"),
    ],
)
def test_what_cannot_be_kept_so_is_refused(settings, message, rng_key) -> None:
    with pytest.raises(ValueError, match=message):
        fit(rng_key, optimizer=OPTIMIZERS["adam"], **settings)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["masked", "active"])
def test_memory_that_does_not_begin_at_zero(storage, rng_key) -> None:
    """Schedule-free SGD remembers parameters: of a woken weight, those with which it wakes."""
    loop, carry, sparse, data = opened(storage, optax.contrib.schedule_free_sgd(0.05), rng_key)
    carry, _, _ = loop.run(carry, data, sparse.mask, jnp.asarray(5))
    _, old = loop.whole(carry, sparse.mask, {})
    new, _ = loop.prune(carry, data, sparse, {}, jnp.asarray(100))
    renewed = loop.renew(carry, sparse.mask, new.mask, {})
    _, mask = loop.whole(renewed, new.mask, {})
    woken = 0
    for site, alive in mask.items():
        grown = np.asarray(alive & ~old[site])
        grown = grown if storage == "masked" else grown.ravel()[np.asarray(new.mask[site])]
        woken += grown.sum()
        for name in (f"{site}_auto_loc", f"{site}_auto_scale"):
            params, remembered = (np.asarray(tree[name]) for tree in (renewed.params, renewed.opt_state.z))
            np.testing.assert_array_equal(params[grown], remembered[grown])
            assert (params[~grown] != remembered[~grown]).any()
    assert woken


@pytest.mark.slow
def test_an_optimiser_that_lays_parameters_end_to_end_is_refused(rng_key) -> None:
    with pytest.raises(ValueError, match=r"belongs to no one parameter, as optax\.flatten"):
        fit(rng_key, "masked", optax.flatten(optax.adam(1e-2)))
