"""Acts that rest after refusals: by hand, and in fits whose bound refuses all."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.core import masks
from bayesprune.core.types import Needs, SparseState
from bayesprune.prune.bookkeeping import make_info
from bayesprune.train.rests import rests


def acts_of(outcomes: list[tuple[float, float]], most: int, every: int = 10, last: int = 400) -> list[int]:
    """The steps of the acts that a fit takes, whose acts propose and cut by turns what ``outcomes`` says."""
    history: dict[str, list[float]] = {}
    for step in range(every, last + 1, every):
        if not rests(history, step, every, most):
            count = len(history.get("prune/step", ()))
            row = {"step": step, **dict(zip(("num_proposed", "num_pruned"), outcomes[count % len(outcomes)], strict=True))}
            for name, value in row.items():
                history.setdefault(f"prune/{name}", []).append(value)
    return [int(step) for step in history["prune/step"]]


REFUSED, TAKEN, UNSEEN, WAITS = (5, 0), (5, 2), (np.nan, 0), (0, 0)


def test_the_wait_doubles_with_each_refusal_in_a_row() -> None:
    assert acts_of([REFUSED], most=4)[:8] == [10, 20, 40, 80, 120, 160, 200, 240]
    assert acts_of([REFUSED], most=16) == [10, 20, 40, 80, 160, 320]
    assert acts_of([REFUSED], most=1) == list(range(10, 401, 10))


@pytest.mark.parametrize("outcome", [TAKEN, UNSEEN, WAITS])
def test_only_refusals_make_acts_rest(outcome: tuple[float, float]) -> None:
    assert acts_of([outcome], most=8) == list(range(10, 401, 10))


def test_what_is_taken_begins_anew() -> None:
    assert acts_of([REFUSED, REFUSED, REFUSED, TAKEN], most=8)[:9] == [10, 20, 40, 80, 90, 100, 120, 160, 170]


@dataclass(frozen=True)
class ProposeTheUseful:
    """Asks for weights that the data hold: the bound refuses them."""

    needs = Needs()

    def init(self, rng_key, posterior) -> SparseState:
        return SparseState(masks.full_like(posterior), (), jnp.zeros((), jnp.int32))

    def step(self, rng_key, evidence, state):
        gains = jnp.array([-1.0, -1.0, 1.0])
        new = state._replace(mask={"w": state.mask["w"] & (gains < 0)}, step=state.step + 1)
        return new, make_info(state.mask, new, evidence_gain={"w": gains})


def steps_of(**settings) -> list[int]:
    """The acts of a fit at weights that the data have put where they are."""
    data, _ = programs.line()
    x, y = np.asarray(data.x, np.float64), np.asarray(data.y, np.float64)
    start = {"w_auto_loc": jnp.asarray(np.linalg.lstsq(x, y, rcond=None)[0], float), "w_auto_scale": jnp.full(3, 1e-3)}
    fit = bp.fit_svi(
        jax.random.key(3), programs.linear_program(), data,
        **{"num_steps": 20, "optimizer": optax.sgd(0.0), "init_params": start, "progress": False} | settings,
        sparsifier=ProposeTheUseful(),
    )  # fmt: skip
    assert (fit.history["prune/num_pruned"] == 0).all() and (fit.history["prune/num_proposed"] == 1).all()
    return list(fit.history["prune/step"])


def test_refused_acts_of_a_fit_rest() -> None:
    """By the course's own rhythm; one that is given stands."""
    course = bp.courses.Standard(every=1, first=0.0, last=1.0, rests=4)
    assert steps_of(course=course) == [1, 2, 4, 8, 12, 16]
    assert steps_of(course=course, every=5) == [5, 10, 15]


@pytest.mark.slow
def test_a_resumed_fit_rests_as_long(tmp_path) -> None:
    course = bp.courses.Standard(every=1, first=0.0, last=1.0, rests=4)
    kept = {"course": course, "checkpoint": str(tmp_path), "checkpoint_every": 3}
    assert steps_of(callbacks=[lambda moment: moment.step == 9], callback_every=9, **kept) == [1, 2, 4, 8]
    assert steps_of(**kept) == [1, 2, 4, 8, 12, 16]
