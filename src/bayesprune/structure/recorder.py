"""What is written down while a net is read: signals are numbered here, their terms and ties listed, weights' axes noted."""

import math
from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.layout import MOVED, ROWS
from bayesprune.structure.graph import CONSTANT, NOTHING, Labels, Product, Signals, Terms, Weights, Whole, bits_of, compress


class Before:
    """Bits: those of the kernels, then one for each array of rows, and one that says that an order is not kept.

    ``rows``: the shape of a row of each array. ``of``: the bits of what lies directly before each kernel.
    """

    def __init__(self, num_sites: int, rows: Sequence[tuple[int, ...]]) -> None:
        self.of_kernels = (1 << num_sites) - 1
        self.rows = [1 << (num_sites + place) for place in range(len(rows))]
        self.of: dict[int, int] = {}
        self._moved = 1 << (num_sites + len(rows))
        self._shapes = rows

    def moved(self, heads: int) -> int:
        """The same where the order is not kept; what is made of nothing stays so."""
        return heads | self._moved if heads else 0

    def met(self, heads: int, reads: int) -> int:
        """The same for a kernel that reads so many numbers: of rows all of them, or all along their last axis."""
        for bit, shape in zip(self.rows, self._shapes, strict=True):
            if heads & bit and reads not in (math.prod(shape), *shape[-1:]):
                return self.moved(heads)
        return heads

    def named(self, heads: int, names: Sequence[str]) -> tuple[str, ...]:
        """The names of bits, the rows first."""
        several = len(self.rows) > 1
        rows = [f"{ROWS}{place}" if several else ROWS for place, bit in enumerate(self.rows) if heads & bit]
        kernels = [name for site, name in enumerate(names) if heads >> site & 1]
        return (*rows, *kernels, *([MOVED] if heads & self._moved else []))


LARGEST = 1 << 22  # more labels than this for one array are not worth their while


class Recorder:
    """Everything that is written down while a net is read; sites are numbers here, in the order of ``names``."""

    def __init__(self, names: Sequence[str], shapes: Sequence[tuple[int, ...]], rows: Sequence[tuple[int, ...]] = ()) -> None:
        self.names, self.shapes = list(names), [tuple(shape) for shape in shapes]
        sizes = [math.prod(shape) for shape in self.shapes]
        self.starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.terms: list[Terms] = []
        self.products: list[Product] = []
        self.turns: tuple[int, ...] = ()  # of the loops around, as far as they are read but once
        self.unsettled = ""
        self.ties: list[np.ndarray] = []
        self.loose: list[np.ndarray] = []
        self.order: dict[int, None] = {}
        self.axes: dict[int, dict[str, tuple[int, ...]]] = {}
        self.looked_up: set[int] = set()
        self.channel_groups: dict[int, int] = {}
        self.norms = 0
        self.behind: dict[int, int] = {}  # kernel -> weights that its inputs depend on
        self.before = Before(len(self.names), rows)
        self.trailing: dict[int, int] = {}  # weight applied entry by entry -> heads of what it is applied to
        self.unfollowed: dict[str, str] = {}
        self._targets: dict[int, Labels] = {}
        self._blend = np.zeros(1024, bool)
        self._blend[CONSTANT] = True
        self.num_signals = 1

    # ---- signals
    def new(self, shape: tuple[int, ...], blend: ArrayLike = False) -> Labels:
        """Signals that were not there before, one for each entry of ``shape``; ``blend``: whether they mix several units."""
        first, self.num_signals = self.num_signals, self.num_signals + math.prod(shape)
        if self.num_signals > len(self._blend):
            self._blend = np.concatenate([self._blend, np.zeros(self.num_signals, bool)])
        labels = np.arange(first, self.num_signals, dtype=np.int64).reshape(shape)
        self._blend[first : self.num_signals] = np.broadcast_to(blend, shape).ravel()
        return labels

    def blend(self, labels: Labels) -> np.ndarray:
        """Whether a signal is no unit of its own: a mixture of several, a constant, or nothing."""
        return np.asarray(self._blend[labels] | (labels == NOTHING))

    def tie(self, some: Labels, others: Labels) -> None:
        """What is said of one of a pair of signals holds for the other: they are one unit."""
        some, others = np.broadcast_arrays(some, others)
        both = ~(self.blend(some) | self.blend(others)) & (some != others)
        if both.any():
            self.ties.append(np.stack([some[both], others[both]], axis=1))

    def tie_each(self, made: Labels, labels: Labels) -> None:
        """Tie signals to those that they are made of, entry by entry.

        A signal that enters several, as a gate of one unit that multiplies all channels, is noted apart: it is a unit with them
        only if they are one without it.
        """
        pairs = np.stack([side.ravel() for side in np.broadcast_arrays(made, labels)])
        if made.size > 1:  # a pair as one number, which sorts many times faster
            base = self.num_signals + 1
            pairs = np.stack(np.divmod(np.unique((pairs[0] + 1) * base + pairs[1] + 1), base)) - 1
        _, where, times = np.unique(pairs[1], return_inverse=True, return_counts=True)
        once = times[where] == 1
        self.tie(pairs[0, once], pairs[1, once])
        if not once.all():
            made, labels = pairs[:, ~once & ~self.blend(pairs[0]) & ~self.blend(pairs[1])]
            self.loose.append(np.stack([made, labels], axis=1))

    def merge(self, labels: Labels, axes: Sequence[int], tie: bool) -> Labels:
        """One signal for all that lie along ``axes``, which keep size 1; ``tie``: they go together from here on.

        So a kernel that passes over positions reads one signal a channel, whatever the positions hold.
        """
        axes = tuple(axes)
        if all(labels.shape[axis] == 1 for axis in axes):
            return labels
        kept = [axis for axis in range(labels.ndim) if axis not in axes]
        kept_shape = tuple(labels.shape[axis] for axis in kept)
        rows = labels.transpose(*kept, *axes).reshape(math.prod(kept_shape), -1)
        rows, inverse = different_rows(np.sort(rows, axis=1))
        # Sorted, so that zeros come first and the last is the largest.
        least = np.where(rows == NOTHING, rows[:, -1:], rows).min(axis=1)
        single = least == rows[:, -1]
        merged = rows[:, -1].copy()
        several = rows[~single]
        if len(several):
            mixed = self.blend(several).all(axis=1) if tie else True
            merged[~single] = self.new((len(several),), mixed)
            self.terms.append(Terms(merged[~single][:, None], several))
            if tie:
                self.tie(merged[~single][:, None], several)
        shape = [1 if axis in axes else size for axis, size in enumerate(labels.shape)]
        return merged[inverse].reshape(shape)

    # ---- weights
    def view(self, site: int) -> Weights:
        """A whole weight array, as it is."""
        shape = self.shapes[site]
        axes = range(len(shape))
        return Weights((site,), tuple(1 << axis for axis in axes), Whole(int(self.starts[site]), shape, tuple(axes)))

    def weigh(self, weights: Weights, target: Labels, source: Labels, other: Labels | None = None) -> None:
        """Terms with weights as factors. Arrays broadcast with (classes, *shape of the view)."""
        arrays = [target, source] if other is None else [target, source, other]
        if weights.whole is not None:
            back = (0, *(1 + weights.whole.order.index(axis) for axis in range(len(weights.shape))))
            self._write(weights.sites[0], [array.transpose(back) for array in arrays], weights.solid)
            return
        for site in weights.sites:
            self._scatter(site, weights, arrays)

    def _scatter(self, site: int, weights: Weights, arrays: list[Labels]) -> None:
        """Bring terms from the places of a view back to those of the site that it shows."""
        start, stop = self.starts[site : site + 2]
        entries = weights.entries
        here = (entries >= start) & (entries < stop)
        index = entries[here] - start
        again = _repeats(index)
        classes = np.broadcast_shapes(*((array.shape[0],) for array in arrays))[0]
        copies = int(again.max(initial=0)) + 1
        whole = []
        for array in arrays:
            out = np.full((classes, copies, int(stop - start)), NOTHING, np.int64)
            out[:, again, index] = np.broadcast_to(array, (classes, *entries.shape))[:, here]
            whole.append(compress(out.reshape(classes * copies, *self.shapes[site])))
        self._write(site, whole, weights.solid)

    def _write(self, site: int, arrays: list[Labels], solid: bool) -> None:
        target, source, other = (*arrays, None)[:3]
        assert target is not None and source is not None
        first = self._targets.setdefault(site, target)
        if first is not target and first.shape == target.shape:  # used again the same way, as by the next turn of a loop
            self.tie(first, target)
        self.terms.append(Terms(target, source, other, self.names[site], solid))

    def as_signals(self, weights: Signals | Weights, reason: str) -> Signals:
        """Weights that are used as data, such as a class token: each entry becomes a signal of its own. Signals stay."""
        if isinstance(weights, Signals):
            return weights
        if math.prod(weights.shape) > LARGEST:
            return self.pin(weights, reason)
        self.use(weights, 0)
        labels = np.where(weights.entries == NOTHING, NOTHING, self.new(weights.shape))
        self.weigh(weights, labels[None], np.full((1,) * (labels.ndim + 1), CONSTANT))
        return Signals(labels, upstream=weights.upstream)

    def pin(self, weights: Weights, reason: str) -> Signals:
        """Give up on following weights: they are kept whole, and what is made of them is taken for always there."""
        for site in weights.sites:
            self.order.setdefault(site)
            self.unfollowed.setdefault(self.names[site], f"{reason}: kept whole")
        return Signals(np.full((1,) * len(weights.shape), CONSTANT), upstream=weights.upstream)

    def use(self, weights: Weights, heads: int) -> None:
        """Note weights that are applied entry by entry, and what they are applied to."""
        for site in weights.sites:
            self.order.setdefault(site)
            self.trailing.setdefault(site, heads & self.before.of_kernels)

    def role(self, weights: Weights, upstream: int, heads: int, **axes: Sequence[int]) -> int:
        """Note the role of weights that multiply, and what they read: axes of the view by role. Returns bits of sites."""
        along = {name: bits_of(weights.axes[axis] for axis in of_view) for name, of_view in axes.items()}
        for site in weights.sites:
            self.order.setdefault(site)
            own = range(len(self.shapes[site]))
            self.axes.setdefault(site, {name: tuple(axis for axis in own if bits >> axis & 1) for name, bits in along.items()})
        if not self.looked_up & set(weights.sites):
            heads = self.before.met(heads, math.prod(weights.shape[axis] for axis in axes["inputs"]))
        self.reads(weights.upstream, upstream, heads)
        return weights.upstream

    def reads(self, kernels: int, upstream: int, heads: int) -> None:
        """Note weights that the inputs of kernels depend on, and what lies directly before them, all as bits."""
        for site in range(len(self.names)):
            if kernels >> site & 1:
                self.behind[site] = self.behind.get(site, 0) | upstream
                self.before.of[site] = self.before.of.get(site, 0) | heads


def different_rows(rows: Labels) -> tuple[Labels, Labels]:
    """The different rows of a matrix, and which of them each row is."""
    # Runs of equal rows first: most often there is but one.
    starts = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])
    runs = np.cumsum(starts) - 1
    if runs[-1] == 0:
        return rows[:1], runs
    found, inverse = np.unique(rows[starts], axis=0, return_inverse=True)
    return found, inverse.ravel()[runs]


def _repeats(index: np.ndarray) -> np.ndarray:
    """For each number how often it came before.

    >>> _repeats(np.array([5, 3, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    if (np.diff(index) > 0).all():
        return np.zeros(len(index), np.int64)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.append(starts, len(index)))
    again = np.empty(len(index), np.int64)
    again[order] = np.arange(len(index)) - np.repeat(starts, lengths)
    return again
