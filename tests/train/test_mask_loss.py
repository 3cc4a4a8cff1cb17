"""The loss of the data as a function of the mask, on linear regression, where it is known."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.types import Info, Needs, SparseState

LOC = np.array([1.0, 9.0, -0.5])
MASKS = np.array([[True, False, True], [True, True, True], [False, False, True]])


@dataclass(frozen=True)
class Compare:
    """Prunes nothing; reports the loss at three masks, and a slope in the weights, in places where numbers are recorded."""

    needs = Needs(loss=True)

    def init(self, rng_key, posterior) -> SparseState:
        return SparseState(masks.full_like(posterior), (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state) -> tuple[SparseState, Info]:
        one, two, three = (evidence.loss({"w": jnp.asarray(mask)}) for mask in MASKS)
        slope = jax.grad(lambda shift: evidence.loss({"w": jnp.asarray(MASKS[0])}, {"w": shift}))(jnp.zeros(3))
        zero = jnp.zeros((), jnp.int32)
        return state, Info(one, {"w": two}, zero, zero, zero, three, slope[1])


def shown(batch_size=None, scale=1e-6) -> np.ndarray:
    data, _ = programs.line()
    fit = bp.fit_svi(
        jax.random.key(3), programs.linear_program(), data, num_steps=3, optimizer=optax.sgd(0.0), batch_size=batch_size,
        init_params={"w_auto_loc": jnp.asarray(LOC), "w_auto_scale": jnp.full(3, scale)}, sparsifier=Compare(), every=2,
        progress=False,
    )  # fmt: skip
    return np.array([fit.history[f"prune/{name}"][0] for name in ("density", "density/w", "evidence_gained", "readiness")])


def exact(rows=slice(None)) -> np.ndarray:
    """-log p(y | w) of all rows, as some of them estimate it, and its slope in a dead weight."""
    data, _ = programs.line()
    x, y = np.asarray(data.x, np.float64)[rows], np.asarray(data.y, np.float64)[rows]
    residuals = [y - x @ (LOC * mask) for mask in MASKS]
    nats = [0.5 * np.sum((r / programs.NOISE) ** 2 + np.log(2 * np.pi * programs.NOISE**2)) for r in residuals]
    return np.array([*nats, -x[:, 1] @ residuals[0] / programs.NOISE**2]) * (50 / len(y))


@pytest.mark.slow
def test_it_is_the_likelihood_of_all_rows() -> None:
    """Nothing of the prior, though the weight of 9 is far from it."""
    np.testing.assert_allclose(shown(), exact(), rtol=1e-4)


@pytest.mark.slow
def test_all_masks_are_judged_by_one_minibatch_and_one_draw() -> None:
    """Of a batch of one row: the residuals of three masks, and the slope, all belong to the same row."""
    found = shown(batch_size=1)
    errors = [np.abs(found / exact([row]) - 1).max() for row in range(50)]
    assert min(errors) < 1e-3 and sorted(errors)[1] > 1e-2
    spread = shown(scale=0.3)
    assert np.abs(spread / exact() - 1).max() > 0.01, "a posterior with spread is judged at a draw"


@pytest.mark.slow
def test_asking_changes_nothing_in_the_training() -> None:
    data, _ = programs.line()
    run = lambda **settings: bp.fit_svi(  # noqa: E731
        jax.random.key(0), programs.linear_program(), data, num_steps=6, batch_size=20, progress=False, **settings
    )
    np.testing.assert_array_equal(run().losses, run(sparsifier=Compare(), every=2).losses)
