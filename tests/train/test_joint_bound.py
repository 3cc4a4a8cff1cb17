"""The bound by which acts are verified, and the losses of a fit, on linear regression, where both are known."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from tests.infer import programs

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.types import Needs, SparseState
from bayesprune.prune.bookkeeping import make_info

LOC, SCALE, BETA = np.array([1.0, 9.0, -0.5]), 1e-4, 0.25
GAINS = np.array([-5.0, 3.0, 1.0])


@dataclass(frozen=True)
class Propose:
    """Cuts weights of a gain above 0."""

    needs = Needs()

    def init(self, rng_key, posterior) -> SparseState:
        return SparseState(masks.full_like(posterior), (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state):
        new = state._replace(mask={"w": state.mask["w"] & (jnp.asarray(GAINS) < 0)}, step=state.step + 1)
        return new, make_info(state.mask, new, evidence_gain={"w": jnp.asarray(GAINS, float)})


def elbo(mask: np.ndarray, beta: float) -> float:
    """log p(y | w) at w = loc, which a scale of 1e-4 hardly leaves, less beta times the divergence of what is alive."""
    data, _ = programs.line()
    x, y = np.asarray(data.x, np.float64), np.asarray(data.y, np.float64)
    nats = scipy.stats.norm.logpdf(y, x @ (LOC * mask), programs.NOISE).sum()
    divergence = -np.log(SCALE) + (SCALE**2 + LOC**2 - 1) / 2
    return nats - beta * np.sum(divergence[mask])


def fit(**settings):
    data, _ = programs.line()
    start = {"w_auto_loc": jnp.asarray(LOC), "w_auto_scale": jnp.full(3, SCALE)}
    return bp.fit_svi(
        jax.random.key(3), programs.linear_program(), data,
        **{"num_steps": 3, "optimizer": optax.sgd(0.0), "init_params": start, "progress": False} | settings,
    )  # fmt: skip


@pytest.mark.parametrize("batch_size", [None, pytest.param(25, marks=pytest.mark.slow)])
def test_an_act_is_worth_what_it_does_to_the_bound(batch_size) -> None:
    """At the present weight of the divergence; of halves of the rows the mean over both is that of all."""
    course = bp.courses.Standard(verified=2)
    found = fit(sparsifier=Propose(), every=2, kl_weight=BETA, course=course, batch_size=batch_size)
    whole = np.ones(3, bool)
    # The weight of 9, far from the data's, has the highest gain and goes first; the next one would cost.
    without = {n: np.isin(np.arange(3), dead, invert=True) for n, dead in (("one", [1]), ("two", [1, 2]))}
    better = max(without.values(), key=lambda mask: elbo(mask, BETA))
    assert np.array_equal(found.mask["w"], better)
    if batch_size is None:
        expected = elbo(better, BETA) - elbo(whole, BETA)
        np.testing.assert_allclose(found.history["prune/bound_gained"][0], expected, rtol=1e-3)
    assert found.history["prune/num_proposed"][0] == 2
    plain = fit(sparsifier=Propose(), every=2, kl_weight=BETA, course=bp.courses.Plain())
    assert np.array_equal(plain.mask["w"], GAINS < 0) and np.isnan(plain.history["prune/num_proposed"]).all()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_losses_are_the_bound_whatever_is_minimised(weight) -> None:
    losses = fit(kl_weight=weight).losses
    np.testing.assert_allclose(losses, -elbo(np.ones(3, bool), 1.0), rtol=1e-4)


@pytest.mark.slow
def test_what_is_minimised_has_the_weight() -> None:
    """The step of plain gradient descent is that of the weighted loss: of a weight whose likelihood is flat, its prior's."""
    data, _ = programs.line()
    blind = bp.Dataset(np.zeros_like(data.x), data.y)
    moved = {}
    for weight in (0.0, 0.5, 1.0):
        found = bp.fit_svi(
            jax.random.key(3), programs.linear_program(), blind, num_steps=1, optimizer=optax.sgd(1.0), kl_weight=weight,
            init_params={"w_auto_loc": jnp.asarray(LOC), "w_auto_scale": jnp.ones(3)}, progress=False,
        )  # fmt: skip
        moved[weight] = np.asarray(found.params["w_auto_loc"]) - LOC
    # d/d loc of KL is loc; the gradient is of the loss per row.
    for weight, step in moved.items():
        np.testing.assert_allclose(step, -weight * LOC / len(data.y), rtol=1e-4, atol=1e-6)
