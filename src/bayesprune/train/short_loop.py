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
from jax.stages import Wrapped

from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Mask, Params
from bayesprune.model.elbo import MeanFieldELBO, Single, Slices
from bayesprune.model.local import LocalELBO
from bayesprune.model.short_program import cut_short
from bayesprune.posteriors.params import stems
from bayesprune.train.loop import Loop
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Carry, Data, Recipe


def short_recipe(recipe: Recipe, slices: Slices, single: Single = ()) -> Recipe:
    """The recipe of arrays of which only these slices are there, or entries, with the noise that they have in whole arrays."""
    assert isinstance(recipe.elbo, MeanFieldELBO)
    # Noise of outputs follows a weight through what becomes of it: there the weights have to stay as they are.
    strict = isinstance(recipe.elbo, LocalELBO)
    program = cut_short(recipe.program, slices, strict, single)  # type: ignore[arg-type]
    return replace(recipe, program=program, elbo=recipe.elbo.of_slices(slices, single))


class ShortLoop:
    """The loop of one recipe on slices of its arrays, and on single entries of some."""

    def __init__(self, recipe: Recipe, example: Example, slices: Slices, single: Single = ()) -> None:
        self.entries, self.kernel = dict(single), recipe.kernel
        self.slices = {site: kept for site, _, kept in slices if site not in self.entries}
        short = short_recipe(recipe, slices, single)
        self.loop = Loop(short, sites_of(short.program, example), example.num_rows)

    def run(self, carry: Carry, data: Data, mask: Mask, num_steps: jax.Array) -> tuple[Carry, jax.Array, jax.Array]:
        """As `train.loop.Loop.run`, of whole arrays."""
        short, losses, done = self.loop.run(self.taken(carry), data, self.of_mask(mask), num_steps)
        return self.put(carry, short), losses, done

    def of_mask(self, mask: Mask) -> Mask:
        """The slices of a mask, and the entries."""
        return mask | {site: self._part(site, mask[site]) for site in (*self.slices, *self.entries)}

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

    def _owned(self, arrays: Mapping[str, Any]) -> dict[str, str]:
        """Parameter -> site, of those that have the shape of a site that is not whole."""
        return stems(arrays, {*self.slices, *self.entries})

    def _part(self, site: str, array: jax.Array) -> jax.Array:
        return self.entries[site].taken(array) if site in self.entries else _take(array, self.slices[site])

    def _back(self, site: str, whole: jax.Array, part: jax.Array) -> jax.Array:
        if site in self.entries:
            return self.entries[site].put(whole, part)
        return whole.at[_grid(whole, self.slices[site])].set(part)

    def _taken(self, arrays: Mapping[str, Any]) -> Params:
        return dict(arrays) | {name: self._part(site, arrays[name]) for name, site in self._owned(arrays).items()}

    def _put(self, whole: Mapping[str, Any], short: Mapping[str, Any]) -> Params:
        return dict(short) | {name: self._back(site, whole[name], short[name]) for name, site in self._owned(whole).items()}


def _take(array: jax.Array, kept: tuple[tuple[int, ...] | None, ...]) -> jax.Array:
    for axis, index in enumerate(kept):
        array = array if index is None else jnp.take(array, np.array(index), axis, mode="clip")
    return array


def _grid(array: jax.Array, kept: tuple[tuple[int, ...] | None, ...]) -> tuple[np.ndarray, ...]:
    return np.ix_(*(np.arange(size) if index is None else index for size, index in zip(array.shape, kept, strict=True)))


@functools.lru_cache(maxsize=16)
def compile_short(recipe: Recipe, example: Example, slices: Slices, single: Single = ()) -> Wrapped:
    """`ShortLoop.run`, jitted once for equal recipes and slices."""
    return jax.jit(by_one_thread(ShortLoop(recipe, example, slices, single).run), donate_argnums=0)
