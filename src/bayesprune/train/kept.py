"""What a fit leaves for the next one to go on from: its parameters and its optimiser's arrays by name, with no code in them."""

from typing import Any, NamedTuple

import jax

from bayesprune.core.keys import key_numbers


class Kept(NamedTuple):
    """``step``: steps so far, with those of the fits before. ``params``: unconstrained and as the storage keeps them, by path.

    ``optimizer``: arrays of the kernel's state by path; ``kinds``: the types of that state's nodes.
    """

    step: int
    params: dict[str, Any]
    optimizer: dict[str, Any]
    kinds: str

    def __repr__(self) -> str:
        return f"Kept(step {self.step:,}, {len(self.optimizer)} arrays of the optimizer)"


def keep(state: Any) -> Kept | None:
    """What of a fit's state the next one goes on from; None of what is no state."""
    if state is None or isinstance(state, Kept):
        return state
    step, (params, inner) = state.optim_state
    return Kept(int(step), by_path(params), by_path(inner), kinds(inner))


def by_path(tree: Any) -> dict[str, Any]:
    """The arrays of a pytree by the way to them; random keys by their numbers.

    >>> list(by_path({"w": (1.0, {})}))
    ["['w'][0]"]
    """
    return {jax.tree_util.keystr(path): key_numbers(leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


def kinds(tree: Any) -> str:
    """The names of the types of a pytree's nodes, in order: what paths do not say."""
    found: list[str] = []

    def note(node: Any) -> bool:
        if not jax.tree_util.all_leaves([node]):
            found.append(type(node).__name__)
        return False

    jax.tree.leaves(tree, is_leaf=note)
    return " ".join(found)
