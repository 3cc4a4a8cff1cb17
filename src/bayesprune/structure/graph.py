"""The graph of a network: its weights' roles, the signals between them, and which weights carry which signal to which."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from bayesprune.structure.values import Labels, Value


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
