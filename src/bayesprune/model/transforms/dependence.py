"""What a value inside a network owes to the rows of the data and to the noises made there: the bookkeeping of local noise.

A pass over the traced network (see `local_noise`) gives every variable a `Dependence`, or calls it an `Image` of a weight.
Noise that is made anew for every row has the law of one sampled weight as long as two things hold of whatever comes of it:

* nothing but a linear map (at last the sum of a loss over the rows) sees the noises of several rows together;
* nothing but a linear map sees two noises of one weight together.

Under linear maps the mean stays right, and that is all that is asked of a sum over rows. A weight for which either fails is
drawn once: the `Ledger` writes it down, and the pass is repeated without it.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Use(NamedTuple):
    """One place where a weight met data and noise was made. ``customary``: positions of a convolution, taken for rows."""

    site: int
    number: int
    customary: bool = False


class Dependence(NamedTuple):
    """A value that is no weight: its axis of rows, the noises in it, and those of them that only linear maps may see."""

    axis: int | None = None
    uses: frozenset[Use] = frozenset()
    mixed: frozenset[Use] = frozenset()


class Image(NamedTuple):
    """A linear image of a Gaussian weight, its elements independent and no two of them of one element of the weight."""

    site: int


Kind = Dependence | Image


@dataclass
class Ledger:
    """One pass's notes: which weights are drawn once, and numbers for the noises of the others."""

    shared: str
    drawn: set[int] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def draw(self, uses: Iterable[Use]) -> None:
        """Have the weights of these noises drawn."""
        self.drawn |= {use.site for use in uses}

    def left(self, uses: frozenset[Use]) -> frozenset[Use]:
        """Noises whose weights are not drawn."""
        return frozenset(use for use in uses if use.site not in self.drawn)

    def join(self, parts: list[Dependence], linear: bool) -> Dependence:
        """What comes of several values under one operation; their axes are already those of the result."""
        carried = [part for part in parts if part.uses]
        uses = frozenset[Use]().union(*(part.uses for part in carried))
        mixed = frozenset[Use]().union(*(part.mixed for part in carried)) | several_of_one_weight(uses)
        if len({part.axis for part in carried} - {None}) > 1:  # different rows meet
            mixed |= strict(uses)
        axis = next((part.axis for part in [*carried, *parts] if part.axis is not None), None)
        if linear:
            return Dependence(axis, uses, mixed)
        self.draw(mixed)
        return Dependence(axis, self.left(uses))

    def finish(self, outputs: list[Kind]) -> None:
        """At the end, what still has rows must have the right law, all of it together; of sums over rows, the mean is right."""
        by_row = [kind for kind in outputs if isinstance(kind, Dependence) and kind.axis is not None]
        uses = frozenset[Use]().union(*(kind.uses for kind in by_row))
        self.draw(several_of_one_weight(uses).union(*(kind.mixed for kind in by_row)))
        self.drawn |= {kind.site for kind in outputs if isinstance(kind, Image)}


def strict(uses: frozenset[Use]) -> frozenset[Use]:
    """Without those for which noises of different positions, and so of different rows, count as independent by custom."""
    return frozenset(use for use in uses if not use.customary)


def several_of_one_weight(uses: frozenset[Use]) -> frozenset[Use]:
    """Noises beside another noise of the same weight."""
    counts = Counter(use.site for use in uses)
    return frozenset(use for use in uses if counts[use.site] > 1)
