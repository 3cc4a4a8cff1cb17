"""Where a fit starts from: parameters of an earlier one, a mask, a sparsifier's first state."""

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import seed
from numpyro.infer.autoguide import AutoGuide

from bayesprune.core import trees
from bayesprune.core.checks import check_mask, unknown_name
from bayesprune.core.masks import gone
from bayesprune.core.send import send, send_all
from bayesprune.core.streams import OfAFit, stream
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, Mask, Renewing, SparseState, Sparsifier, Weighing
from bayesprune.model.prior import check_fixed_units
from bayesprune.model.program import Program, Trainable
from bayesprune.posteriors.params import UNIT, check_units, is_meaning
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import check_needs, needs_of, nothing_to_prune
from bayesprune.train.alike import state_law
from bayesprune.train.continuation import Origin, go_on
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.loop import compile_loop
from bayesprune.train.renewal import check_chain, check_decay, check_moments
from bayesprune.train.sites import Example, Sites
from bayesprune.train.state import Carry, Compiled, Recipe
from bayesprune.train.storage import make_storage


def set_up_guide(rng_key: jax.Array, program: Trainable, data: Dataset) -> None:
    """Let a NumPyro autoguide look at its model once, outside of any compiled function: it remembers what it saw."""
    if isinstance(program.guide, AutoGuide) and program.guide.prototype_trace is None:
        by_one_thread(seed(program.guide, rng_key))(data.x, data.y)


class Given(NamedTuple):
    """What a fit is given to start from, and how its weights are kept; see `fit_svi`."""

    init_params: dict[str, Any] | None
    mask: Any
    storage: str
    init: Origin | None = None

    @property
    def params(self) -> dict[str, Any] | None:
        """The parameters that it begins with; None: its own."""
        return self.init_params if self.init is None else self.init.params

    def decisive(self) -> dict[str, Any]:
        """What of it decides a fit's result, by the names of `fit_svi`'s arguments; a fit from nothing does not say so."""
        given = self._asdict()
        return given | {"init": self.init.decisive()} if self.init is not None else {n: given[n] for n in given if n != "init"}


def start(
    recipe: Recipe, rng_key: jax.Array, data: WholeFeed | Stream, given: Given
) -> tuple[Compiled, Carry, SparseState, dict[str, Any]]:
    """The start of a fit, from what was given: the loop over weights as they are kept, and the first states, so kept.

    Also the entries that say what the parameters mean, where the program does not say it by itself.
    """
    if isinstance(recipe.sparsifier, Weighing):
        check_decay(recipe.kernel, recipe.sparsifier)
    if needs_of(recipe.sparsifier).chain:
        check_chain(recipe.kernel, recipe.sparsifier)
    program, loop = recipe.program, compile_loop(recipe, data.example)
    init_params, mask, origin = given.init_params, given.mask, given.init
    plain = mask is None and isinstance(recipe.sparsifier, KeepAll)
    with compiled_ahead(loop, rng_key, data) if plain and origin is None else contextlib.nullcontext():
        first, known = loop.init(rng_key, data.first), program.meanings(data.shown)
    if origin is not None:
        origin.check_names(set(first.params | first.mutable))
        carry = start_params(first, origin.params, loop, "init.params")
        origin.check_units(program.describe(loop.constrain(carry.params), data.shown))
        mask = origin.narrowed(mask)
    else:
        carry = start_params(first, init_params, loop)
        if init_params is not None and any(name.endswith(UNIT) for name in init_params):
            nodes = program.read(loop.constrain(carry.params) | known)
            if isinstance(program, Program):  # its units are all 1
                check_units(nodes, init_params)
            else:
                check_fixed_units(cast(Any, program).prior, cast(Any, program).layout, nodes, init_params)
    if init_params is not None and mask is None:
        mask = dead_so_far(program.read(loop.constrain(first.params) | init_params | known))
    if mask is None and plain:
        sparse = recipe.sparsifier.init(rng_key, {})  # which reads neither: nothing is compiled to show it a posterior
    else:
        sparse = start_mask(rng_key, recipe.sparsifier, program.read(loop.constrain(carry.params) | known), mask, program)
    loop, carry, sparse = start_storage(given.storage, loop, recipe, carry, sparse, data.example)
    if origin is not None:
        law = state_law(recipe.kernel, first.params)
        carry = go_on(carry, origin, recipe.batch_size, data.example.num_rows, law, recipe.kernel)
    return loop, carry, sparse, known


def start_params(
    carry: Carry, init_params: dict[str, Any] | None, loop: Compiled | Sites, argument: str = "init_params"
) -> Carry:
    """Put given parameters in the place of the initialised ones.

    ``loop``: whatever knows the way to the parameters' supports and back. A pruned weight's scale of exactly zero has no
    unconstrained form: it takes the initial one, which its mask hides.
    """
    if init_params is None:
        return carry
    initial = loop.constrain(carry.params)
    params, mutable = dict(initial), dict(carry.mutable)
    for name, value in init_params.items():
        if is_meaning(name):
            continue  # says what the parameters mean, and this fit says it itself
        if name in mutable and isinstance(mutable[name], dict):
            mutable[name] = send_all(value)
        elif name in mutable:  # a frozen parameter
            mutable[name] = trees.filled(mutable[name], send(value, mutable[name].dtype), f"{argument}[{name!r}]")
        elif name not in params:
            raise unknown_name(f"parameter of {argument}", name, params)
        elif not jax.tree_util.all_leaves([params[name]]):
            # Of placeholders without arrays there is nothing to take, and files leave them out.
            params[name] = send_all(trees.filled(params[name], value, f"{argument}[{name!r}]"))
        elif jnp.shape(value) != jnp.shape(params[name]):
            raise ValueError(
                f"{argument}[{name!r}] has shape {jnp.shape(value)}, the program's has {jnp.shape(params[name])}: "
                "it comes from another network."
            )
        else:
            new = send(value, params[name].dtype)
            # Beside its loc: a network's own parameter may have such a name, and be 0.
            spread = name.endswith("_scale") and f"{name.removesuffix('scale')}loc" in params
            params[name] = _living_scale(new, params[name]) if spread else new
    # Copies: the loop takes its first state's memory over, and the given arrays belong to the caller.
    return carry._replace(params=jax.tree.map(jnp.copy, loop.unconstrain(params)), mutable=jax.tree.map(jnp.copy, mutable))


@jax.jit
def _living_scale(given: jax.Array, own: jax.Array) -> jax.Array:
    """A scale of zero, a dead weight's, is no start of one."""
    return jnp.where(given == 0, own, given)


def dead_so_far(nodes: dict[str, Any]) -> dict[str, Any]:
    """The mask of parameters that were pruned before, at loc = scale = 0: of the sites with such weights.

    Points have scale 0 throughout: those of an array that is zero everywhere are taken for a start at zero.
    """
    points = not any(bool(jnp.any(node.scale != 0)) for node in nodes.values())
    alive = {site: ~gone(node) for site, node in nodes.items()}
    pruned = {site: mask for site, mask in alive.items() if not bool(mask.all()) and (bool(mask.any()) or not points)}
    if pruned:
        count = sum(int((~mask).sum()) for mask in pruned.values())
        warnings.warn(
            f"init_params hold {count} weights at loc = scale = 0, pruned before, and no mask= says what is to become of them: "
            "they stay dead. Give the mask that goes with the parameters, or mask={} to train all of them again.",
            UserWarning,
            stacklevel=5,  # the caller of `fit_svi`
        )
    return pruned


def start_mask(
    rng_key: jax.Array, sparsifier: Sparsifier, posterior: dict[str, Any], mask: Mask | None, program: Trainable | None = None
) -> SparseState:
    """The sparsifier's first state, under the mask that was given."""
    if not posterior and not isinstance(sparsifier, KeepAll):
        raise nothing_to_prune("sparsifier has", program)
    check_needs(sparsifier, posterior, program)
    state = sparsifier.init(stream(rng_key, OfAFit.SPARSIFIER), posterior)
    if mask is None:
        return state
    given = check_mask(mask, {site: trees.shape(node) for site, node in posterior.items()})
    if needs_of(sparsifier).first_counts:
        return state._replace(mask=_of_same_counts(given, state.mask, sparsifier))
    return state._replace(mask=state.mask | {s: given[s] & state.mask[s] if s in state.mask else given[s] for s in given})


def _of_same_counts(given: dict[str, Any], own: dict[str, Any], sparsifier: Sparsifier) -> dict[str, Any]:
    """The given masks in the place of the sparsifier's first ones, whose numbers of alive weights they must have."""
    new = own | given
    counts = lambda mask: {site: int(alive.sum()) for site, alive in mask.items()}  # noqa: E731
    have, wanted = counts(new), counts(own)
    if sum(have.values()) != sum(wanted.values()) or (needs_of(sparsifier).constant_counts and have != wanted):
        raise ValueError(
            f"mask= has {have} weights alive, and {type(sparsifier).__name__} of these settings keeps {wanted}: give a mask of "
            "those numbers, or the density that the mask has."
        )
    return new


def start_storage(
    name: str, loop: Compiled, recipe: Recipe, carry: Carry, sparse: SparseState, example: Example
) -> tuple[Compiled, Carry, SparseState]:
    """The loop over weights kept as ``name`` has it, and the first states so kept; see `make_storage`."""
    if isinstance(recipe.sparsifier, Renewing):
        check_moments(recipe.kernel, carry.params)
    storage = make_storage(name, recipe.sparsifier, sparse.mask)
    if storage == recipe.storage:
        return loop, carry, sparse
    loop = compile_loop(dataclasses.replace(recipe, storage=storage), example)
    kept = storage.keep_mask(sparse.mask)
    return loop, loop.keep(carry, kept), sparse._replace(mask=kept)


@contextlib.contextmanager
def compiled_ahead(loop: Compiled, rng_key: jax.Array, data: WholeFeed | Stream) -> Iterator[None]:
    """Compile ``loop.run`` without a mask, for the state that ``loop.init`` will give, until the block ends and it is done.

    The two take XLA most of the time of a first fit. `jax.jit` finds what was compiled so, if the arrays are as those of
    ``loop.init`` are: committed to no device; others are compiled when they are called for.
    """
    if any(leaf.committed for leaf in jax.tree.leaves((rng_key, data.first)) if isinstance(leaf, jax.Array)):
        yield
        return
    carry = loop.init.eval_shape(rng_key, data.first)  # type: ignore[attr-defined]
    steps = loop.run.lower(carry, data.alike, {}, send(0, np.int32))
    with ThreadPoolExecutor(1, "bayesprune-compile") as thread:
        compiled = thread.submit(steps.compile)
        yield
        compiled.result()
