"""Weights that vary together: how a node of such is cut by evidence, one weight after the other, and which masks go with it.

Derivation. The evidence of removing a set of weights is, by the chain rule, the sum of what each removal gains given that those
before it are zero. A second of two twins loses all that the first had to lose, and a cut by gains that were taken at the start
would remove both.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.layout import ParamSpec
from bayesprune.core.types import Array, Node, PyTree


class Joint(Node):
    """A node whose weights vary together: ``loc`` and ``scale`` are the marginals, ``given_zero`` says what a cut leaves."""

    together: ClassVar[bool] = True

    @abstractmethod
    def given_zero(self, alive: Array) -> Any:
        """The posterior of the others given that the dead weights are zero; those at loc = scale = 0. `jax.jit` takes it."""

    def cut(self, alive: Array) -> Any:
        """The posterior given that the dead weights are zero."""
        return self.given_zero(alive)

    def removal(self, alive: jax.Array) -> Any:
        """Its removal, weight after weight, from those that are ``alive`` on: see `Removal`."""
        return Removal.start(self, jnp.broadcast_to(alive, jnp.shape(self.loc)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Removal:
    """A node of which weights are removed: which are ``alive``, and the evidence of each removal, given those before it.

    ``gain``: of every weight, nats: of its removal now, -inf where it has no density at zero; of one that is gone, that with
    which it went. Any other class with ``alive``, ``gain`` and ``without_best`` takes its place, such as one that keeps count.
    """

    node: Any
    alive: jax.Array
    gain: jax.Array

    @classmethod
    def start(cls, node: Node, alive: jax.Array) -> "Removal":
        """Given that what is not alive is zero."""
        return cls(node, alive, jnp.where(alive, _gain(node.given_zero(alive)), 0.0))

    def without_best(self, zeta: ArrayLike) -> tuple["Removal", jax.Array]:
        """Without the weight of the highest gain, if that is above zeta; and whether there was one."""
        open_ = jnp.where(self.alive, self.gain, -jnp.inf)
        moved = jnp.max(open_) > zeta
        best = jnp.arange(open_.size).reshape(open_.shape) == jnp.argmax(open_)
        alive = self.alive & ~(moved & best)
        gain = jnp.where(alive, _gain(self.node.given_zero(alive)), self.gain)
        return replace(self, alive=alive, gain=gain.astype(self.gain.dtype)), moved


def _gain(left: Any) -> jax.Array:
    # What has no spread left has no density at zero: it stays.
    spread = jnp.where(left.scale > 0, left.scale, 1.0)
    return jnp.where(left.scale > 0, replace(left, scale=spread).gain(), -jnp.inf)


def all_alive(alive: jax.Array) -> bool:
    """Whether all is alive for certain: then nothing has to be computed."""
    return not isinstance(alive, jax.core.Tracer) and bool(np.all(alive))


def check_given(nodes: Mapping[str, Any], mask: Mapping[str, Any]) -> None:
    """Refuse a mask, site -> booleans, that a node cannot be cut by, or that is traced, so that it cannot be checked."""
    for site, alive in mask.items():
        if not nodes[site].whole:
            continue
        if isinstance(alive, jax.core.Tracer):
            raise ValueError(
                f"mask of {site!r} has to be known where a matrix normal is cut, for it has to be of whole rows and columns, "
                "and within jax.jit it is not: close over it, or leave it out, for weights at loc = scale = 0 are dead anyway."
            )
        nodes[site].check_cut(alive)


def check_conditioned(nodes: Mapping[str, Any], mask: Mapping[str, Any]) -> None:
    """Refuse a mask, site -> booleans, that cuts weights whose absence the others' posterior does not know of."""
    for site, alive in mask.items():
        node = nodes[site]
        if node.together and bool(jnp.any(~jnp.asarray(alive) & (node.scale != 0))):
            cut = any(bool(jnp.any(one.scale == 0)) for one in nodes.values() if one.together)
            raise ValueError(
                f"mask cuts weights of {site!r} that params keep, and the others' posterior is another without them: "
                + ("params are those of another mask, which cuts fewer; " if cut else "")
                + "give the parameters and the mask of one pruning, pruned.params and pruned.mask of bp.bmr_prune"
                + (", not bp.connected's: what it cuts beyond changes no output." if cut else ".")
            )


def check_training(program: Any, acts: bool = False, mask: PyTree = None, thin: bool = False, params: PyTree = None) -> None:
    """Refuse what training with weights that vary together cannot do: cut on the way, or go on with what was cut.

    ``acts``: whether there is a sparsifier; ``thin``: whether dead weights have no memory; ``params``: those to start from.
    """
    family = getattr(program, "family", None)
    joint = [spec for spec in program.layout if spec.bayesian and family.joint(spec)] if family is not None else []
    if not joint:
        return
    whole = all(bool(jnp.all(jnp.asarray(alive))) for alive in jax.tree.leaves(mask))
    was_cut = params is not None and any(_is_cut(family, params, spec) for spec in joint)
    if acts or thin or was_cut or not whole:
        sites = getattr(family, "sites", ())
        kind = getattr(family, "covariance", "")
        name = f"posterior={kind!r}" if kind else type(family).__name__
        who = f"the weights of {', '.join(sites)} vary" if sites else f"{name} lets weights vary"
        raise ValueError(
            f"{who} together, and such a fit trains whole arrays: a weight cut on the way changes the others' covariance. "
            "Train without a sparsifier, a mask, storage='active' or parameters that were cut before, and cut "
            "the fit by bp.bmr_prune(fit.params)."
        )


def _is_cut(family: Any, params: Mapping[str, Any], spec: ParamSpec) -> bool:
    """Whether parameters to start from are of this family, and have dead weights."""
    try:
        return bool(jnp.any(family.read(params, spec).scale == 0))
    except KeyError:
        return False
