"""What takes part in a comparison: a method with the course it trains by, its knobs, and the settings that are tried."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bayesprune.core.folder import files
from bayesprune.core.keys import Key
from bayesprune.core.types import ArrayTree
from bayesprune.infer.predict import predict
from bayesprune.lab.task import Task
from bayesprune.model.bnn import BNN
from bayesprune.priors import Flat, Gaussian

ANY, FOUND, DENSE = "any", "found", "dense"  # densities that a method gives: what is asked, what it finds, one
DRAWS = 20

Grid = tuple[tuple[str, tuple[Any, ...]], ...]

# What is tried of networks of points: the rate, and the prior, which is their weight decay. Under `Flat` a layer's scale is
# learned with its weights, and the density of points has no maximum: scale and weights shrink together wherever the data hold
# them weakly, as after a cut. A width that is given cannot.
FLAT, DECAY = Flat(), Gaussian(0.5)
POINTS: Grid = (("rate", (4e-2, 1e-2)), ("prior", (DECAY, FLAT)))


class Fitted(NamedTuple):
    """A trained network: parameters, the mask (empty: all alive), and the number of networks drawn of it.

    ``members``: parameters of further networks that predict with it, of an ensemble. ``linearised``: of `predict`.
    """

    bnn: BNN
    params: dict[str, Any]
    mask: Mapping[str, Any]
    num_draws: int = DRAWS
    members: tuple[dict[str, Any], ...] = ()
    linearised: bool = False

    def probs(self, rng_key: Key, x: ArrayTree) -> np.ndarray:
        """Class probabilities (rows, classes), averaged over draws and members."""
        how: dict[str, Any] = {"mask": dict(self.mask) or None, "num_samples": self.num_draws}
        how |= {"linearised": self.linearised}
        said = [predict(rng_key, self.bnn, params, x, **how) for params in (self.params, *self.members)]
        return np.asarray(np.mean(said, axis=0))


@runtime_checkable
class Entry(Protocol):
    """A frozen dataclass of knobs.

    ``gives``: "any" density that is asked, the one that is "found", or "dense". ``grid``: knob -> values that are tried, the
    first ones being its own. ``fit`` trains for the steps of the task, all phases together.
    """

    @property
    def gives(self) -> str: ...

    @property
    def grid(self) -> Grid: ...

    def fit(self, rng_key: Key, task: Task, density: float) -> Fitted: ...


def tries(entry: Entry, budget: int) -> list[Any]:
    """The settings that are tried, as entries: the first ``budget`` of all combinations, the first knob changing fastest.

    >>> from bayesprune.lab.entries.gradual import Gradual
    >>> [(one.rate, one.end) for one in tries(Gradual("map", "magnitude"), 3)]
    [(0.04, 0.75), (0.01, 0.75), (0.04, 0.5)]
    """
    names = [name for name, _ in entry.grid]
    found = list(itertools.product(*(values for _, values in reversed(entry.grid))))
    if not 1 <= budget <= len(found):
        raise ValueError(f"tries must lie between 1 and {len(found)}, got {budget}: {type(entry).__name__} lists so many.")
    chosen = [dict(zip(names, reversed(values), strict=True)) for values in found[:budget]]
    return [dataclasses.replace(entry, **values) for values in chosen]  # type: ignore[type-var]


def described(entry: Entry) -> str:
    """The tried knobs of an entry, as text.

    >>> from bayesprune.lab.entries.gradual import Gradual
    >>> described(Gradual("map", "magnitude"))
    'rate=0.04 end=0.75'
    """
    return " ".join(f"{name}={getattr(entry, name)}" for name, _ in entry.grid)


def rivals() -> dict[str, Any]:
    """Every entry by its name: the ``ENTRIES`` of all files in `lab/entries`."""
    return {name: one for file in files("bayesprune.lab.entries") for name, one in file.ENTRIES.items()}
