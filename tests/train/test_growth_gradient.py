"""The gradients that a sparsifier may ask for, on linear regression, where they are known."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.types import Gradient, Info, Needs, SparseState

LOC = np.array([1.0, 9.0, -0.5])
ALIVE = np.array([True, False, True])


@dataclass(frozen=True)
class Watch:
    """Prunes nothing; reports the gradients of the three weights in places where numbers are recorded."""

    look: Any

    @property
    def needs(self) -> Needs:
        return Needs(gradient=self.look)

    def init(self, rng_key, posterior) -> SparseState:
        return SparseState(masks.full_like(posterior), (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state) -> tuple[SparseState, Info]:
        g, zero = evidence.gradient["w"], jnp.zeros((), jnp.int32)
        return state, Info(g[0], {"w": g[1]}, zero, zero, zero, g[2], jnp.ones(()))


def shown(look: Gradient, scale: float, batch_size: int | None = None) -> np.ndarray:
    data, _ = programs.line()
    start = {"w_auto_loc": jnp.asarray(LOC), "w_auto_scale": jnp.full(3, scale)}
    fit = bp.fit_svi(
        jax.random.key(3), programs.linear_program(), data, num_steps=3, optimizer=optax.sgd(0.0), init_params=start,
        mask={"w": ALIVE}, sparsifier=Watch(look), every=2, progress=False, batch_size=batch_size,
    )  # fmt: skip
    return np.array([fit.history[f"prune/{name}"][0] for name in ("density", "density/w", "evidence_gained")])


def exact(rows=slice(None)) -> np.ndarray:
    """The likelihood's gradient per row at the means, dead weights at 0."""
    data, _ = programs.line()
    x, y, w = data.x[rows], data.y[rows], LOC * ALIVE
    return -x.T @ (y - x @ w) / programs.NOISE**2 / len(y)


@pytest.mark.slow
def test_at_one_draw_it_is_noisy_and_at_the_mean_it_is_not() -> None:
    np.testing.assert_allclose(shown(Gradient(at_mean=True), scale=0.5), exact(), rtol=1e-3)
    assert np.abs(shown(Gradient(), scale=0.5) / exact() - 1).max() > 0.01


@pytest.mark.slow
def test_of_several_draws_it_is_the_mean_absolute_value() -> None:
    np.testing.assert_allclose(shown(Gradient(num_draws=3), scale=1e-6), np.abs(exact()), rtol=1e-3)


@pytest.mark.slow
def test_each_of_several_draws_has_a_batch_of_its_own() -> None:
    """At the start of an epoch of two batches: the mean of |a| and |b|, where |a| and (a + b)/2 are known."""
    both = shown(Gradient(num_draws=2), 1e-6, 25)
    first = np.abs(shown(Gradient(), 1e-6, 25))
    second = 2 * both - first
    assert (both >= np.abs(exact()) * 0.999).all()
    for index in range(3):
        sums = [s * first[index] + t * second[index] for s in (-1, 1) for t in (-1, 1)]
        assert min(abs(value / 2 - exact()[index]) for value in sums) < 1e-3 * np.abs(exact()).max()


@pytest.mark.slow
def test_with_the_divergence_weights_that_are_alive_feel_the_prior() -> None:
    expected = exact() + np.where(ALIVE, LOC, 0.0) / 50  # prior N(0, 1), 50 rows
    np.testing.assert_allclose(shown(Gradient(divergence=True), scale=1e-6), expected, rtol=1e-3)


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("look", [Gradient(), Gradient(at_mean=True), Gradient(num_draws=2), Gradient(divergence=True)])
def test_asking_changes_nothing_in_the_training(look) -> None:
    data, _ = programs.line()
    run = lambda **settings: bp.fit_svi(  # noqa: E731
        jax.random.key(0), programs.linear_program(), data, num_steps=6, batch_size=20, progress=False, **settings
    )
    alone, watched = run(), run(sparsifier=Watch(look), every=2)
    np.testing.assert_array_equal(alone.losses, watched.losses)
