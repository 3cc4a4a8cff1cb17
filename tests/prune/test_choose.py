"""Choices: exact counts, every layer alive, nobody back from the dead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core import masks
from bayesprune.prune.choose import keep_density, kept, threshold

RNG = np.random.default_rng(2)
SCORES = {"a": RNG.normal(size=(20, 10)).astype(np.float32), "b": RNG.normal(-9, 1, 50).astype(np.float32)}
TIES = {"a": np.zeros((20, 10), np.float32), "b": np.zeros(50, np.float32)}


def numbers(mask: dict[str, jax.Array]) -> dict[str, int]:
    return {name: int(np.sum(leaf)) for name, leaf in mask.items()}


@pytest.mark.slow
@pytest.mark.parametrize("scores", [SCORES, TIES])
@pytest.mark.parametrize("density", [1.0, 0.5, 0.1, 0.013, 1e-6])
def test_counts_are_exact_under_ties(scores: dict[str, np.ndarray], density: float) -> None:
    each = numbers(keep_density(scores, density, "per_layer"))
    assert each == {"a": max(1, round(200 * density)), "b": max(1, round(50 * density))}
    assert sum(numbers(keep_density(scores, density)).values()) == max(2, round(250 * density))


@pytest.mark.slow
def test_global_takes_the_best_of_all_but_leaves_every_layer_one() -> None:
    mask = keep_density(SCORES, 0.4)
    assert numbers(mask) == {"a": 99, "b": 1}
    assert mask["b"][SCORES["b"].argmax()]
    cut = np.sort(SCORES["a"], axis=None)[-99]
    np.testing.assert_array_equal(mask["a"], SCORES["a"] >= cut)


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["global", "per_layer"])
def test_the_dead_stay_dead_and_do_not_use_up_places(scope: str) -> None:
    within = {"a": RNG.random((20, 10)) < 0.5, "b": RNG.random(50) < 0.5}
    mask = keep_density(SCORES, 0.2, scope, within)
    assert not any((np.asarray(mask[name]) & ~within[name]).any() for name in mask)
    assert sum(numbers(mask).values()) == 50
    everything = keep_density(SCORES, 1.0, scope, within)
    assert numbers(everything) == numbers(within)


@pytest.mark.slow
def test_a_layer_that_is_already_gone_stays_gone() -> None:
    within = {"a": np.ones((20, 10), bool), "b": np.zeros(50, bool)}
    assert numbers(keep_density(SCORES, 0.2, within=within)) == {"a": 50, "b": 0}


def test_layers_may_have_densities_of_their_own() -> None:
    assert numbers(keep_density(SCORES, {"a": 0.25, "b": 1.0}, "per_layer")) == {"a": 50, "b": 50}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("scope", ["global", "per_layer"])
def test_one_trace_serves_every_density(scope: str) -> None:
    traces = []

    @jax.jit
    def choose(density: jax.Array) -> dict[str, jax.Array]:
        traces.append(density)
        return keep_density(SCORES, density, scope)

    assert [int(masks.count(choose(jnp.float32(d)))) for d in (0.2, 0.4)] == [50, 100]
    assert len(traces) == 1


def test_threshold_keeps_what_reaches_the_cut() -> None:
    scores = {"a": jnp.asarray([1.0, 2.0, jnp.nan, 5.0]), "b": jnp.asarray([1.0, 3.0])}
    mask = threshold(
        scores, {"a": 2.0, "b": jnp.asarray([0.0, 4.0])}, {"a": jnp.asarray([1, 1, 1, 0], bool), "b": jnp.ones(2, bool)}
    )
    np.testing.assert_array_equal(mask["a"], [0, 1, 0, 0])
    np.testing.assert_array_equal(mask["b"], [1, 0])
    np.testing.assert_array_equal(threshold(scores, -jnp.inf)["b"], [1, 1])


@pytest.mark.parametrize("density", [0.0, -0.1, 1.1, float("nan")])
def test_densities_outside_are_refused(density: float) -> None:
    with pytest.raises(ValueError, match="density"):
        keep_density(SCORES, density)


def test_an_unknown_scope_shows_the_known_ones() -> None:
    with pytest.raises(ValueError, match="layer"):
        keep_density(SCORES, 0.5, "layers")


@pytest.mark.slow
def test_kept_counts_large_layers_exactly() -> None:
    assert kept(0.05, 11_164_362) == round(0.05 * 11_164_362)
    assert int(kept(jnp.float32(0.5), 2**24)) == 2**23
