"""Training on what is connected: after an act that leaves half or less, the program goes on with the slices that are in use."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.types import Mask
from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import Slices
from bayesprune.model.short_program import numbers_in, slices_in_use
from bayesprune.model.transforms.parts import UnfitError
from bayesprune.train.history import Record
from bayesprune.train.short_loop import compile_short, short_recipe
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Compiled, Recipe, Standing
from bayesprune.train.unshrunk import why_not

# Each new size has at most this share of the numbers of the one before, so that there are at most log2 of the shrinkage.
SHARE = 0.5
# Numbers times steps that a smaller program must save under "auto": eight seconds of a CPU or more, twice what compiling takes.
WORTH = 3e8


@dataclass(frozen=True)
class WholeArrays:
    """Never shrinks."""

    def settle(self, step: int, standing: Standing, record: Record) -> Standing:
        return standing

    def run(self, loop: Compiled, slices: Slices) -> Callable[..., Any]:
        return loop.run


WHOLE = WholeArrays()


@dataclass(frozen=True)
class Shrinking:
    """Shrinks the program of a fit of ``num_steps`` steps; ``worth``: numbers times steps that it must save by that."""

    recipe: Recipe
    example: Example
    num_steps: int
    worth: float = 0.0

    def settle(self, step: int, standing: Standing, record: Record) -> Standing:
        """The state with the slices that the steps after ``step`` are done on; how many numbers they have is recorded.

        A mask with living weights outside of the present slices, as a sparsifier of one's own may make it, gets new ones.
        """
        program, slices = self._program, standing.slices
        mask = _arrays(standing.sparse.mask)
        if not mask:
            return standing
        wanted = slices_in_use(program, mask)
        before, after = numbers_in(program, slices), numbers_in(program, wanted)
        if _covered(slices, mask):
            saved = (before - after) * float(self.num_steps - step)
            if wanted == slices or after > SHARE * before or saved < self.worth:
                return standing
        try:
            sites_of(short_recipe(self.recipe, wanted).program, self.example)
        except UnfitError as error:  # what the trial of the start has not seen
            warnings.warn(f"step {step}: the program is not shrunk further: {error}", UserWarning, stacklevel=2)
            wanted, after = (slices, before) if _covered(slices, mask) else ((), numbers_in(program, ()))
        if wanted == slices:
            return standing
        record.add_size(step, after)
        return standing._replace(slices=wanted)

    def run(self, loop: Compiled, slices: Slices) -> Callable[..., Any]:
        """The steps on these slices, compiled where they are new."""
        return compile_short(self.recipe, self.example, slices) if slices else loop.run

    @property
    def _program(self) -> BNN:
        assert isinstance(self.recipe.program, BNN)
        return self.recipe.program


def shrinking_of(storage: str, recipe: Recipe, example: Example, num_steps: int) -> Shrinking | WholeArrays:
    """What a fit of this storage shrinks by.

    Raises `ValueError` for "compact" where the program cannot be shrunk, with the reason; "auto" then keeps whole arrays.
    """
    if storage not in ("compact", "auto"):
        return WHOLE
    reason = why_not(recipe, example)
    if reason and storage == "compact":
        raise ValueError(f"storage='compact' trains on what is connected, and {reason}")
    return WHOLE if reason else Shrinking(recipe, example, num_steps, WORTH if storage == "auto" else 0.0)


def as_slices(written: Sequence[Any]) -> Slices:
    """Slices from what JSON made of them.

    >>> as_slices([["w", [3, 2], [[0, 2], None]]])
    (('w', (3, 2), ((0, 2), None)),)
    """
    return tuple(
        (site, tuple(sizes), tuple(None if index is None else tuple(index) for index in kept)) for site, sizes, kept in written
    )


def _arrays(mask: Mask) -> dict[str, np.ndarray]:
    return {site: np.asarray(alive) for site, alive in mask.items()}


def _covered(slices: Slices, mask: dict[str, np.ndarray]) -> bool:
    """Whether every living weight is in a slice that is there."""
    for site, _, kept in slices:
        for axis, index in enumerate(kept):
            if index is not None and np.delete(mask[site], index, axis).any():
                return False
    return True
