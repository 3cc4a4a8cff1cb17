"""Steps on the slices of the weight arrays that are in use, from whole arrays to whole arrays, in one program.

The slices' parameters and the optimiser's arrays of them are taken out, trained, and put back; what is left out is dead, and
keeps the numbers that it had. Nobody outside sees anything but whole arrays.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Mask, Params
from bayesprune.model.elbo import MeanFieldELBO, Slices
from bayesprune.model.local import LocalELBO
from bayesprune.model.short_program import cut_short
from bayesprune.posteriors.params import stems
from bayesprune.train.loop import Loop
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Carry, Data, Jitted, Recipe


def short_recipe(recipe: Recipe, slices: Slices) -> Recipe:
    """The recipe of arrays of which only these slices are there, with the noise that they have in whole arrays."""
    assert isinstance(recipe.elbo, MeanFieldELBO)
    # Noise of outputs follows a weight through what becomes of it: there the weights have to stay as they are.
    program = cut_short(recipe.program, slices, strict=isinstance(recipe.elbo, LocalELBO))  # type: ignore[arg-type]
    return replace(recipe, program=program, elbo=recipe.elbo.of_slices(slices))


class ShortLoop:
    """The loop of one recipe on slices of its arrays."""

    def __init__(self, recipe: Recipe, example: Example, slices: Slices) -> None:
        self.slices, self.kernel = slices, recipe.kernel
        short = short_recipe(recipe, slices)
        self.loop = Loop(short, sites_of(short.program, example), example.num_rows)

    def run(self, carry: Carry, data: Data, mask: Mask, num_steps: jax.Array) -> tuple[Carry, jax.Array, jax.Array]:
        """As `train.loop.Loop.run`, of whole arrays."""
        short, losses, done = self.loop.run(self.taken(carry), data, self.of_mask(mask), num_steps)
        return self.put(carry, short), losses, done

    def of_mask(self, mask: Mask) -> Mask:
        """The slices of a mask."""
        return mask | {site: _take(mask[site], kept) for site, _, kept in self.slices}

    def taken(self, carry: Carry) -> Carry:
        """The slices of a state."""
        moments = {kind: self._taken(arrays) for kind, arrays in self.kernel.moments(carry.opt_state).items()}
        opt_state = self.kernel.with_moments(carry.opt_state, moments)
        return carry._replace(params=self._taken(carry.params), opt_state=opt_state)

    def put(self, whole: Carry, short: Carry) -> Carry:
        """The state of slices put in its place in that of whole arrays."""
        old, new = (self.kernel.moments(carry.opt_state) for carry in (whole, short))
        moments = {kind: self._put(old[kind], arrays) for kind, arrays in new.items()}
        opt_state = self.kernel.with_moments(short.opt_state, moments)
        return short._replace(params=self._put(whole.params, short.params), opt_state=opt_state)

    def _owned(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The slices of those arrays that have the shape of their site."""
        known = {site: (sizes, kept) for site, sizes, kept in self.slices}
        return {name: known[site][1] for name, site in stems(arrays, known).items()}

    def _taken(self, arrays: Mapping[str, Any]) -> Params:
        return dict(arrays) | {name: _take(arrays[name], kept) for name, kept in self._owned(arrays).items()}

    def _put(self, whole: Mapping[str, Any], short: Mapping[str, Any]) -> Params:
        owned = self._owned(whole)
        return dict(short) | {name: whole[name].at[_grid(whole[name], kept)].set(short[name]) for name, kept in owned.items()}


def _take(array: jax.Array, kept: tuple[tuple[int, ...] | None, ...]) -> jax.Array:
    for axis, index in enumerate(kept):
        array = array if index is None else jnp.take(array, np.array(index), axis, mode="clip")
    return array


def _grid(array: jax.Array, kept: tuple[tuple[int, ...] | None, ...]) -> tuple[np.ndarray, ...]:
    return np.ix_(*(np.arange(size) if index is None else index for size, index in zip(array.shape, kept, strict=True)))


@functools.lru_cache(maxsize=16)
def compile_short(recipe: Recipe, example: Example, slices: Slices) -> Jitted:
    """`ShortLoop.run`, jitted once for equal recipes and slices."""
    return jax.jit(by_one_thread(ShortLoop(recipe, example, slices).run), donate_argnums=0)
