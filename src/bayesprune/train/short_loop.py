"""Steps on the slices of the weight arrays that are in use, from whole arrays to whole arrays, in one program.

The slices' parameters and the optimiser's arrays of them are taken out, trained, and put back; what is left out is dead, and
keeps the numbers that it had. Nobody outside sees anything but whole arrays. Why a fit cannot be trained so is said at the
door, by a trial of a network with half of its units.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Wrapped
from jax.typing import ArrayLike

from bayesprune.core.keys import abstract_key
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, Mask, Params, PyTree, Renewing, Weighing
from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import MeanFieldELBO, Single, Slices
from bayesprune.model.local import LocalELBO
from bayesprune.model.short_program import cut_short, slices_in_use
from bayesprune.model.transforms.parts import UnfitError, short_shape
from bayesprune.posteriors.params import stems
from bayesprune.prune.needs import needs_of
from bayesprune.train.kernel import Kernel, asks_value
from bayesprune.train.kernels.optimizer import Optax
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


_MASKED = "Use storage='masked'."
_SIZES = (1e-3, 1.0, 1e3)  # of a trial's gradients
_LONGEST = 64  # its steps where an optimiser waits, as those that gather do


def why_not(recipe: Recipe, example: Example) -> str:
    """The reason, with the remedy; "" where there is none."""
    program, needs = recipe.program, needs_of(recipe.sparsifier)
    if not isinstance(program, BNN):
        return f"a program written by hand does not show which slices of its arrays go together. {_MASKED}"
    for part in (program.prior, program.family):
        if not type(part).__module__.startswith("bayesprune."):
            return f"{type(part).__name__}, written elsewhere, may go by the shapes of whole arrays. {_MASKED}"
    name = type(recipe.sparsifier).__name__
    if isinstance(recipe.sparsifier, Renewing) or needs.chain or needs.constant_counts:
        return f"{name} brings weights back, which have no place in arrays that were cut short. {_MASKED[:-1]}, or 'active'."
    if isinstance(recipe.sparsifier, Weighing):
        return f"{name} sets the decay of single weights in whole arrays. {_MASKED}"
    if recipe.mesh is not None:
        return f"mesh= lays whole arrays out over devices. {_MASKED}"
    if type(recipe.elbo) not in (MeanFieldELBO, LocalELBO):
        return (
            f"estimator={type(recipe.elbo).__name__}() draws noise that is not known by its place in whole arrays. Take "
            "'weight' or 'local', or storage='masked'."
        )
    slices = slices_in_use(program, _half(program))
    if not slices:
        return f"no axis of its arrays belongs to units. {_MASKED}"
    return _of_program(recipe, example, slices) or _of_kernel(recipe.kernel, sites_of(program, example).params, slices)


def _half(bnn: BNN) -> dict[str, np.ndarray]:
    """A mask in which every other unit is dead."""
    units, mask = bnn.units, {}
    for spec in bnn.layout:
        if spec.prunable:
            site = str(spec.path)
            even = [of % 2 <= 0 for of in (units.producers[site], units.consumers[site])]
            mask[site] = np.array(np.broadcast_to(even[0] & even[1], spec.shape))
            mask[site][(units.producers[site] < 0) & (units.consumers[site] < 0)] = True
    return mask


def _of_program(recipe: Recipe, example: Example, slices: Slices) -> str:
    """Whether the parameters of a network with half of its units are slices of those of the whole one."""
    whole = sites_of(recipe.program, example).params
    if any(name.endswith("_logit") for name in whole):
        return f"a weight's gate draws numbers that are not known by their place in whole arrays. {_MASKED}"
    short = short_recipe(recipe, slices)
    prior = type(getattr(recipe.program, "prior", None)).__name__
    message = f"{prior} has numbers for units, or arrays, of its own. {_MASKED}"
    try:
        found = sites_of(short.program, example).params
        traced(short, found, example)
    except UnfitError as error:
        return f"in this network {error} {_MASKED}"
    except (TypeError, ValueError):
        return message
    return message if _shapes(found) != _shapes(_cut(whole, slices)) else ""


def traced(recipe: Recipe, params: Params, example: Example) -> None:
    """Look through the loss of two rows: `UnfitError` and others are for what cannot be done on parts of arrays."""
    program, keywords = recipe.program, dict(recipe.keywords)

    def loss(params: Params, rng_key: jax.Array, data: Dataset) -> Any:
        return recipe.elbo.loss(rng_key, params, program.model, program.guide, data.x, data.y, **keywords)

    jax.eval_shape(loss, params, abstract_key(), example.abstract(2))


def _cut(arrays: Params, slices: Slices) -> Params:
    """Shapes of the slices of abstract arrays."""
    known = {site: (sizes, kept) for site, sizes, kept in slices}
    owned = stems(arrays, known)
    return {
        name: jax.ShapeDtypeStruct(short_shape(*known[owned[name]]), leaf.dtype) if name in owned else leaf
        for name, leaf in arrays.items()
    }


def _shapes(tree: PyTree) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)


def _of_kernel(kernel: Kernel, params: Params, slices: Slices) -> str:
    """Whether an optimiser moves every entry as if the dead ones, whose gradient is zero, were not there."""
    name = "this one" if isinstance(kernel, Optax) else type(kernel).__name__
    message = (
        f"the optimizer has to treat every entry alone, which {name} does not, as LAMB and Adafactor: dead weights would be "
        "missed. Give another, or storage='masked'."
    )
    if not isinstance(kernel, Optax) and type(kernel).__module__ != "bayesprune.train.kernels.lookahead":
        return message
    try:
        whole, short = (
            jax.eval_shape(lambda p: kernel.moments(kernel.init(p)), tree) for tree in (params, _cut(params, slices))
        )
        cut = {kind: _cut(arrays, slices) for kind, arrays in whole.items()}
        if _shapes(short) != _shapes(cut):
            return message
        return "" if all(_alike(kernel, params, axis, slices) for axis in (0, -1)) else message
    except Exception:  # of whatever is not a plain function of its arrays
        return message


def _alike(kernel: Kernel, params: Params, axis: int, slices: Slices) -> bool:
    """Whether little arrays with a dead slice move as those without it: in three steps, or in as many as it takes to move.

    Parameters are small, so that steps of a low rate are seen, and gradients of several sizes, for limits on them.
    """
    owned = stems(params, {site for site, _, _ in slices})
    rng = np.random.default_rng(0)
    size = 4
    given = {name: np.asarray(1e-3 * rng.normal(size=(size,) * leaf.ndim), leaf.dtype) for name, leaf in params.items()}
    short = lambda tree: {n: np.delete(v, size - 1, axis) if n in owned else v for n, v in tree.items()}  # noqa: E731
    more: dict[str, Any] = {"value": jnp.ones(()), "value_fn": lambda _: jnp.ones(())} if asks_value(kernel) else {}

    @jax.jit
    def step(number: ArrayLike, grads: Params, params: Params, state: PyTree) -> tuple[Params, PyTree]:
        return kernel.step(jax.random.key(number), grads, params, state, **more)

    left, right = ((tree, jax.jit(kernel.init)(tree)) for tree in (given, short(given)))
    for number in range(_LONGEST):
        grads = {}
        for name, value in given.items():
            grads[name] = np.asarray(_SIZES[number % len(_SIZES)] * rng.normal(size=value.shape), value.dtype)
            if name in owned:
                np.moveaxis(grads[name], axis, 0)[-1] = 0
        left, right = step(number, grads, *left), step(number, short(grads), *right)
        found = short(jax.device_get(left[0]))
        moved = {name: np.asarray(value, float) - short(given)[name] for name, value in right[0].items()}
        for name, value in right[0].items():
            rounding = 4 * float(jnp.finfo(value.dtype).eps) * np.abs(value).max()
            if not np.abs(found[name] - np.asarray(value, float)).max() <= 1e-3 * np.abs(moved[name]).max() + rounding:
                return False
        if number + 1 >= len(_SIZES) and all(moved[name].any() for name in owned):
            break
    return True
