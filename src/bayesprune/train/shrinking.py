"""Training on what is connected: after an act that leaves half or less, the program goes on with the slices that are in use."""

import base64
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import Single, Slices
from bayesprune.model.short_program import numbers_in, single_entries, slices_in_use
from bayesprune.model.transforms.entries import Entries
from bayesprune.model.transforms.parts import UnfitError
from bayesprune.train.result import Record
from bayesprune.train.short_loop import compile_short, short_recipe, traced, why_not
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Compiled, FitState, Recipe

# Each new size has at most this share of the cost of a step of the one before, so that there are at most log2 of the shrinkage.
SHARE = 0.5
# Of a step's time, what goes into products for each number that takes part in them, beside what each number that is held costs:
# six products, 2.1 ms for 160,000, of a step of 35 ms for 960,000 (benchmarks/shrunk_steps.py).
PRODUCTS = 0.6
# Cost times steps that a smaller program must save under "auto": about 20 seconds of a CPU, at 2e-8 s for each number and step,
# where tracing and compiling one takes 16 (an MLP of five layers of 400). On other devices neither was measured.
WORTH = 1e9


@dataclass(frozen=True)
class WholeArrays:
    """Never shrinks."""

    def settle(self, step: int, state: FitState, record: Record) -> FitState:
        return state

    def run(self, loop: Compiled, state: FitState) -> Callable[..., Any]:
        return loop.run


WHOLE = WholeArrays()


@dataclass(frozen=True)
class Shrinking:
    """Shrinks the program of a fit of ``num_steps`` steps; ``worth``: numbers times steps that it must save by that."""

    recipe: Recipe
    example: Example
    num_steps: int
    worth: float = 0.0

    def settle(self, step: int, state: FitState, record: Record) -> FitState:
        """The state with the slices, and single entries, that the steps after ``step`` are done on.

        How many numbers are held is recorded. A mask with living weights outside of what is there, as a sparsifier of one's own
        may make it, gets new ones.
        """
        program, now = self._program, (state.slices, state.single)
        mask = {site: np.asarray(alive) for site, alive in state.sparse.mask.items()}
        if not mask:
            return state
        slices = slices_in_use(program, mask)
        wanted = (slices, single_entries(mask, slices))
        covered = _covered(*now, mask)
        if covered:
            before, after = self._cost(*now), self._cost(*wanted)
            saved = (before - after) * float(self.num_steps - step)
            if wanted == now or after > SHARE * before or saved < self.worth:
                return state
        wanted = self._fitting(step, wanted, now if covered else ((), ()))
        if wanted == now:
            return state
        record.add_size(step, numbers_in(program, *wanted))
        return state._replace(slices=wanted[0], single=wanted[1])

    def _cost(self, slices: Slices, single: Single) -> float:
        """Of a step, in numbers: those that are held, and in their measure those that products see."""
        return numbers_in(self._program, slices, single) + PRODUCTS * numbers_in(self._program, slices)

    def _fitting(self, step: int, wanted: tuple[Slices, Single], other: tuple[Slices, Single]) -> tuple[Slices, Single]:
        """What is wanted; where that cannot be done, the same without single entries, or else the ``other``."""
        said = ""
        for slices, single in dict.fromkeys((wanted, (wanted[0], ()))):
            short = short_recipe(self.recipe, slices, single)
            try:
                traced(short, sites_of(short.program, self.example).params, self.example)
            except (UnfitError, TypeError, ValueError) as error:
                said = str(error)
            else:
                return slices, single
        warnings.warn(f"step {step}: the program is not shrunk further: {said}", UserWarning, stacklevel=3)
        return other

    def run(self, loop: Compiled, state: FitState) -> Callable[..., Any]:
        """The steps on what is there, compiled where that is new."""
        slices, single = state.slices, state.single
        return compile_short(self.recipe, self.example, slices, single) if slices or single else loop.run

    @property
    def _program(self) -> BNN:
        assert isinstance(self.recipe.program, BNN)
        return self.recipe.program


def shrinking_of(storage: str, recipe: Recipe, example: Example, num_steps: int) -> Shrinking | WholeArrays:
    """What a fit of this storage shrinks by.

    Raises `ValueError` for "compact" where the program cannot be shrunk, with the reason; "auto" then keeps whole arrays, as
    it does on devices other than CPUs.
    """
    if storage not in ("compact", "auto") or (storage == "auto" and jax.default_backend() != "cpu"):
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


def single_written(single: Single) -> list[Any]:
    """What JSON holds of single entries."""
    return [[site, base64.b64encode(zlib.compress(entries.packed)).decode("ascii")] for site, entries in single]


def as_single(written: Sequence[Any], slices: Slices, sizes: Mapping[str, tuple[int, ...]]) -> Single:
    """Single entries from what JSON made of them, of arrays of these sizes."""
    known = {site: kept for site, _, kept in slices}
    return tuple(
        (site, Entries(zlib.decompress(base64.b64decode(text)), sizes[site], known.get(site, (None,) * len(sizes[site]))))
        for site, text in written
    )


def _covered(slices: Slices, single: Single, mask: dict[str, np.ndarray]) -> bool:
    """Whether every living weight is in a slice that is there, and among the entries where these are single."""
    for site, _, kept in slices:
        for axis, index in enumerate(kept):
            if index is not None and np.delete(mask[site], index, axis).any():
                return False
    return not any(np.delete(mask[site].reshape(-1), entries.places).any() for site, entries in single)
