"""What lies directly before each kernel: other kernels, or the rows themselves, and whether their order is kept on the way."""

import math
from collections.abc import Sequence

from bayesprune.core.layout import MOVED, ROWS


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

    def note(self, site: int, heads: int) -> None:
        self.of[site] = self.of.get(site, 0) | heads

    def named(self, heads: int, names: Sequence[str]) -> tuple[str, ...]:
        """The names of bits, the rows first."""
        several = len(self.rows) > 1
        rows = [f"{ROWS}{place}" if several else ROWS for place, bit in enumerate(self.rows) if heads & bit]
        kernels = [name for site, name in enumerate(names) if heads >> site & 1]
        return (*rows, *kernels, *([MOVED] if heads & self._moved else []))
