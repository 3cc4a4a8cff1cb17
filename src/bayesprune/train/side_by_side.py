"""Many fits of one recipe as one vectorised program, on one device or spread over several."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, PyTree
from bayesprune.posteriors.params import cut
from bayesprune.train.batches import Batches
from bayesprune.train.kernel import evaluated
from bayesprune.train.loop import Loop
from bayesprune.train.processes import with_numbers
from bayesprune.train.progress import NoProgress
from bayesprune.train.result import DivergedError
from bayesprune.train.sites import Example, Sites, sites_of
from bayesprune.train.state import CHUNK, Carry, Recipe

# All fits are at the same step and the same place of their epoch: what says so has no axis of fits, so that the choice
# whether to shuffle anew stays one choice (vectorised, every step would shuffle).
_BATCHES = Batches(0, None, None, 0, 0)  # type: ignore[arg-type]
_CARRY = Carry(0, 0, 0, None, 0, _BATCHES, None)  # type: ignore[arg-type]


class SideBySide(NamedTuple):
    """Jitted functions of many fits: ``init(keys, data)``; ``run(carry, data, mask, num_steps)``, at most `CHUNK` steps, which
    gives the carry and losses (CHUNK, fits); ``constrain(params,
    opt_state)``, the parameters to return; ``sound(params)``: whether those of each fit are finite."""

    init: Callable[..., Any]
    run: Callable[..., Any]
    constrain: Callable[..., Any]
    sound: Callable[..., Any]


@functools.lru_cache(maxsize=16)
def side_by_side(recipe: Recipe, example: Example, shared: bool, mesh: Mesh | None = None) -> SideBySide:
    """The functions; one compilation for any number of steps. ``shared``: whether all fits have the same data.

    ``mesh``: of one axis, over whose devices the fits are spread; each computes its own, and none waits for another.
    """
    loop, rows = Loop(recipe, sites_of(recipe.program, example), example.num_rows), None if shared else 0
    step = jax.vmap(loop.step, in_axes=(_CARRY, rows, 0), out_axes=(_CARRY, 0))

    def run(carry: Carry, data: Dataset, mask: dict[str, Any], num_steps: jax.Array) -> tuple[Carry, jax.Array]:
        def body(index: jax.Array, state: tuple[Carry, jax.Array]) -> tuple[Carry, jax.Array]:
            carry, losses = state
            carry, loss = step(carry, data, mask)
            return carry, losses.at[index].set(loss)

        return jax.lax.fori_loop(0, num_steps, body, (carry, jnp.zeros((CHUNK, carry.rng_key.shape[0]))))

    def shown(params: dict[str, Any], opt_state: PyTree) -> dict[str, Any]:
        return loop.sites.constrain(evaluated(recipe.kernel, params, opt_state))

    init = _spread(jax.vmap(loop.init, in_axes=(0, rows), out_axes=_CARRY), mesh, (0, rows), _CARRY)
    run = _spread(run, mesh, (_CARRY, rows, 0, None), (_CARRY, 1))
    return SideBySide(
        jax.jit(by_one_thread(init)),
        jax.jit(by_one_thread(run), donate_argnums=0),
        jax.jit(jax.vmap(shown)),
        jax.jit(jax.vmap(functools.partial(_sound, loop.sites))),
    )


def _sound(sites: Sites, params: dict[str, Any]) -> jax.Array:
    """Whether the parameters of one fit are finite, both as they are and without their constraints."""
    leaves = jax.tree.leaves((params, sites.constrain(params)))
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()


def _spread(function: Callable[..., Any], mesh: Mesh | None, of_arguments: PyTree, of_results: PyTree) -> Callable[..., Any]:
    """The function on every device's own fits; where their axis is in arguments and results is said as `jax.vmap` has it."""
    if mesh is None:
        return function
    arguments, results = _specs(of_arguments, mesh), _specs(of_results, mesh)
    # What has no axis of fits, such as the step, is the same on every device, which JAX would ask to be proven.
    return jax.shard_map(function, mesh=mesh, in_specs=arguments, out_specs=results, check_vma=False)


def _specs(axes: PyTree, mesh: Mesh) -> Any:
    (name,) = mesh.axis_names
    spec = lambda axis: PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)  # noqa: E731
    return jax.tree.map(spec, axes, is_leaf=lambda axis: axis is None)


def check_even(mesh: Mesh, number: int, what: str, asked: str, axis: str) -> None:
    """Refuse a mesh that cannot hold as many fits on each device. ``what`` they are called, how ``asked`` for, and its axis."""
    if len(mesh.axis_names) != 1:
        raise ValueError(
            f"mesh has the axes {', '.join(mesh.axis_names)}, and {what} are spread over a single one: give "
            f"mesh=jax.make_mesh((jax.device_count(),), ('{axis}',)), or leave mesh out."
        )
    if number % mesh.size:
        raise ValueError(
            f"{asked} cannot be spread evenly over the {mesh.size} devices: make it a multiple of {mesh.size}, "
            f"or give a mesh of fewer, such as mesh=jax.make_mesh((2,), ('{axis}',), devices=jax.devices()[:2])."
        )


def over_devices(tree: PyTree, mesh: Mesh | None) -> Any:
    """Arrays whose first axis is that of the fits, each fit's on its own device."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, _specs(0, mesh)))


def at_home(tree: PyTree, mesh: Mesh | None) -> Any:
    """Arrays of fits on several devices, whole, on the default one, and free to go to others."""
    return tree if mesh is None else jax.tree.map(lambda leaf: with_numbers(np.asarray, leaf), tree)


def advance(
    fits: SideBySide, carry: Carry, data: Dataset, mask: dict[str, Any], first: int, last: int, kind: str, bar: NoProgress
) -> tuple[Carry, np.ndarray]:
    """From step ``first`` to ``last``, moving the ``bar``: the state, and losses (fits, steps).

    Raises `DivergedError` at the end of a chunk of steps with a loss, or parameters, that are not finite; ``kind``: what a
    fit is called there.
    """
    losses = []
    while first < last:
        taken = min(CHUNK, last - first)
        finite = jax.tree.map(jnp.copy, (carry.params, carry.opt_state))  # `run` takes its argument's memory over
        carry, chunk = fits.run(carry, data, mask, send(taken, np.int32))
        losses.append(np.asarray(chunk)[:taken].T)
        sound = np.isfinite(losses[-1]).all(axis=1) & np.asarray(fits.sound(carry.params))
        if not sound.all():
            raise _diverged(kind, first, losses[-1], sound, cut(fits.constrain(*finite), mask))
        bar.advance(taken, loss=float(losses[-1][:, -1].mean()), density=1.0)
        first += taken
    return carry, np.concatenate(losses, axis=1)


def _diverged(kind: str, first: int, losses: np.ndarray, sound: np.ndarray, params: dict[str, Any]) -> DivergedError:
    """``sound``: the fits whose last loss and parameters are finite; ``params``: of all, before this chunk of steps."""
    lost = ~np.isfinite(losses)
    which, of_loss = np.flatnonzero(~sound), bool(lost.any())
    step = first + (int(lost.any(0).argmax()) + 1 if of_loss else losses.shape[1])
    return DivergedError(
        f"the {'loss' if of_loss else 'parameters'} of {kind}(s) {which.tolist()} stopped being finite at step {step}: "
        "lower the learning rate (a sampler: step_size), or clip gradients by optax.clip_by_global_norm.",
        step=step,
        site="obs",
        params=params,
    )
