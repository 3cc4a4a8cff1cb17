"""Acts that are verified: single weights' evidence, or the law of a unit's scale, proposes; the bound of what is left disposes.

Derivation. A method's gains are each right for one weight with all others as they are; their sum over an act is no evidence for
the act, above all early in a training, when hardly any weight carries evidence yet and all go at once. What an act does to the
bound can be looked at: the ELBO under the reduced posterior of what stays,

  L(m) = sum_rows E_q(w | m) log p(y | x, w) - beta KL(q(w | m) || p(w | m)),     L(m) > L(0)      (2.9)

by the same rows and the same draw for every mask, beta the present weight of the divergence. Of nested masks, without all
candidates, then without smaller and smaller shares of them, the first is taken that is better than the next. While a fit is
still worse than the empty network, which predicts without inputs, L prefers to cut everything: only masks that beat the empty
one are admissible, and if none does, nothing is cut.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bayesprune.core import masks
from bayesprune.core.types import Info, PyTree, SparseState
from bayesprune.prune.bookkeeping import amend

# Shares of the candidates that are tried, those of the highest evidence of removal first: seven of them gave fits that are
# no better, and took four thirds of the time (benchmarks/course.md).
SHARES = (1.0, 0.5, 0.2, 0.05)
# Of the alive weights, the share of candidates for which a fit looks at all: less of them may wait for the next act, for to
# look costs several forward passes.
LEAST = 0.01
SAMPLED = 8192  # candidates by which a share's threshold is found, where there are more

Bound = Callable[[PyTree], Any]


def may_be_verified(info: Info) -> bool:
    """Whether an act has an order in which its weights go."""
    return info.gains is not None or info.order is not None


def verify(
    bound: Bound, posterior: PyTree, old: PyTree, new: SparseState, info: Info, least: float = 0.0
) -> tuple[SparseState, Info]:
    """The act from the mask ``old`` to ``new``, or the first share of it whose bound beats the next; and its record.

    Candidates are the weights that ``new`` cuts, and those besides whose removal alone gains evidence: a method that asks for
    more than that before it cuts, as `methods.BMR` does where most of a group is of use, asks so because nobody looks.

    ``bound``: mask -> ELBO of the whole data set, nats, the same rows and draws for every mask. ``info.gains``: the order in
    which weights go; of a method without evidence ``info.order``, and its candidates are what it cuts. ``least``: candidates
    of less than this share of the alive weights wait for a later act. Weights that vary together go all or none, for theirs is
    already evidence of the whole act.
    """
    order, candidates = {}, {}
    for site, node in posterior.items():
        proposed = old[site] & ~new.mask[site]
        if info.gains is None:
            order[site], candidates[site] = jnp.broadcast_to(info.order[site], proposed.shape), proposed
            continue
        gain, together = info.gains[site], node.together
        order[site] = _all_alike(gain, proposed) if together else gain
        candidates[site] = proposed if together else proposed | (old[site] & (gain > 0))
    number = masks.count(candidates)

    def cut(least: ArrayLike) -> PyTree:
        return {site: old[site] & ~(candidates[site] & (order[site] >= least)) for site in old}

    def search(_: None) -> tuple[PyTree, Float[Array, ""]]:
        # The mask as it was, then the shares from all of it down, and the empty one once a share is better than the mask as it
        # was: one loop, so that the bound is compiled once.
        thresholds = jnp.concatenate([jnp.array([jnp.inf]), _thresholds(order, candidates, number)])

        def look(at: _Search) -> _Search:
            mask = jax.tree.map(lambda m: m & ~at.asks, cut(thresholds[at.number]))
            return _judged(at, _nats(bound(mask)))

        first, unknown = jnp.zeros((), jnp.int32), jnp.array(jnp.nan)
        start = _Search(first, first, jnp.array(False), unknown, jnp.full(len(thresholds), -jnp.inf))
        found = jax.lax.while_loop(_goes_on, look, start)
        gained = jnp.where(found.best > 0, found.bounds[found.best] - found.bounds[0], 0.0)
        return cut(thresholds[found.best]), gained

    def nothing(_: None) -> tuple[PyTree, Float[Array, ""]]:
        return dict(old), jnp.zeros(())

    enough = (number > 0) & (number.astype(float) >= least * masks.count(old).astype(float))
    mask, gained = jax.lax.cond(enough, search, nothing, None)
    new, proposed = new._replace(mask=mask), jnp.where(enough, number, 0)
    return new, amend(info, old, new)._replace(num_proposed=proposed, bound_gained=gained)


class _Search(NamedTuple):
    """Bounds that were looked at, ``number`` of them; ``best``: which is to be taken, 0 for the mask as it was.

    ``empty``: the bound of the empty network, NaN until one of the others is better than the first; ``asks``: it is next.
    """

    number: Any
    best: Any
    asks: Any
    empty: Any
    bounds: Float[Array, " number"]


def _judged(at: _Search, value: Float[Array, ""]) -> _Search:
    """The search after a look at the empty mask, where it was to be next, or else at the next share."""
    empty = jnp.where(at.asks, value, at.empty)
    bounds = jnp.where(at.asks, at.bounds, at.bounds.at[at.number].set(value))
    number = jnp.where(at.asks, at.number, at.number + 1)
    last = bounds[number - 1]
    worthy = (number > 1) & (last >= bounds[0])
    # Of few candidates several shares are the same. Nothing is above a bound that is not known yet.
    better = worthy & (last > empty) & ((at.best == 0) | (last >= bounds[at.best]))
    return _Search(number, jnp.where(better, number - 1, at.best), worthy & jnp.isnan(empty), empty, bounds)


def _goes_on(at: _Search) -> Any:
    """Down the shares until one may be taken, and from there as long as none is worse than the one before."""
    return at.asks | ((at.number < len(at.bounds)) & ((at.best == 0) | (at.best == at.number - 1)))


def _nats(bound: ArrayLike) -> Float[Array, ""]:
    """What is no number is worst."""
    return jnp.where(jnp.isnan(bound), -jnp.inf, jnp.asarray(bound, float))


def _all_alike(gains: Float[Array, "..."], cut: jax.Array) -> Float[Array, "..."]:
    """The mean gain of what falls, for every weight."""
    mean = jnp.sum(jnp.where(cut, gains, 0.0)) / jnp.maximum(jnp.sum(cut), 1)
    return jnp.broadcast_to(mean, gains.shape)


def _thresholds(order: PyTree, candidates: PyTree, number: Int[Array, ""]) -> Float[Array, " shares"]:
    """The gain from which on a candidate goes, for each of `SHARES`; of many candidates by every n-th of them.

    To sort a million numbers takes as long as several training steps, and no share need be exact.
    """
    flat = jnp.concatenate([jnp.broadcast_to(order[site], one.shape).reshape(-1) for site, one in candidates.items()])
    there = jnp.concatenate([one.reshape(-1) for one in candidates.values()])
    size = min(SAMPLED, flat.size)
    every = jnp.maximum(-(-number // size), 1)
    index = every_nth(there, every, size)
    found = jnp.sort(jnp.where(jnp.isnan(flat), -jnp.inf, flat).at[index].get(mode="fill", fill_value=-jnp.inf))[::-1]
    kept = -(-number // every)
    last = jnp.ceil(jnp.asarray(SHARES) * kept.astype(float)).astype(jnp.int32) - 1
    # All of them whatever the sample has left out.
    return found[jnp.clip(last, 0, size - 1)].at[0].set(-jnp.inf)


# Entries counted together. Within the rows that hold what is looked for places are found by a product with a triangle of ones.
ROW = 32


def every_nth(there: Bool[Array, " n"], step: Int[ArrayLike, ""], size: int) -> Int[Array, " size"]:
    """Positions of the 1st, (1 + step)-th, (1 + 2 step)-th ... True of ``there``, ``size`` of them; n where there are no more.

    ``step``, at least 1, may be traced. A running sum over a million entries takes as long as several training steps: here it
    runs over counts of `ROW` of them.

    >>> print(every_nth(jnp.array([True, False, True, True, False, True]), 2, 3))
    [0 3 6]
    """
    rows = jnp.pad(there, (0, -there.size % ROW)).reshape(-1, ROW)
    counts = jnp.sum(rows, axis=1, dtype=jnp.int32)
    ends = jnp.cumsum(counts)
    wanted = jnp.arange(size, dtype=jnp.int32) * step
    row = jnp.searchsorted(ends, wanted, side="right")
    found, row = row < len(rows), jnp.minimum(row, len(rows) - 1)
    inside = rows[row]
    # How many come before each entry of its row: whole numbers up to `ROW`, exact in any float.
    before = jnp.dot(inside.astype(np.float32), np.triu(np.ones((ROW, ROW), np.float32), 1))
    rank = (wanted - (ends - counts)[row]).astype(np.float32)
    column = jnp.argmax(inside & (before == rank[:, None]), axis=1)
    return jnp.where(found, row * ROW + column, there.size)
