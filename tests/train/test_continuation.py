"""A fit that goes on from another: the bits of one long fit, what is pruned stays so, and what does not fit is told."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.handlers import seed, trace
from tests.infer import programs
from tests.priors import alone

import bayesprune as bp
from bayesprune.posteriors.params import cut
from bayesprune.train import batches as batching
from bayesprune.train.alike import same_law, state_law
from bayesprune.train.continuation import Origin, by_path, kinds
from bayesprune.train.kernels.optimizer import Optax

BNN, DATA = programs.small_bnn(), programs.classes()
SITE = "Dense_0.kernel"
SHAPES = {str(spec.path): spec.shape for spec in BNN.layout if spec.prunable}
ALIVE = {SITE: np.arange(32).reshape(4, 8) % 3 > 0}
SETTINGS = {"batch_size": 16, "optimizer": optax.adam(1e-2), "kl_weight": 1.0, "progress": False}
RECIPES = {
    "masked": {"mask": ALIVE},
    "active": {"mask": ALIVE, "storage": "active"},
    "noise in the optimizer": {"optimizer": optax.chain(optax.adam(1e-2), optax.add_noise(0.1, 0.5, jax.random.key(3)))},
}


@pytest.fixture(autouse=True)
def quiet():
    """A state that is lost is told by a warning: here that is an error unless it is looked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_two_halves_are_the_whole_to_the_bit(recipe, tmp_path, rng_key) -> None:
    """Of batches that cross the ends of epochs, in memory and through a file, and in three parts."""
    settings = SETTINGS | recipe
    whole = bp.fit_svi(rng_key, BNN, DATA, num_steps=20, **settings)
    first = bp.fit_svi(rng_key, BNN, DATA, num_steps=9, **settings)
    first.save(tmp_path / "fit")
    del settings["optimizer"]
    optimizer = RECIPES["noise in the optimizer"]["optimizer"] if "optimizer" in recipe else optax.adam(1e-2)  # made anew
    for start in (first, bp.load(tmp_path / "fit")):
        rest = bp.fit_svi(rng_key, BNN, DATA, num_steps=11, init=start, optimizer=optimizer, **settings | {"mask": None})
        assert programs.same_bits((whole.params, whole.mask, whole.state), (rest.params, rest.mask, rest.state))
        assert np.concatenate([first.losses, rest.losses]).tobytes() == whole.losses.tobytes()
    assert int(rest.state.optim_state[0]) == 20 and rest.history["returned/step"].tolist() == [11]
    np.testing.assert_array_equal(rest.params[f"{SITE}_auto_loc"] == 0, ~ALIVE[SITE] if "mask" in recipe else np.zeros((4, 8)))


@pytest.mark.slow
def test_the_reading_goes_on_where_it_was_left() -> None:
    reading = begun = batching.start(jax.random.key(5), 10)
    for taken in range(0, 35, 4):
        ahead = batching.after(begun, taken, begun.current.shape[0])
        assert programs.same_bits(tuple(ahead), tuple(reading)), taken
        reading = batching.take(reading, 4)[0]


def test_a_state_is_known_by_its_kinds_paths_and_shapes() -> None:
    params = {"w": jnp.ones(2)}
    adam, slower, belief = (made.init(params) for made in (optax.adam(1e-2), optax.adam(1e-3), optax.adabelief(1e-2)))
    assert by_path(adam).keys() == by_path(belief).keys() == by_path(slower).keys(), "paths alone do not tell"
    assert kinds(adam) == kinds(slower) == "tuple ScaleByAdamState dict dict EmptyState"
    assert kinds(belief) != kinds(adam)


ORIGIN = Origin(
    {f"{SITE}_auto_loc": np.ones(3), f"{SITE}$unit": np.float32(0.5)}, {SITE: np.array([True, False, True])}, None, True
)


def test_the_dead_of_a_site_are_not_those_of_one_whose_name_goes_on() -> None:
    """Under the mask of "w" numbers that a user had set in "w_out" were taken for those of dead weights, and set back."""
    origin = Origin({}, {"w": np.array([True, False])}, None, whole=False)
    for name in ("w_auto_scale", "w_map_loc"):
        np.testing.assert_array_equal(origin.dead(name), [False, True])
    assert origin.dead("w_out_auto_loc") is False and origin.dead("w_auto_factor") is False


def test_other_names_units_and_revived_weights_are_refused() -> None:
    ORIGIN.check_names({f"{SITE}_auto_loc", "net$state"})
    with pytest.raises(ValueError, match=r"only init has 'Dense_0.kernel_auto_loc'; only this one has 'a', 'b'\. Build"):
        ORIGIN.check_names({"a", "b"})
    ORIGIN.check_units({f"{SITE}$unit": 0.500001})
    with pytest.raises(ValueError, match=r"'Dense_0.kernel' in units of 0\.5, this program in units of 2: .*another network"):
        ORIGIN.check_units({f"{SITE}$unit": 2.0})
    assert ORIGIN.narrowed(None) is ORIGIN.mask and ORIGIN.narrowed({SITE: [1, 0, 0]})[SITE] == [1, 0, 0]
    with pytest.raises(ValueError, match=r"mask= has 1 weights alive that are dead in init.*init_params=fit\.params"):
        ORIGIN.narrowed({SITE: np.array([True, True, True])})


@pytest.mark.slow
def test_what_is_pruned_stays_so_under_another_sparsifier_and_a_narrower_mask(rng_key) -> None:
    fit = bp.fit_svi(rng_key, BNN, DATA, num_steps=8, sparsifier=bp.methods.Magnitude(0.6), every=4, **SETTINGS)
    tuned = bp.fit_svi(
        rng_key, BNN, DATA, num_steps=8, init=fit, sparsifier=bp.methods.SNR(0.3), every=2, **SETTINGS | {"kl_weight": 0.5}
    )
    cut = bp.prune_once(fit.params, bp.methods.SNR(0.3), mask=fit.mask)
    narrower = bp.fit_svi(rng_key, BNN, DATA, num_steps=3, init=fit, mask=cut.mask, **SETTINGS)
    pruned = bp.fit_svi(rng_key, BNN, DATA, num_steps=3, init=cut, **SETTINGS)
    for site, alive in fit.mask.items():
        assert not (tuned.mask[site] & ~alive).any()
        np.testing.assert_array_equal(narrower.mask[site], cut.mask[site])
        np.testing.assert_array_equal(pruned.mask[site], cut.mask[site])
        assert not np.any(pruned.params[f"{site}_auto_loc"][~cut.mask[site]])
    count = lambda mask: sum(int(alive.sum()) for alive in mask.values())  # noqa: E731
    assert count(tuned.mask) < count(fit.mask)
    again = bp.fit_svi(rng_key, BNN, DATA, num_steps=3, init=tuned, **SETTINGS)
    assert programs.same_bits(again.mask, tuned.mask) and int(again.state.optim_state[0]) == 19


@pytest.mark.slow
def test_a_method_that_exchanges_weights_may_reactivate_them(rng_key) -> None:
    settings = SETTINGS | {"sparsifier": bp.methods.SSVI(0.6), "num_steps": 8, "every": 2}
    fit = bp.fit_svi(rng_key, BNN, DATA, **settings)
    more = bp.fit_svi(rng_key, BNN, DATA, init=fit, **settings)
    assert any((more.mask[site] & ~fit.mask[site]).any() for site in fit.mask)
    assert {site: int(m.sum()) for site, m in more.mask.items()} == {site: int(m.sum()) for site, m in fit.mask.items()}


@pytest.mark.slow
def test_an_optimizer_that_starts_anew_is_told_and_starts_from_the_same_network(rng_key) -> None:
    fit = bp.fit_svi(rng_key, BNN, DATA, num_steps=4, mask=ALIVE, storage="active", **SETTINGS)
    still = SETTINGS | {"optimizer": optax.sgd(0.0), "num_steps": 1}
    for origin, changed, told in (
        (fit, {"storage": "active"}, "holds the state of another optimizer"),
        (fit, {}, "keeps its weights otherwise"),
        (fit._replace(state=None), {}, "holds no state"),
    ):
        with pytest.warns(UserWarning, match=f"init {told}.*the optimizer starts anew.*init_params=fit.params, mask=fit.mask"):
            same = bp.fit_svi(rng_key, BNN, DATA, init=origin, **still | changed)
        for name, value in fit.params.items():
            np.testing.assert_allclose(same.params[name], value, rtol=2e-6, atol=1e-7, err_msg=name)
        assert programs.same_bits(same.mask, fit.mask)


LAWS = {
    "other decay": (optax.adam(1e-2), optax.adam(1e-2, b1=0.5), False),
    "another norm": (optax.adam(1e-2), optax.adamax(1e-2), False),
    "another momentum": (optax.sgd(0.1, momentum=0.9), optax.sgd(0.1, momentum=0.5), False),
    "another rate": (optax.adam(1e-2), optax.adam(1e-3), True),
    "decoupled decay": (optax.adamw(1e-2, weight_decay=0.1), optax.adamw(1e-2, weight_decay=0.2), True),
    "another schedule": (optax.adam(optax.cosine_decay_schedule(0.1, 9)), optax.adam(optax.linear_schedule(0.1, 0.0, 5)), True),
    "another table": (*(optax.adam(optax.piecewise_constant_schedule(0.1, {3: d})) for d in (0.1, 0.2)), True),
}


@pytest.mark.parametrize("case", LAWS)
def test_states_of_the_same_types_are_told_by_their_laws(case) -> None:
    one, other, same = LAWS[case]
    params = {"w": jax.ShapeDtypeStruct((3,), jnp.float32)}
    laws = [state_law(Optax(made), params) for made in (one, other)]
    assert all(laws) and same_law(*laws) is same
    assert kinds(one.init({"w": jnp.ones(3)})) == kinds(other.init({"w": jnp.ones(3)})), "their types do not tell"


def test_laws_that_cannot_be_compared_are_taken_to_agree() -> None:
    assert same_law("", "0.10 ab") and same_law("0.9 ab", "0.10 cd") and not same_law("0.10 ab", "0.10 cd")


@pytest.mark.slow
def test_a_state_of_another_law_starts_anew(rng_key, tmp_path) -> None:
    first = bp.fit_svi(rng_key, BNN, DATA, num_steps=2, **SETTINGS)
    first.save(tmp_path / "fit")
    changed = SETTINGS | {"optimizer": optax.adam(1e-2, b1=0.5), "num_steps": 1}
    for start in (first, bp.load(tmp_path / "fit")):
        with pytest.warns(UserWarning, match="init holds the state of another optimizer, or of one with other decay rates"):
            anew = bp.fit_svi(rng_key, BNN, DATA, init=start, **changed)
        assert int(anew.state.optim_state[1][1][0].count) == 1


@pytest.mark.slow
def test_a_fit_that_goes_on_is_resumed_and_known_by_its_start(tmp_path, rng_key) -> None:
    first = bp.fit_svi(rng_key, BNN, DATA, num_steps=6, **SETTINGS)
    alone = bp.fit_svi(rng_key, BNN, DATA, num_steps=6, init=first, **SETTINGS)
    kept = {"checkpoint": str(tmp_path), "checkpoint_every": 2}

    def kill(moment: bp.Moment) -> None:
        if moment.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.fit_svi(rng_key, BNN, DATA, num_steps=6, init=first, callbacks=kill, **kept, **SETTINGS)
    resumed = bp.fit_svi(rng_key, BNN, DATA, num_steps=6, init=first, **kept, **SETTINGS)
    assert programs.same_bits((alone.params, alone.state), (resumed.params, resumed.state))
    for start in (alone, None):
        with pytest.raises(ValueError, match=re.escape(f"{tmp_path} was started with other settings: init")):
            bp.fit_svi(rng_key, BNN, DATA, num_steps=6, init=start, **kept, **SETTINGS)


@pytest.mark.slow_cases(3)
@pytest.mark.slow
@pytest.mark.parametrize("prior", [name for name in alone.NAMES if name != "ScaleMixture"])
def test_units_of_every_prior_are_known_again_where_weights_were_cut(prior, rng_key) -> None:
    bnn = programs.small_bnn(prior=getattr(bp.priors, prior)())
    sites = trace(seed(bnn.guide, rng_key)).get_trace()
    params = {name: site["value"] for name, site in sites.items() if site["type"] == "param" and "$" not in name}
    params |= bnn.describe(params)
    dead = cut(params, {spec: np.zeros(shape, bool) for spec, shape in SHAPES.items()})
    assert any(name.endswith("$unit") for name in params)
    Origin(params, {}, None, True).check_units(bnn.describe(dead))


@pytest.mark.slow
def test_edited_parameters_and_a_new_rate_are_what_is_taken(rng_key) -> None:
    """Parameters that were changed since are not overwritten by the state, nor an injected rate by the old one."""
    rated = lambda rate: optax.inject_hyperparams(optax.sgd)(learning_rate=rate)  # noqa: E731
    first = bp.fit_svi(rng_key, BNN, DATA, num_steps=2, **SETTINGS | {"optimizer": rated(0.1)})
    loc = f"{SITE}_auto_loc"
    edited = first._replace(params=first.params | {loc: first.params[loc].at[0].add(5.0)})
    still = bp.fit_svi(rng_key, BNN, DATA, num_steps=1, init=edited, **SETTINGS | {"optimizer": rated(0.0)})
    np.testing.assert_allclose(still.params[loc], edited.params[loc], rtol=1e-6)
    small = first._replace(params=first.params | {loc: first.params[loc] * 1e-5})
    from_small = bp.fit_svi(rng_key, BNN, DATA, num_steps=1, init=small, **SETTINGS | {"optimizer": rated(0.0)})
    less = small._replace(params=first.params | {loc: first.params[loc] * 2e-5})
    again = from_small._replace(params=less.params)
    found = bp.fit_svi(rng_key, BNN, DATA, num_steps=1, init=again, **SETTINGS | {"optimizer": rated(0.0)})
    np.testing.assert_allclose(found.params[loc], less.params[loc], atol=6e-7)  # of 1e-5 and not of 2e-5 otherwise
