"""The grammar: the few types that every floor above speaks.

A *posterior* is a tree whose nodes are `MeanField` or `SpikeSlab`. A *mask* is a whole tree of booleans of the same outer
structure, True = alive; what is not prunable is not in the tree. A *sparsifier* turns evidence about a posterior into a
new mask, purely.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

from bayesprune.core.shown import line, number, share_connected, share_pruned

PyTree = Any
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MeanField:
    """Independent Gaussians, q(w_hat) = N(loc, scale²) for every element, and what they mean in the network.

    ``prior_scale``: standard deviation of the Gaussian prior N(0, prior_scale²) in the coordinates of ``loc``; None where the
    prior is no Gaussian, and then there is no evidence. ``unit``: the network's weight is w = unit w_hat, and ``loc * unit`` is
    the mean of the weight itself. Both are numbers, or arrays that broadcast to ``loc``. The defaults say: a weight in its
    own units under N(0, 1).
    """

    loc: Any
    scale: Any
    prior_scale: Any = 1.0
    unit: Any = 1.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled(MeanField):
    """A mean field whose weights share random scales: w = s w_hat, one s for all weights of a unit; ``unit`` is E s.

    ``law``: what the posterior says of the scales, one of the records of `bayesprune.posteriors` with arrays that broadcast to
    ``loc``: `LogNormalScale`, `GaussianScale`, `TruncatedLogNormalScale`. Each has the ``mean`` and the ``variance`` of s.
    """

    law: Any = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SpikeSlab:
    """Spike and slab, q(w_hat) = p N(loc, scale²) + (1 - p) spike, with inclusion probability p = sigmoid(logit).

    ``unit``: the network's weight is w = unit w_hat, as of `MeanField`.
    """

    loc: Any
    scale: Any
    logit: Any
    unit: Any = 1.0


@runtime_checkable
class Standalone(Protocol):
    """A network that holds its own weights and predicts by itself, as a compact one does.

    ``task``: "classes", "binary", "numbers" or "other"; ``noise``: of "numbers", the noise's scale, else None.
    """

    task: str

    def noise(self, num_samples: int = 100) -> Any: ...

    def predict(self, x: Any, *, rng_key: Any = None, num_samples: int = 100) -> Any: ...

    def predict_draws(self, rng_key: Any, x: Any, num_samples: int = 100) -> Any: ...


class Gradient(NamedTuple):
    """How the gradient that a sparsifier reads is to be taken.

    ``at_mean``: at w = loc, in place of one draw of the posterior. ``num_draws``: the mean of its absolute value over so many
    draws, each of a minibatch of its own (1: the gradient itself). ``divergence``: of the whole loss for weights that are
    alive, in place of the likelihood's part alone.
    """

    at_mean: bool = False
    num_draws: int = 1
    divergence: bool = False


def varies_together(node: Any) -> bool:
    """Whether the weights of a node are correlated: then a cut moves the others, by its ``given_zero(alive)``.

    >>> varies_together(MeanField(0.0, 1.0))
    False
    """
    return hasattr(node, "given_zero")


class Needs(NamedTuple):
    """What a sparsifier needs, and what it promises; `prune.needs.check_needs` compares it with what there is.

    ``node``: kind of the posterior's nodes. ``evidence``: a Gaussian prior of every weight. ``spread``: a scale above zero; a
    posterior of points has none. ``gradient``: how the gradient in `Evidence` is to be taken. ``renewal``: it reactivates
    weights, and has a third method, ``renew(posterior, old_mask, new_mask) -> posterior``, that says how those start.
    ``first_counts``: its first mask says how many weights are alive from then on; ``constant_counts``: in each array apart.
    ``groups``: the name of the `Groups` in `Evidence`, as `model.groups.groups` knows them; "" for none.
    ``law``: kind, or kinds as ``A | B``, of the law of the unit's scales, where it reads that of `Scaled` nodes; else None.
    ``decay``: it sets the decay of single weights, and has a third method, ``precision(state) -> site -> array``, what each
    weight's prior precision is to be beyond the model's, in the coordinates of loc; the kernel takes it by ``with_decay``.
    ``whole``: of a matrix normal it cuts whole rows and columns, as those of the ``groups`` "unit" and "head" do by themselves.
    ``loss``: it compares masks by the loss of the data, `Evidence.loss`. ``chain``: it is a move of a sampler's own chain, and
    refused elsewhere; before it acts, dead weights are drawn anew from their prior, so that it may bring them to life.
    """

    node: type = MeanField | SpikeSlab  # type: ignore[assignment]
    evidence: bool = False
    spread: bool = False
    gradient: Gradient = Gradient()
    renewal: bool = False
    first_counts: bool = False
    constant_counts: bool = False
    groups: str = ""
    law: Any = None
    decay: bool = False
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
    of a whole mask, ``loss(mask)``, -log p(y | w) of the whole data set in nats, at the weights that stand (of a posterior with
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
    since the step before, from 0 (they still move) to 1; see `prune.readiness`. A method gives None for either where it has no
    notion of it; in the record of a fit or of a one-shot pruning it is NaN then.

    ``gains``: site -> array, log evidence gained by each weight's removal, nats, the same for weights that fall together: the
    order in which a verified act takes them, see `prune.verified`. None where the method has none, and in records.

    The others are filled in by who verifies and by who knows the network, and None elsewhere (NaN in records).
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
    stay for so long, and `prune_once` goes past them.
    """

    def __hash__(self) -> int: ...

    def init(self, rng_key: jax.Array, posterior: PyTree) -> SparseState: ...

    def step(self, rng_key: jax.Array, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]: ...
