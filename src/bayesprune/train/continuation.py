"""A fit that goes on from another one: what is kept of the one, what must fit together, and what the other takes over.

Kept are parameters and the optimiser's arrays by name, with no code in them.
"""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpyro.infer.svi import SVIState

from bayesprune.core.keys import is_key, key_numbers
from bayesprune.core.send import send
from bayesprune.core.types import PyTree
from bayesprune.posteriors.params import UNIT, stems
from bayesprune.train.alike import same_law
from bayesprune.train.batches import after
from bayesprune.train.kernel import Kernel, evaluated
from bayesprune.train.state import Carry

INJECTED = ".hyperparams["  # of `optax.inject_hyperparams`: settings, which are the new optimiser's own


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


def keep(state: SVIState | Kept | None) -> Kept | None:
    """What of a fit's state the next one goes on from; None of what is no state."""
    if state is None or isinstance(state, Kept):
        return state
    step, (params, inner) = state.optim_state
    return Kept(int(step), by_path(params), by_path(inner), kinds(inner))


def by_path(tree: PyTree) -> dict[str, Any]:
    """The arrays of a pytree by the way to them; random keys by their numbers.

    >>> list(by_path({"w": (1.0, {})}))
    ["['w'][0]"]
    """
    return {jax.tree_util.keystr(path): key_numbers(leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


def kinds(tree: PyTree) -> str:
    """The names of the types of a pytree's nodes, in order: what paths do not say."""
    found: list[str] = []

    def note(node: PyTree) -> bool:
        if not jax.tree_util.all_leaves([node]):
            found.append(type(node).__name__)
        return False

    jax.tree.leaves(tree, is_leaf=note)
    return " ".join(found)


class Origin(NamedTuple):
    """What a fit goes on from: ``params`` as fits give them, ``mask``; ``kept``: None where there is no more than that, and
    ``whole``: whether there should be; ``law``: of the optimiser's state, "" where it is not known; ``anew``: the optimiser
    begins its own steps again, as one must whose rate is laid out over those of one fit and has come to its end."""

    params: dict[str, Any]
    mask: dict[str, Any]
    kept: Kept | None
    whole: bool
    law: str = ""
    anew: bool = False

    def decisive(self) -> dict[str, Any]:
        """The arrays that decide the result of what goes on from them."""
        kept = {} if self.kept is None else self.kept._asdict() | {"step": send(self.kept.step, np.int32), "kinds": {}}
        return {"params": self.params, "mask": self.mask, "kept": kept}

    def dead(self, name: str) -> Any:
        """Which entries of a parameter are of dead weights, to which no value means anything."""
        site = stems((name,), self.mask).get(name)
        return False if site is None else ~np.asarray(self.mask[site])

    def check_names(self, names: set[str]) -> None:
        """Refuse parameters of other names than the program's."""
        own, names = own_names(self.params), own_names(names)
        if own != names:
            differences = [
                f"only {who} has {_some(extra)}" for who, extra in (("init", own - names), ("this one", names - own)) if extra
            ]
            raise ValueError(
                f"init is a fit of another network, prior or kind of posterior: {'; '.join(differences)}. Build the program as "
                "it was for that fit, or give what they share as init_params=."
            )

    def check_units(self, units: Mapping[str, Any]) -> None:
        """Refuse parameters that mean something else in this program, as its entries ``units`` say."""
        for name, unit in self.params.items():
            if name.endswith(UNIT) and name in units and not np.allclose(np.asarray(unit), np.asarray(units[name]), rtol=1e-4):
                raise ValueError(
                    f"init has {name.removesuffix(UNIT)!r} in units of {_number(unit)}, this program in units of "
                    f"{_number(units[name])}: the same numbers would be another network. Give the prior of that fit, "
                    "or carry its weights over: init_params=bp.from_trained(bnn, fit.net_params(the_other_bnn))."
                )

    def narrowed(self, mask: Mapping[str, Any] | None) -> dict[str, Any]:
        """Its mask, and what ``mask`` has dead beside."""
        if not isinstance(mask, Mapping):
            return self.mask if mask is None else mask
        # Those of another shape are refused where masks are checked.
        pairs = [(np.asarray(mask[site]), np.asarray(dead)) for site, dead in self.mask.items() if site in mask]
        revived = sum(int(np.sum(new & ~old)) for new, old in pairs if new.shape == old.shape)
        if revived:
            raise ValueError(
                f"mask= has {revived} weights alive that are dead in init: what is pruned there stays so, unless a sparsifier "
                "reactivates it. Give init_params=fit.params and mask= without init, and the optimizer starts anew."
            )
        return self.mask | dict(mask)


def own_names(names: Iterable[str]) -> set[str]:
    """Those of parameters, without what comes beside them: units, priors, a network's state.

    >>> own_names(["w_auto_loc", "w$unit", "net$state"])
    {'w_auto_loc'}
    """
    return {name for name in names if "$" not in name}


def go_on(carry: Carry, origin: Origin, batch_size: int, num_rows: int, law: str, kernel: Kernel) -> Carry:
    """The state before the first step with all that ``origin`` has kept for it, in copies: the loop takes memory over.

    Where the kept arrays have no place here, the parameters are those of ``origin.params``, which are in ``carry`` already,
    and the optimiser starts anew, with a warning.
    """
    kept = origin.kept
    if kept is None:
        if origin.whole:
            _warn("init holds no state of an optimizer")
        return carry
    batches = after(carry.batches, kept.step * batch_size, num_rows) if batch_size < num_rows else carry.batches
    carry = carry._replace(begun=send(kept.step, np.int32), batches=batches)
    params = _put(carry.params, kept.params)
    if params is None:
        _warn("init keeps its weights otherwise (storage=)")
        return carry
    as_given = lambda shown: {n: _as_given(carry.params[n], old, shown[n], origin.dead(n)) for n, old in params.items()}  # noqa: E731
    if origin.anew:
        return carry._replace(params=as_given(params))
    of_its_kind = kept.kinds == kinds(carry.opt_state) and same_law(origin.law, law)
    inner = _put(carry.opt_state, kept.optimizer) if of_its_kind else None
    if inner is None:
        _warn("init holds the state of another optimizer, or of one with other decay rates")
        return carry._replace(params=as_given(params))
    # What a fit returns are the parameters to evaluate; it goes on from those that were trained.
    return carry._replace(params=as_given(evaluated(kernel, params, inner)), opt_state=inner)


def _put(target: PyTree, arrays: Mapping[str, Any]) -> Any:
    """The arrays in the target's structure; None where paths, shapes or types differ."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(target)
    wanted = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    shape = lambda found: {name: (jnp.shape(leaf), jnp.result_type(leaf)) for name, leaf in found.items()}  # noqa: E731
    if shape(by_path(target)) != shape(arrays):
        return None
    filled = [leaf if INJECTED in name else _like(leaf, jnp.array(arrays[name])) for name, leaf in wanted.items()]
    return jax.tree.unflatten(structure, filled)


def _as_given(given: PyTree, old: PyTree, shown: PyTree, dead: ArrayLike) -> Any:
    """The parameter as it is given, for it may have been changed since; with the bits of the old one where it was not.

    ``shown``: what the old one was returned as.
    """
    return jax.tree.map(lambda *of_leaf: _unless_changed(*map(send, of_leaf), send(dead)), given, old, shown)


@jax.jit
def _unless_changed(given: jax.Array, old: jax.Array, shown: jax.Array, dead: jax.Array) -> jax.Array:
    # Both went through the same transforms: their difference is rounding, of the array's own size or of 1.
    size = jnp.minimum(jnp.max(jnp.abs(shown), initial=0.0), 1.0)
    same = jnp.abs(given - shown) <= 1e-4 * jnp.abs(shown) + 1e-5 * size + 5e-7
    return jnp.where(same | dead if jnp.shape(dead) in ((), jnp.shape(same)) else same, old, given)


def _like(leaf: ArrayLike, array: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf)) if is_key(leaf) else array


def _number(value: ArrayLike) -> str:
    return f"{float(np.mean(np.asarray(value))):.4g}"


def _some(names: set[str]) -> str:
    first = sorted(names)[:4]
    return ", ".join(map(repr, first)) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _warn(what: str) -> None:
    warnings.warn(
        f"{what}, so the optimizer starts anew. Where that is meant, give init_params=fit.params, mask=fit.mask in its place.",
        UserWarning,
        stacklevel=6,  # the caller of `fit_svi`
    )
