"""The rows of a fit, and beside their columns what trees foresee of those that they have not seen, once these are grown."""

import functools
from dataclasses import dataclass

import numpy as np

from bayesprune.sklearn import boosting, forest
from bayesprune.sklearn.budget import Budget
from bayesprune.sklearn.trees import Grown, Trees, of_whole_rows


@dataclass
class TrainingRows:
    """``x``: (rows, columns), after `grow` with what ``trees`` say of each row as further columns, see `columns.Columns.apply`:
    read it anew then. ``y``: as trained on, NaN for what is missing."""

    x: np.ndarray
    y: np.ndarray
    seed: int
    budget: Budget
    trees: tuple[Trees, ...] = ()

    @functools.cached_property
    def forest(self) -> Grown | None:
        """A random forest, None where none can be grown."""
        return of_whole_rows(functools.partial(forest.grow, self.seed), self.x, self.y)

    def has_time(self) -> bool:
        """Whether a forest would be grown in the part of a time limit that trees may take."""
        if not self.budget.limited:
            return True
        return forest.seconds_to_grow(self.seed, self.x, self.y) <= boosting.MOST_OF_TIME * self.budget.left()

    def grow(self) -> None:
        """Grow what one of the forms reads, the first time: a forest, and boosted trees where they can be grown.

        Raises `ValueError` where neither can.
        """
        if self.trees:
            return
        boosted = of_whole_rows(functools.partial(boosting.boost, self.seed, budget=self.budget), self.x, self.y)
        grown = [found for found in (self.forest, boosted) if found is not None]
        if not grown:
            raise ValueError(f"form='trees' needs {forest.NEEDED}: leave form= out.")
        self.trees = tuple(found.trees for found in grown)
        self.x = np.concatenate([self.x, *(found.unseen for found in grown)], axis=1)
