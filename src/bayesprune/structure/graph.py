"""The graph of a network: its weights' roles, the signals between them, and which weights carry which signal to which; and what
is known of an array while it is read: of which signals it consists, or of which entries of which weights.

An array of labels has the rank of the array that it describes, and size 1 along every axis along which its labels are the same.
So an image of 32 x 32 pixels and 64 channels is described by 64 labels, and most steps cost next to nothing.
"""

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

Labels = Int[np.ndarray, "..."]
Shape = tuple[int, ...]
NOTHING = -1  # the label of an entry that is exactly zero
CONSTANT = 0  # the signal that is always there, whatever the weights: constants, and the rows of data


@dataclass(frozen=True)
class Signals:
    """An array that is no mere view of a weight: labels are numbers of signals, -1 where it is exactly zero.

    A signal is what stands or falls together: a unit's value, a channel's map, in one array of the net. ``of_rows``: whether
    the data enter. ``upstream``: bits of all weights that enter. ``heads``: bits of the kernels whose products reach this
    array with no other kernel between. ``literal``: the number, of a number written in the program; ``array``: the numbers, of
    an array of them. ``form`` and ``scaled_by``: how far the array has come in a normalisation, see `structure.elementwise`.
    """

    labels: Labels
    of_rows: bool = False
    upstream: int = 0
    heads: int = 0
    literal: float | None = None
    array: np.ndarray | None = None
    form: str = ""
    scaled_by: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.labels.shape

    @property
    def constant(self) -> bool:
        """Whether neither data nor weights enter."""
        return not (self.of_rows or self.upstream)

    @property
    def of_weights(self) -> bool:
        """Whether it is made of weights, and not of data."""
        return bool(self.upstream) and not self.of_rows

    @property
    def steady(self) -> bool:
        """Whether it is the same for all that is known: a constant, or made of weights that are kept whole."""
        return not self.of_rows and bool(((self.labels == CONSTANT) | (self.labels == NOTHING)).all())

    def labelled(self, labels: Labels) -> "Signals":
        """The same, at other places or of them all."""
        return replace(self, labels=labels, array=None)

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
        """The numbers themselves, written out in this shape and NumPy's or a key's dtype; None: they are not known."""
        known = self.array if self.array is not None else self.literal
        return None if known is None else np.broadcast_to(np.asarray(known, dtype), shape)

    @property
    def zero(self) -> bool:
        return bool((self.labels == NOTHING).all())


class Whole(NamedTuple):
    """A whole weight array: the number of its first entry, its shape, its axes in the order of a view."""

    start: int
    shape: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True)
class Weights:
    """A view of weights: ``entries`` are numbers of weights, counted through all arrays of the net, -1 where it is zero.

    ``axes``: for each axis the bits of the site's axes that run along it. ``whole``: where the view is one whole array, or one
    transposed, its number of the first entry and shape, and the array's axes in the order of the view; its entries are then
    written out only when they are asked for. ``solid``: an entry that is zero does not make the view zero. ``stride``: the view
    is what a loop that is read but once cuts out in its first turn; from turn to turn the entries grow by so much, None: it is
    not known.
    """

    sites: tuple[int, ...]
    axes: tuple[int, ...]
    whole: Whole | None = None
    listed: Labels | None = None
    solid: bool = False
    form: str = ""
    stride: int | None = 0
    of_weights = True

    @property
    def shape(self) -> tuple[int, ...]:
        if self.listed is not None:
            return self.listed.shape
        assert self.whole is not None
        return tuple(self.whole.shape[axis] for axis in self.whole.order)

    @property
    def entries(self) -> Labels:
        if self.listed is not None:
            return self.listed
        assert self.whole is not None
        start, shape = self.whole.start, self.whole.shape
        return np.arange(start, start + math.prod(shape)).reshape(shape).transpose(self.whole.order)

    @property
    def upstream(self) -> int:
        return sum(1 << site for site in self.sites)

    def shows_what(self, other: "Weights") -> bool:
        """Whether both show the same entries at the same places."""
        return self.sites == other.sites and self.whole == other.whole and self.listed is other.listed

    def showing(self, entries: Labels, axes: tuple[int, ...] | None = None) -> "Weights":
        """Other entries of the same arrays."""
        return replace(self, listed=entries, whole=None, axes=self.axes if axes is None else axes)


Value = Signals | Weights

# ---- the graph


class Terms(NamedTuple):
    """A bundle of products, each adding to one signal: ``target += source * other * weight``.

    Arrays of signal numbers that broadcast with one another, and with (classes, *shape of the site) where there is a site;
    -1: no such term. ``other``: a second signal, or None. ``site``: the weight array whose entries are factors, "" for none.
    ``solid``: a weight of zero does not make the product zero.
    """

    target: Labels
    source: Labels
    other: Labels | None = None
    site: str = ""
    solid: bool = False


class Product(NamedTuple):
    """A matrix product or a convolution: JAX's primitive and its parameters, the shapes of both factors and of the result,
    what is known of the factors, and how often it is done."""

    primitive: Any
    params: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    factors: tuple[Value, Value]
    turns: int = 1


@dataclass(frozen=True)
class Role:
    """What one weight array does.

    ``inputs``, ``outputs``, ``positions``: its axes that run over what it reads, over what it makes, and over the positions of
    a convolution's kernel, or of a position embedding; an array without inputs (a bias, a scale) is applied entry by entry.
    ``channel_groups``: of a convolution, in how many groups of outputs each reads channels of its own; ``inputs`` runs over
    those of one. ``looked_up``: its inputs are chosen one at a time, as by an embedding. ``is_norm``: it is a scale, shift or
    threshold of a normalisation. ``is_last``: no kernel lies between it and the outputs of the network. ``used``: the network
    reads it at all. ``reads`` and ``beside``: as of a `ParamSpec`.
    """

    shape: tuple[int, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    channel_groups: int = 1
    looked_up: bool = False
    is_norm: bool = False
    is_last: bool = False
    used: bool = True
    reads: tuple[str, ...] | None = None
    beside: tuple[str, ...] = ()

    @property
    def fan_in(self) -> int:
        """Numbers that enter one output: inputs x positions; 1 where entries are looked up or applied one by one."""
        return self._size(self.inputs + self.positions) if self.inputs and not self.looked_up else 1

    @property
    def fan_out(self) -> int:
        """Numbers that one input enters: outputs x positions."""
        return self._size(self.outputs + self.positions)

    def _size(self, axes: tuple[int, ...]) -> int:
        return math.prod(self.shape[axis] for axis in axes)


@dataclass(frozen=True, eq=False)
class Graph:
    """What `read` finds in a network.

    ``roles``: by site, in the order of first use, unused ones first. ``terms``: in the order of the program. ``outputs``:
    the signals that the network gives out. ``ties``: (pairs, 2), signals that live and die together: the same unit before and
    after an activation, the terms of a residual sum. ``blend``: signals that mix several units, as the mean over channels does.
    ``unfollowed``: {site or operation: why}: those sites are kept whole by `connected`, and have no units. ``products``: in the
    order of the program; of factors that are views of weights, entries count through the arrays of ``sites``. ``unsettled``: an
    operation that decides only when it runs how often products in it are done, "" for none.
    """

    roles: Mapping[str, Role]
    terms: tuple[Terms, ...]
    outputs: Int[np.ndarray, " outputs"]
    ties: Int[np.ndarray, "pairs 2"]
    loose: Int[np.ndarray, "more 2"]
    blend: np.ndarray
    unfollowed: Mapping[str, str]
    products: tuple[Product, ...] = ()
    sites: tuple[str, ...] = ()
    unsettled: str = ""

    def __repr__(self) -> str:
        """Counts: its arrays have millions of numbers."""
        kept = f", {len(self.unfollowed)} kept whole" if self.unfollowed else ""
        return f"<Graph of {len(self.roles)} weight arrays, {self.num_signals} signals{kept}>"

    @property
    def num_signals(self) -> int:
        return len(self.blend)


# ---- labels
def bits_of(sets: Iterable[int]) -> int:
    """The bits that are in any of some sets."""
    return functools.reduce(operator.or_, sets, 0)


def made_of(labels: Labels, operands: Sequence[Value]) -> Signals:
    """An array with these labels into which all of ``operands`` enter."""
    signals = [value for value in operands if isinstance(value, Signals)]
    return Signals(
        labels,
        of_rows=any(value.of_rows for value in signals),
        upstream=bits_of(value.upstream for value in operands),
        heads=bits_of(value.heads for value in signals),
    )


def compress(array: np.ndarray) -> np.ndarray:
    """The same labels, or numbers, with size 1 along every axis along which they do not change.

    >>> compress(np.array([[3, 4], [3, 4]])).tolist()
    [[3, 4]]
    """
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] > 1 and (array == first).all():
            array = first
    return array


def expand(labels: Labels, axis: int, size: int) -> Labels:
    """The labels written out along one axis."""
    return np.broadcast_to(labels, (*labels.shape[:axis], size, *labels.shape[axis + 1 :]))


def joined(one: Labels, other: Labels, count: int) -> Labels:
    """A number for each of ``count`` things, the same for those that pairs (one, other) hold together, directly or by others.

    >>> joined(np.array([0, 3]), np.array([2, 2]), 4).tolist()
    [0, 1, 0, 0]
    """
    pairs = coo_matrix((np.ones(len(one), np.int8), (one, other)), shape=(count, count))
    return np.asarray(connected_components(pairs, directed=False)[1])
