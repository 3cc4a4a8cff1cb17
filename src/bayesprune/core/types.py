"""The grammar: the few types that every floor above speaks.

A *posterior* is a tree of `Node`, one for each array of weights. A *mask* is a whole tree of booleans of the same outer
structure, True = alive; what is not prunable is not in the tree. A *sparsifier* turns evidence about a posterior into a
new mask, purely.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.shown import line, number, shapes, share_connected, share_pruned

PyTree = Any
Array = jax.Array | np.ndarray  # on a device, in the course of a trace, or in NumPy
ArrayTree = Array | Mapping[str, Any] | Sequence[Any]  # one array, or a dict, list or tuple of such
Params = dict[str, PyTree]  # by name: an array, or a tree of a module's own
Mask = dict[str, PyTree]  # site -> booleans, True = alive; as a storage keeps them, positions


class Dataset(NamedTuple):
    """Inputs and targets, row by row.

    Shapes: ``x`` (rows, *input_shape), or a tree of such arrays where the network takes several, as its ``example=`` has them;
    ``y`` (rows,) integer class labels, or (rows,) or (rows, outputs) real targets;
    (rows, tokens) and (rows, tokens, outputs) where a row has many.
    Any pair with these two fields, NumPy or JAX, is taken wherever a data set is asked for.
    """

    x: Any
    y: Any

    def __repr__(self) -> str:
        return line("Dataset", f"x {shapes(self.x)}", f"y {shapes(self.y)}")


class Node(ABC):
    """One array of weights under a posterior: a registered frozen dataclass of arrays, which answers for itself.

    A family of posteriors is one file of `bayesprune.posteriors`, and its node is a class derived from this one. Fields that
    every node has: ``loc``, ``scale``, mean and standard deviation of each weight w_hat by itself (of a spike and slab, those
    of its slab), of the array's shape; ``unit``, the network's weight is w = unit w_hat, a number or an array that broadcasts.

    ``prior_scale``: standard deviation of the Gaussian prior N(0, prior_scale²) of w_hat; None where the prior is no Gaussian,
    and then there is no evidence. ``law``: what is known of a random scale that weights share, None without one.
    ``together``: the weights are correlated, so that a cut moves the others, see `posteriors.joint.Joint`. ``gated``: each
    weight has a probability of inclusion. ``whole``: only whole rows and columns can be cut. ``no_gain``: why removal has no
    evidence, "" where it may have.
    """

    loc: Any
    scale: Any
    unit: Any
    prior_scale: Any = None
    law: Any = None
    together: ClassVar[bool] = False
    gated: ClassVar[bool] = False
    no_gain: ClassVar[str] = ""

    @abstractmethod
    def draw(self, rng_key: jax.Array) -> Any:
        """One draw of the network's weights."""

    @abstractmethod
    def moments(self) -> tuple[Any, Any]:
        """Mean and variance of each of the network's weights."""

    @abstractmethod
    def gain(self) -> Any:
        """Evidence gained by the removal of each weight alone, nats; an error that says why where there is none."""

    @abstractmethod
    def divergence(self, prior: Any) -> Any:
        """Kullback-Leibler divergence of w_hat from ``prior``, a NumPyro distribution, weight by weight, nats."""

    def cut(self, alive: Array) -> Any:
        """The node without its dead weights, loc = scale = 0: replaced, not multiplied, so that a dead NaN is gone."""
        return replace(self, loc=jnp.where(alive, self.loc, 0), scale=jnp.where(alive, self.scale, 0))  # type: ignore[type-var]

    def given_zero(self, alive: Array) -> Any:
        """The posterior of the others given that the dead weights are zero: independent ones do not move."""
        return self.cut(alive)

    @property
    def whole(self) -> bool:
        return False

    def check_cut(self, alive: Array) -> None:
        """Refuse a mask, known or traced, by which this node cannot be cut."""
        return

    def log_odds(self) -> Any:
        """Log-odds of each weight's inclusion; `TypeError` where there are none."""
        raise TypeError(
            f"a {type(self).__name__} has no inclusion probabilities: fit with priors.DiracSlab or priors.GaussianSlab "
            "and read the fit by bnn.read(params), or prune by another method."
        )

    def under(self, prior_scale: ArrayLike | None) -> Any:
        """The node under the prior N(0, prior_scale²); None: under one that is no Gaussian."""
        return replace(self, prior_scale=prior_scale)  # type: ignore[type-var]

    def renewed(self, grown: Array, scale: Array, mean: Callable[[Any], Any]) -> Any:
        """The node whose weights ``grown`` start afresh, at loc 0 and ``scale``; ``mean``: of an array, over those beside."""
        fresh = {"loc": jnp.zeros(()), "scale": scale}
        return replace(self, **{name: jnp.where(grown, value, getattr(self, name)) for name, value in fresh.items()})  # type: ignore[type-var]


@runtime_checkable
class Standalone(Protocol):
    """A network that holds its own weights and predicts by itself, as a compact one does.

    ``task``: "classes", "binary", "numbers" or "other"; ``noise``: of "numbers", the noise's scale, else None.
    """

    task: str

    def noise(self, num_samples: int = 100) -> Any: ...

    def predict(self, x: PyTree, *, rng_key: jax.Array | None = None, num_samples: int = 100) -> Any: ...

    def predict_draws(self, rng_key: jax.Array, x: PyTree, num_samples: int = 100) -> Any: ...


class Gradient(NamedTuple):
    """How the gradient that a sparsifier reads is to be taken.

    ``at_mean``: at w = loc, in place of one draw of the posterior. ``num_draws``: the mean of its absolute value over so many
    draws, each of a minibatch of its own (1: the gradient itself). ``divergence``: of the whole loss for weights that are
    alive, in place of the likelihood's part alone.
    """

    at_mean: bool = False
    num_draws: int = 1
    divergence: bool = False


class Needs(NamedTuple):
    """What a sparsifier needs, and what it promises; `prune.needs.check_needs` compares it with what there is.

    ``node``: kind of the posterior's nodes. ``evidence``: a Gaussian prior of every weight. ``spread``: a scale above zero; a
    posterior of points has none. ``gradient``: how the gradient in `Evidence` is to be taken.
    ``first_counts``: its first mask says how many weights are alive from then on; ``constant_counts``: in each array apart.
    ``groups``: the name of the `Groups` in `Evidence`, as `model.groups.groups` knows them; "" for none.
    ``law``: kind, or kinds as ``A | B``, of the law of the unit's scales, where it reads that of `Scaled` nodes; else None.
    ``whole``: of a matrix normal it cuts whole rows and columns, as those of the ``groups`` "unit" and "head" do by themselves.
    ``loss``: it compares masks by the loss of the data, `Evidence.loss`. ``chain``: it is a move of a sampler's own chain, and
    refused elsewhere; before it acts, dead weights are drawn anew from their prior, so that it may bring them to life.
    """

    node: type = Node
    evidence: bool = False
    spread: bool = False
    gradient: Gradient = Gradient()
    first_counts: bool = False
    constant_counts: bool = False
    groups: str = ""
    law: Any = None
    whole: bool = False
    loss: bool = False
    chain: bool = False


@dataclass(frozen=True, eq=False)
class Groups:
    """Which weights belong together. Not a pytree: it is a constant of compiled functions, and each hashes as itself.

    ``members``: site -> NumPy integers that broadcast to the site's shape, the number of the group that a weight is in; -1 for
    a weight of none. ``count``: groups in all. ``count_flops``: counts what each group costs, (groups,) FLOPs a row of the
    whole network, where that is known; done when it is first asked for.
    """

    members: Mapping[str, Any]
    count: int
    count_flops: Callable[[], Any] | None = None

    @functools.cached_property
    def flops(self) -> Any:
        """What each group costs, (groups,), or None."""
        return None if self.count_flops is None else self.count_flops()


class Evidence(NamedTuple):
    """What a sparsifier may read: the posterior of the prunable weights, and the loss's gradient in every one of them.

    ``gradient`` has one array per posterior node, dead weights included. A method that does not read it costs nothing:
    the compiler drops the pass that would have made it. ``progress``: the share of the training that is done, in [0, 1].
    ``groups``: `Groups` where the method needs them, else None. ``loss``: where the method needs it, else None: a pure function
    of a whole mask, ``loss(mask)``, -log p(y | w) of the whole data set in nats, at the present weights (of a posterior with
    spread: at one draw of it) and as one minibatch estimates it, the same for every mask. ``loss(mask, shift)`` adds shift,
    site -> array, to the weights after the mask, in the units of loc: zeros are there to be differentiated in.
    """

    posterior: PyTree
    gradient: PyTree
    progress: Any = 0.0
    groups: Any = None
    loss: Callable[..., jax.Array] | None = None


class SparseState(NamedTuple):
    """What a sparsifier carries from step to step.

    ``mask``: tree of booleans, True = alive. ``memory``: whatever the method remembers, a pytree. ``step``: how often it has
    acted.
    """

    mask: PyTree
    memory: PyTree
    step: jax.Array


class Info(NamedTuple):
    """What a pruning step did, for the eye; the same fields for every method.

    ``density``: alive fraction of all prunable weights. ``density_per_site``: the same, per posterior node.
    ``num_alive``, ``num_pruned``, ``num_grown``: counts (the last two of this step). ``evidence_gained``: sum over the
    weights pruned in this step of the log evidence gained, in nats. ``readiness``: how far the posterior's scales have settled
    since the step before, from 0 (they still move) to 1; `prune.bookkeeping`. A method gives None for either where it has no
    notion of it; in the record of a fit or of a one-shot pruning it is NaN then.

    ``gains``: site -> array, log evidence gained by each weight's removal, nats, the same for weights that fall together: the
    order in which a verified act takes them, see `prune.verified`; ``order``: that of a method without evidence, the highest
    first. The others are filled in by who verifies and by who knows the network. All are None elsewhere (NaN in records).
    ``num_proposed``: candidates that were looked at; ``num_pruned`` are those of them that fell, and what no path needs without
    them. ``bound_gained``: by how much the ELBO of the whole data set, as the verifying rows estimate it, is higher after the
    act than before it, nats. ``num_connected``: alive weights on a living path, after the act.
    """

    density: jax.Array
    density_per_site: PyTree
    num_alive: jax.Array
    num_pruned: jax.Array
    num_grown: jax.Array
    evidence_gained: Any
    readiness: Any
    gains: PyTree = None
    order: PyTree = None
    num_proposed: Any = None
    bound_gained: Any = None
    num_connected: Any = None


class Pruned(NamedTuple):
    """The result of a one-shot pruning pass: parameters with the dead weights at exactly zero, the mask, and the record."""

    params: PyTree
    mask: PyTree
    info: Info

    def __repr__(self) -> str:
        connected = share_connected(self.mask, getattr(self.info, "num_connected", None))
        gained = number("evidence gained", getattr(self.info, "evidence_gained", None))
        return line("Pruned", share_pruned(self.mask), connected, gained)

    def net_params(self, bnn: Any) -> Any:
        """The network's own parameters at their posterior means, dead weights zero: see `BNN.net_params`."""
        return bnn.net_params(self.params, self.mask)


@runtime_checkable
class Sparsifier(Protocol):
    """A frozen dataclass of knobs with two pure methods. Equal knobs hash equally: compiled functions are found again.

    An attribute ``needs``, a `Needs`, says what it cannot do without; without one it works on any posterior by what `Evidence`
    always holds. An attribute ``warm_up``, a number, says at how many of its first steps it does nothing: a kernel's decays
    stay for so long, and `prune_once` goes past them. One that reactivates weights is `Renewing`, one that sets the decay of
    single weights `Weighing`: a third method says so.
    """

    def __hash__(self) -> int: ...

    def init(self, rng_key: jax.Array, posterior: PyTree) -> SparseState: ...

    def step(self, rng_key: jax.Array, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]: ...


@runtime_checkable
class Renewing(Protocol):
    """A sparsifier that reactivates weights, and says how those start: the posterior with them afresh."""

    def renew(self, posterior: PyTree, old_mask: Mask, new_mask: Mask) -> PyTree: ...


@runtime_checkable
class Weighing(Protocol):
    """A sparsifier that sets the decay of single weights.

    ``precision``: site -> array, what each weight's prior precision is to be beyond the model's, in the coordinates of loc; the
    kernel takes it by ``with_decay``.
    """

    def precision(self, state: SparseState) -> dict[str, jax.Array]: ...
