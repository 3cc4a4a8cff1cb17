"""A fresh start for weights that wake: their parameters as the sparsifier says, and no memory in the optimiser."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.infer.sites import Sites
from bayesprune.prune.read import stems, write_nodes


def renew(recipe: Any, sites: Sites, carry: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
    """The state of a fit after its mask changed from ``old`` to ``new``, both as the recipe's storage keeps them.

    Weights that only ``new`` has take the parameters that the sparsifier gives them. The optimiser's arrays begin at zero for
    them and for the weights that fell.
    """
    storage = recipe.storage
    before, after = storage.whole_mask(old), storage.whole_mask(new)
    params = storage.whole(carry.params, old)
    supported = sites.constrain(params)
    fresh = sites.unconstrain(write_nodes(supported, recipe.sparsifier.renew(recipe.read(supported), before, after)))
    # The others keep their bits: a way through `constrain` and back would round them.
    grown = {name: after[site] & ~before[site] for name, site in stems(params, before).items()}
    params = {n: jnp.where(grown[n], fresh[n], v) if n in grown else v for n, v in params.items()}
    opt_state = _moved(carry.opt_state, storage.movers(carry.params, old, new))
    return carry._replace(params=storage.keep(params, new), opt_state=opt_state)


def _moved(opt_state: Any, moves: dict[str, Callable[[Any], Any]]) -> Any:
    """The optimiser's state, each array that belongs to a parameter moved as that parameter's entry says.

    It belongs to the parameter under whose name it lies: optax's own walk over parameters fails at a `multi_transform` whose
    labels are a function of their names. A state that is no tree of the parameters' shape (`optax.flatten`) is left alone.
    """

    def move(path: tuple[Any, ...], leaf: Any) -> Any:
        names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey) and key.key in moves]
        return moves[names[-1]](leaf) if names else leaf

    return jax.tree_util.tree_map_with_path(move, opt_state)
