"""The records of a fit, below everything that uses them: what changes from step to step, what does not, what is compiled."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
from jax.stages import Wrapped
from numpyro.infer import ELBO

from bayesprune.core.types import Dataset, Info, Mask, Params, PyTree, SparseState, Sparsifier
from bayesprune.model.elbo import Single, Slices
from bayesprune.model.program import Trainable
from bayesprune.train.batches import Block, Padded, Reading
from bayesprune.train.kernel import Kernel
from bayesprune.train.storage import MASKED, Storage

CHUNK = 500  # the longest run of steps inside one call: the size of the buffer of losses
Data = Dataset | Block | Padded


def as_it_is(rng_key: jax.Array, x: PyTree) -> PyTree:
    """The augmentation that changes nothing."""
    return x


class Carry(NamedTuple):
    """All that changes from step to step.

    ``params`` are unconstrained, and as the storage keeps them; ``rng_key`` never changes, steps fold themselves in. ``begun``:
    steps of the fits that this one goes on from, which never changes: their noise is not drawn again.
    """

    params: Params
    opt_state: PyTree
    mutable: Params
    step: jax.Array
    rng_key: jax.Array
    batches: Reading
    begun: jax.Array

    @property
    def step_key(self) -> jax.Array:
        """The key of the next step."""
        return jax.random.fold_in(self.rng_key, self.begun + self.step)


@dataclass(frozen=True)
class Recipe:
    """What a fit is made of, and what does not change in it. Equal fits share compiled functions.

    ``verified``: by how many minibatches acts are verified before they are taken, see `prune.verified`; 0: they are not.
    ``computes``: stands for the fields of functions where recipes are compared; `make_recipe` gives it what they compute. Left
    out, they equal themselves alone.
    """

    program: Trainable
    elbo: ELBO
    kernel: Kernel = field(compare=False)
    sparsifier: Sparsifier
    kl_weight: Callable[[jax.Array], Any] = field(compare=False)
    batch_size: int
    keywords: tuple[tuple[str, Any], ...]
    mesh: jax.sharding.Mesh | None
    augment: Callable[[jax.Array, jax.Array], jax.Array] = field(default=as_it_is, compare=False)
    storage: Storage = MASKED
    remat: bool = False
    verified: int = 0
    computes: Hashable = None

    def __post_init__(self) -> None:
        if self.computes is None:
            object.__setattr__(self, "computes", (self.kernel, self.kl_weight, self.augment))


class Compiled(NamedTuple):
    """The jitted functions of a `train.loop.Loop`; see its methods."""

    init: Wrapped
    run: Wrapped
    keep: Callable[..., Carry]
    whole: Callable[..., tuple[Params, Mask]]
    prune: Callable[..., tuple[SparseState, Info]]
    renew: Callable[..., Carry]
    weigh: Callable[..., Carry]
    redraw: Callable[..., Carry]
    whole_mask: Callable[[Mask], Mask]
    evaluated: Callable[[Carry], Params]
    constrain: Callable[[Params], Params]
    unconstrain: Callable[[Params], Params]
    storage: Storage


class FitState(NamedTuple):
    """``carry``, ``sparse``: the state of now; ``best``: a copy of that of the best evaluation, where it is to be returned.

    ``planned``: steps that the training was first planned to have, of which schedules take their share. ``reading``: where the
    reading of the data is, if the step alone does not say it; what JSON holds. ``slices``: those of the weight
    arrays on which the steps are done; none: whole arrays. ``single``: arrays of which the steps hold single entries alone.
    """

    carry: Carry
    sparse: SparseState
    best: tuple[Carry, SparseState] | None = None
    planned: int = 1
    reading: Any = None
    slices: Slices = ()
    single: Single = ()
