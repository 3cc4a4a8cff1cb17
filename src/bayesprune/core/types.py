"""The grammar: the few types that every floor above speaks.

A *posterior* is a tree whose nodes are `MeanField` or `SpikeSlab`. A *mask* is a whole tree of booleans of the same outer
structure, True = alive; what is not prunable is not in the tree. A *sparsifier* turns evidence about a posterior into a
new mask, purely.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

PyTree = Any


class Dataset(NamedTuple):
    """Inputs and targets, row by row.

    Shapes: ``x`` (rows, *input_shape); ``y`` (rows,) integer class labels, or (rows,) or (rows, outputs) real targets.
    Any pair with these two fields, NumPy or JAX, is taken wherever a data set is asked for.
    """

    x: Any
    y: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MeanField:
    """Independent Gaussians, q(w) = N(loc, scale²) for every element.

    ``coordinates`` says what ``loc`` and ``scale`` describe: ``"prior"``, the non-centred weights whose prior is N(0, 1)
    (every prior of `bayesprune.priors` writes its posterior so), or ``"weight"``, the network's own weights.
    """

    loc: Any
    scale: Any
    coordinates: str = field(default="prior", metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SpikeSlab:
    """Spike and slab, q(w) = p N(loc, scale²) + (1 - p) spike, with inclusion probability p = sigmoid(logit)."""

    loc: Any
    scale: Any
    logit: Any
    coordinates: str = field(default="prior", metadata={"static": True})


class Evidence(NamedTuple):
    """What a sparsifier may look at: the posterior of the prunable weights, and the loss's gradient in every one of them.

    ``gradient`` has one array per posterior node, dead weights included. A method that does not read it costs nothing:
    the compiler drops the pass that would have made it.
    """

    posterior: PyTree
    gradient: PyTree


class Look(NamedTuple):
    """How the gradient that a sparsifier is shown is to be taken; what it does not name is as `Evidence` has it.

    ``at_mean``: at w = loc, in place of one draw of the posterior. ``num_draws``: the mean of its absolute value over so many
    draws, each of a minibatch of its own (1: the gradient itself). ``divergence``: of the whole loss for weights that are
    alive, in place of the likelihood's part alone.
    """

    at_mean: bool = False
    num_draws: int = 1
    divergence: bool = False


class SparseState(NamedTuple):
    """What a sparsifier carries from step to step.

    ``mask``: tree of booleans, True = alive. ``prior_scale``: tree of the prior's standard deviations in the posterior's
    coordinates, scalars or arrays. ``memory``: whatever the method remembers, a pytree. ``step``: how often it has acted.
    """

    mask: PyTree
    prior_scale: PyTree
    memory: PyTree
    step: jax.Array


class Info(NamedTuple):
    """What a pruning step did, for the eye; the same fields for every method.

    ``density``: alive fraction of all prunable weights. ``density_per_site``: the same, per posterior node.
    ``num_alive``, ``num_pruned``, ``num_grown``: counts (the last two of this step). ``evidence_gained``: sum over the
    weights pruned in this step of the log evidence gained, in nats (NaN where a method has no notion of it).
    ``readiness``: how far the posterior's scales have settled since the step before, from 0 (they still move) to 1; NaN where
    one posterior is all there is. See `prune.readiness`.
    """

    density: jax.Array
    density_per_site: PyTree
    num_alive: jax.Array
    num_pruned: jax.Array
    num_grown: jax.Array
    evidence_gained: jax.Array
    readiness: jax.Array


class Pruned(NamedTuple):
    """The result of a one-shot pruning pass: parameters with the dead weights at exactly zero, the mask, and the record."""

    params: PyTree
    mask: PyTree
    info: Info


@runtime_checkable
class Sparsifier(Protocol):
    """A frozen dataclass of knobs with two pure methods. Equal knobs hash equally: compiled functions are found again.

    One that needs more of a posterior than a mean and a spread says so in a class attribute, ``reads = SpikeSlab``. One that
    wakes weights may have a third method, ``renew(posterior, old_mask, new_mask) -> posterior``, which says how those start; an
    attribute ``look``, a `Look`, says which gradient it wants; ``keeps_counts``, True where each array has the same number
    of alive weights throughout; ``points_too``, True where it can rank a posterior without spread.
    """

    def __hash__(self) -> int: ...

    def init(self, rng_key: jax.Array, posterior: PyTree) -> SparseState: ...

    def step(self, rng_key: jax.Array, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]: ...
