"""A fresh start for weights: those that a sparsifier reactivates, and dead ones drawn anew from their prior."""

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
from numpyro.handlers import substitute, trace

from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.types import Mask, Params, PyTree, Renewing, SparseState, Sparsifier, Weighing
from bayesprune.model.handlers import seeded
from bayesprune.model.samples import values_of
from bayesprune.posteriors.params import stems, write
from bayesprune.prune.needs import warm_up_of
from bayesprune.train.kernel import Kernel
from bayesprune.train.sites import Example, Sites
from bayesprune.train.state import Carry, Recipe


def renew(recipe: Recipe, sites: Sites, carry: Carry, old: Mask, new: Mask, known: Params) -> Carry:
    """The state of a fit after its mask changed from ``old`` to ``new``, both as the recipe's storage keeps them.

    Weights that only ``new`` has take the parameters that the sparsifier gives them. For them, and for the weights that fell,
    the optimiser's arrays are what they would be at a first step.
    """
    storage, renewing = recipe.storage, cast(Renewing, recipe.sparsifier)
    before, after = storage.whole_mask(old), storage.whole_mask(new)
    params = storage.whole(carry.params, old)
    supported = sites.constrain(params)
    fresh = sites.unconstrain(write(supported, renewing.renew(recipe.program.read(supported | known), before, after)))
    # The others keep their bits: a way through `constrain` and back would round them.
    grown = {name: after[site] & ~before[site] for name, site in stems(params, before).items()}
    params = {n: jnp.where(grown[n], fresh[n], v) if n in grown else v for n, v in params.items()}
    params = storage.keep(params, new)
    opt_state = _moved(recipe.kernel, carry.opt_state, params, storage.movers(carry.params, old, new))
    return carry._replace(params=params, opt_state=opt_state)


def _moved(kernel: Kernel, state: PyTree, params: Params, moves: dict[str, Callable[..., jax.Array]]) -> PyTree:
    """The kernel's state, each array that belongs to a parameter moved as that parameter's entry says.

    Exchanged weights take their entries from the state before a first step at ``params``; most optimisers have zeros there.
    """
    first = kernel.moments(kernel.init(params))
    moved = {
        kind: {name: moves[name](array, first[kind][name]) if name in moves else array for name, array in arrays.items()}
        for kind, arrays in kernel.moments(state).items()
    }
    return kernel.with_moments(state, moved)


def weigh(recipe: Recipe, carry: Carry, sparse: SparseState) -> Carry:
    """The state of a fit whose kernel has taken over each weight's decay from what the sparsifier's state says of it.

    While the sparsifier warms up it says nothing, and decays stay as they are.
    """
    precision = cast(Weighing, recipe.sparsifier).precision(sparse)
    by_name = {name: precision[site] for name, site in stems(carry.params, precision).items()}
    opt_state = cast(Any, recipe.kernel).with_decay(carry.opt_state, by_name)
    if warm_up := warm_up_of(recipe.sparsifier):
        speaks = sparse.step > warm_up
        opt_state = jax.tree.map(lambda new, old: jnp.where(speaks, new, old), opt_state, carry.opt_state)
    return carry._replace(opt_state=opt_state)


def check_decay(kernel: Kernel, sparsifier: Sparsifier) -> None:
    """Refuse a kernel without decays for single weights where the sparsifier sets them."""
    if not hasattr(kernel, "with_decay"):
        raise ValueError(
            f"{type(sparsifier).__name__} sets the decay of single weights, and {type(kernel).__name__} has none: sample by "
            "bp.fit_sgmcmc(..., kernel=bp.kernels.SGHMCSPL())."
        )


def check_moments(kernel: Kernel, params: Params) -> None:
    """Refuse a kernel with arrays of numbers that belong to no parameter: they cannot follow an exchange of weights."""
    state, moments = jax.eval_shape(lambda p: (state := kernel.init(p), kernel.moments(state)), params)
    known = [array for arrays in moments.values() for name, array in arrays.items() if name in params]
    for shape in Counter(_shapes(jax.tree.leaves(state))) - Counter(_shapes(known)):
        raise ValueError(
            f"the optimizer keeps an array of shape {shape} that belongs to no one parameter, as optax.flatten has: exchanged "
            "weights cannot start afresh in it. Give an optimizer that keeps arrays by parameter."
        )


def _shapes(arrays: list[jax.ShapeDtypeStruct]) -> list[tuple[int, ...]]:
    """Shapes of the arrays of numbers; counters and keys are none."""
    return [array.shape for array in arrays if array.ndim and jnp.issubdtype(array.dtype, jnp.floating)]


def redraw(recipe: Recipe, sites: Sites, example: Example, carry: Carry, mask: Mask) -> Carry:
    """The state with every dead weight drawn from its prior, given the present scales; the living keep their bits.

    Nothing depends on a dead weight but its prior, so that this is a draw from its conditional posterior, a step of Gibbs. The
    kernel's steps leave it to its noise alone. The kernel's arrays stay: a momentum without a gradient has its own law already.
    ``mask``: whole arrays, as the storage of every sampler keeps them.
    """
    program, params = recipe.program, sites.constrain(carry.params)
    alive = {name: value for name, value in values_of(program.guide, params).items() if name not in mask}
    # The prior looks at no data: rows of zeros, whose way through the network the compiler drops.
    rows = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example.abstract(1))
    copies = {
        name: dict(value) if isinstance(value, dict) else value for name, value in carry.mutable.items()
    }  # programs update them in place
    model = substitute(seeded(program.model, stream(carry.step_key, OfAStep.REDRAWING)), data=alive | copies)
    drawn = trace(model).get_trace(rows.x, rows.y)
    fresh = {
        name: jnp.where(mask[site], params[name], drawn[site]["value"].astype(params[name].dtype))
        for name, site in stems(params, mask).items()  # points on the whole real line, which are their own coordinates
    }
    return carry._replace(params=carry.params | fresh)


def check_chain(kernel: Kernel, sparsifier: Sparsifier) -> None:
    """Refuse a kernel that does not sample the posterior itself, of which the sparsifier's moves are moves."""
    message = f"{type(sparsifier).__name__} accepts its moves by the odds of the posterior itself"
    remedy = "sample by bp.fit_sgmcmc(..., kernel=bp.kernels.SGLD()) or SGHMC()."
    if not hasattr(kernel, "num_cycles"):
        raise ValueError(f"{message}, and nothing is sampled here: {remedy}")
    if getattr(kernel, "per_row", False):
        raise ValueError(f"{message}, and {type(kernel).__name__} samples a colder one: {remedy}")
    if (temperature := getattr(kernel, "temperature", 1.0)) != 1.0:
        raise ValueError(f"{message}, and the kernel's temperature is {temperature}: leave it at 1.")
