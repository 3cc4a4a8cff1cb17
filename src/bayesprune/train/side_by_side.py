"""Many fits of one recipe as one vectorised program."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset
from bayesprune.posteriors.params import cut
from bayesprune.train.batches import Batches
from bayesprune.train.diverged import DivergedError
from bayesprune.train.loop import CHUNK, Carry, Loop, Recipe
from bayesprune.train.sites import Example, sites_of

# All fits stand at the same step and the same place of their epoch: what says so has no axis of fits, so that the choice
# whether to shuffle anew stays one choice (vectorised, every step would shuffle).
_BATCHES = Batches(0, None, None, 0, 0)  # type: ignore[arg-type]
_CARRY = Carry(0, 0, 0, None, 0, _BATCHES, None)  # type: ignore[arg-type]


class SideBySide(NamedTuple):
    """Jitted functions of many fits: ``init(keys, data)``; ``run(carry, data, mask, num_steps)``, at most `CHUNK` steps, which
    gives the carry and losses (CHUNK, fits); ``constrain(params)``."""

    init: Callable[..., Any]
    run: Callable[..., Any]
    constrain: Callable[..., Any]


@functools.lru_cache(maxsize=16)
def side_by_side(recipe: Recipe, example: Example, shared: bool) -> SideBySide:
    """The functions; one compilation for any number of steps. ``shared``: whether all fits have the same data."""
    loop, rows = Loop(recipe, sites_of(recipe.program, example), example.num_rows), None if shared else 0
    step = jax.vmap(loop.step, in_axes=(_CARRY, rows, 0), out_axes=(_CARRY, 0))

    def run(carry: Carry, data: Dataset, mask: dict[str, Any], num_steps: jax.Array) -> tuple[Carry, jax.Array]:
        def body(index: jax.Array, state: tuple[Carry, jax.Array]) -> tuple[Carry, jax.Array]:
            carry, losses = state
            carry, loss = step(carry, data, mask)
            return carry, losses.at[index].set(loss)

        return jax.lax.fori_loop(0, num_steps, body, (carry, jnp.zeros((CHUNK, carry.rng_key.shape[0]))))

    init = jax.vmap(loop.init, in_axes=(0, rows), out_axes=_CARRY)
    return SideBySide(
        jax.jit(by_one_thread(init)), jax.jit(by_one_thread(run), donate_argnums=0), jax.jit(jax.vmap(loop.sites.constrain))
    )


def advance(
    fits: SideBySide, carry: Carry, data: Dataset, mask: dict[str, Any], first: int, last: int, kind: str, bar: Any
) -> tuple[Carry, np.ndarray]:
    """From step ``first`` to ``last``, moving the ``bar``: the state, and losses (fits, steps).

    Raises `DivergedError` at the end of a chunk of steps with a loss that is not finite; ``kind``: what a fit is called there.
    """
    losses = []
    while first < last:
        taken = min(CHUNK, last - first)
        carry, chunk = fits.run(carry, data, mask, jnp.asarray(taken, jnp.int32))
        losses.append(np.asarray(chunk[:taken]).T)
        if not np.isfinite(losses[-1][:, -1]).all():
            raise _diverged(kind, first, losses[-1], cut(fits.constrain(carry.params), mask))
        bar.advance(taken, loss=float(losses[-1][:, -1].mean()), density=1.0)
        first += taken
    return carry, np.concatenate(losses, axis=1)


def _diverged(kind: str, first: int, losses: np.ndarray, params: dict[str, Any]) -> DivergedError:
    lost = ~np.isfinite(losses)
    which = np.flatnonzero(lost.any(1))
    step = first + int(lost.any(0).argmax()) + 1
    return DivergedError(
        f"the loss of {kind}(s) {which.tolist()} stopped being finite at step {step}: lower the learning rate (a sampler: "
        "step_size), or clip gradients by optax.clip_by_global_norm.",
        step=step,
        site="obs",
        params=params,
    )
