"""A fresh start for weights that are reactivated: their parameters as the sparsifier says, and no memory in the optimiser."""

from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
import optax

from bayesprune.infer.sites import Sites
from bayesprune.posteriors.params import stems, write


def renew(recipe: Any, sites: Sites, carry: Any, old: dict[str, Any], new: dict[str, Any], known: dict[str, Any]) -> Any:
    """The state of a fit after its mask changed from ``old`` to ``new``, both as the recipe's storage keeps them.

    Weights that only ``new`` has take the parameters that the sparsifier gives them. For them, and for the weights that fell,
    the optimiser's arrays are what they would be at a first step.
    """
    storage = recipe.storage
    before, after = storage.whole_mask(old), storage.whole_mask(new)
    params = storage.whole(carry.params, old)
    supported = sites.constrain(params)
    fresh = sites.unconstrain(write(supported, recipe.sparsifier.renew(recipe.program.read(supported | known), before, after)))
    # The others keep their bits: a way through `constrain` and back would round them.
    grown = {name: after[site] & ~before[site] for name, site in stems(params, before).items()}
    params = {n: jnp.where(grown[n], fresh[n], v) if n in grown else v for n, v in params.items()}
    params = storage.keep(params, new)
    opt_state = _moved(carry.opt_state, recipe.optimizer.init(params), storage.movers(carry.params, old, new))
    return carry._replace(params=params, opt_state=opt_state)


def _moved(opt_state: Any, first: Any, moves: dict[str, Callable[[Any, Any], Any]]) -> Any:
    """The optimiser's state, each array that belongs to a parameter moved as that parameter's entry says.

    ``first``: the state before a first step, from which exchanged weights take their entries; most optimisers have zeros there.
    """

    def move(path: tuple[Any, ...], leaf: Any, fresh: Any) -> Any:
        name = _owner(path, moves)
        return leaf if name is None else moves[name](leaf, fresh)

    return jax.tree_util.tree_map_with_path(move, opt_state, first)


def _owner(path: tuple[Any, ...], names: Collection[str]) -> str | None:
    """The parameter under whose name an array of an optimiser lies.

    optax's own walk over parameters fails at a `multi_transform` whose labels are a function of their names.
    """
    return next((k.key for k in reversed(path) if isinstance(k, jax.tree_util.DictKey) and k.key in names), None)


def check_optimizer(optimizer: optax.GradientTransformation, params: dict[str, Any]) -> None:
    """Refuse an optimiser with arrays of numbers that belong to no parameter: they cannot follow an exchange of weights."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(jax.eval_shape(optimizer.init, params))[0]:
        if leaf.ndim and jnp.issubdtype(leaf.dtype, jnp.floating) and _owner(path, params) is None:
            raise ValueError(
                f"the optimizer keeps an array of shape {leaf.shape} that belongs to no one parameter, as optax.flatten has: "
                "exchanged weights cannot start afresh in it. Give an optimizer that keeps arrays by parameter."
            )
