"""Where a fit starts from: parameters of an earlier one, a mask, a sparsifier's first state."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.handlers import seed, trace
from numpyro.infer.autoguide import AutoGuide

from bayesprune.core import trees
from bayesprune.core.checks import check_mask, unknown_name
from bayesprune.core.types import Dataset, MeanField, SparseState, SpikeSlab
from bayesprune.infer.compiled import Carry, Compiled, Recipe, compile_loop
from bayesprune.infer.renewal import check_optimizer
from bayesprune.infer.result import KeepAll
from bayesprune.infer.sites import Example, Sites
from bayesprune.infer.storage import make_storage
from bayesprune.model.bnn import BNN
from bayesprune.model.divergence import read_gaussian
from bayesprune.model.select import everything
from bayesprune.prune.read import read


@functools.lru_cache(maxsize=32)
def reader(program: Any) -> Callable[[dict[str, Any]], dict[str, MeanField | SpikeSlab]]:
    """How the posterior of the weights that may be pruned is read from parameters; one function for each program."""
    if isinstance(program, BNN):
        return program.read
    prunable = getattr(program, "prunable", everything)
    return lambda params: {site: node for site, node in read(params).items() if prunable(site, jnp.shape(node.loc))}


def set_up_guide(rng_key: jax.Array, program: Any, data: Dataset) -> None:
    """Let a NumPyro autoguide look at its model once, outside of any compiled function: it remembers what it saw."""
    if isinstance(program.guide, AutoGuide) and program.guide.prototype_trace is None:
        seed(program.guide, rng_key)(data.x, data.y)


def start_params(carry: Carry, init_params: dict[str, Any] | None, loop: Compiled | Sites) -> Carry:
    """Put given parameters in the place of the initialised ones.

    ``loop``: whatever knows the way to the parameters' supports and back. A pruned weight's scale of exactly zero has no
    unconstrained form: it takes the initial one, which its mask hides.
    """
    if init_params is None:
        return carry
    initial = loop.constrain(carry.params)
    params, mutable = dict(initial), dict(carry.mutable)
    for name, value in init_params.items():
        if name in mutable:
            mutable[name] = jax.tree.map(jnp.asarray, value)
        elif name not in params:
            raise unknown_name("parameter of init_params", name, params)
        elif jnp.shape(value) != jnp.shape(params[name]):
            raise ValueError(
                f"init_params[{name!r}] has shape {jnp.shape(value)}, the program's has {jnp.shape(params[name])}: "
                "it comes from another network."
            )
        elif not isinstance(value, dict):
            new = jnp.asarray(value, params[name].dtype)
            params[name] = jnp.where(new == 0, params[name], new) if name.endswith("_scale") else new
    # Copies: the loop takes its first state's memory over, and the given arrays belong to the caller.
    return carry._replace(params=jax.tree.map(jnp.copy, loop.unconstrain(params)), mutable=jax.tree.map(jnp.copy, mutable))


def start_mask(
    rng_key: jax.Array,
    sparsifier: Any,
    posterior: dict[str, Any],
    mask: dict[str, Any] | None,
    program: Any,
    data: Dataset,
    num_updates: int | float = 0.0,
) -> SparseState:
    """The sparsifier's first state, with the prior's scales read from the program, under the mask that was given.

    ``num_updates``: how often the sparsifier will act, for one whose schedule has an end.
    """
    if not posterior and not isinstance(sparsifier, KeepAll):
        raise ValueError("sparsifier has nothing to prune: let prunable= of the BNN or Program accept some (path, shape).")
    # 0, 1 and 2 are the keys of `Loop.init`: folding in a number gives the same key as splitting does.
    key = jax.random.fold_in(rng_key, 3)
    written = not isinstance(program, BNN) and not isinstance(sparsifier, KeepAll)
    draws = _draws(program, data) if written else []
    posterior = _in_order_of_use(posterior, draws)
    asks = "num_updates" in inspect.signature(sparsifier.init).parameters
    state = sparsifier.init(key, posterior, num_updates=num_updates) if asks else sparsifier.init(key, posterior)
    if written:
        state = state._replace(prior_scale=_prior_scales(draws, state.prior_scale))
    if not mask:
        return state
    given = check_mask(mask, {site: trees.shape(node) for site, node in posterior.items()})
    if hasattr(sparsifier, "keeps_counts"):
        return state._replace(mask=_of_same_counts(given, state.mask, sparsifier))
    return state._replace(mask=state.mask | {s: given[s] & state.mask.get(s, True) for s in given})


def _of_same_counts(given: dict[str, Any], own: dict[str, Any], sparsifier: Any) -> dict[str, Any]:
    """The given masks in the place of the sparsifier's first ones, whose numbers of alive weights they must have."""
    new = own | given
    counts = lambda mask: {site: int(alive.sum()) for site, alive in mask.items()}  # noqa: E731
    have, wanted = counts(new), counts(own)
    if sum(have.values()) != sum(wanted.values()) or (sparsifier.keeps_counts and have != wanted):
        raise ValueError(
            f"mask= has {have} weights alive, and {type(sparsifier).__name__} of these settings keeps {wanted}: give a mask of "
            "those numbers, or the density that the mask has."
        )
    return new


def start_storage(
    name: str, loop: Compiled, recipe: Recipe, carry: Carry, sparse: SparseState, data: Dataset
) -> tuple[Compiled, Carry, SparseState]:
    """The loop over weights kept as ``name`` has it, and the first states so kept; see `make_storage`."""
    if hasattr(recipe.sparsifier, "renew"):
        check_optimizer(recipe.optimizer, carry.params)
    storage = make_storage(name, recipe.sparsifier, sparse.mask)
    if storage == recipe.storage:
        return loop, carry, sparse
    loop = compile_loop(dataclasses.replace(recipe, storage=storage), Example.of(data))
    kept = storage.keep_mask(sparse.mask)
    return loop, loop.keep(carry, kept), sparse._replace(mask=kept)


def _draws(program: Any, data: Dataset) -> list[dict[str, Any]]:
    """The sites of two draws from a hand-written model, in the order in which it comes to them."""
    return [trace(seed(program.model, jax.random.key(n))).get_trace(data.x, data.y) for n in range(2)]


def _in_order_of_use(posterior: dict[str, Any], draws: list[dict[str, Any]]) -> dict[str, Any]:
    """The sites as the model comes to them, which a compiled function's dictionaries forget; others come last."""
    if not draws:
        return posterior
    order = list(draws[0])
    return dict(sorted(posterior.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _prior_scales(draws: list[dict[str, Any]], scales: dict[str, Any]) -> dict[str, Any]:
    """Standard deviations of the Gaussian priors of a hand-written model, site by site."""
    new = {}
    for name in scales:
        one, other = (read_gaussian(sites[name]["fn"]) if name in sites else None for sites in draws)
        # A prior that another site sets shows itself by changing from draw to draw.
        if one is None or other is None or bool(jnp.any((one.loc != 0) | (one.scale != other.scale))):
            raise ValueError(
                f"site {name!r} has no fixed Gaussian prior about zero in the model, so its evidence has no closed form: write "
                "it as a scale times dist.Normal(0, 1), or keep it out by bp.Program(model, guide, prunable=...)."
            )
        new[name] = one.scale
    return new
