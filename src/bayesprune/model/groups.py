"""Which prunable weights of a network belong together: its units, or the weights of each output of an array."""

import functools
import math
from typing import Any

import numpy as np

from bayesprune.core.checks import unknown_name
from bayesprune.core.types import Groups
from bayesprune.model.layout import ParamSpec


@functools.lru_cache(maxsize=32)
def groups(bnn: Any, name: str) -> Groups:
    """The groups of a name, "unit" or "per_output", over the weights of ``bnn`` that may be pruned."""
    known = {"unit": _units, "per_output": _outputs}
    if name not in known:
        raise unknown_name("group", name, known)
    return known[name](bnn)


def _units(bnn: Any) -> Groups:
    """Units that have a prunable weight, numbered without gaps."""
    producers = {str(s.path): bnn.units.producers[str(s.path)] for s in bnn.layout if s.prunable}
    present = np.unique(np.concatenate([ids.reshape(-1) for ids in producers.values()]))
    present = present[present >= 0]
    numbers = np.full(bnn.units.count + 1, -1, np.int32)  # the last, which -1 shows, for none
    numbers[present] = np.arange(len(present))
    return Groups({site: _thin(numbers[ids]) for site, ids in producers.items()}, len(present))


def _outputs(bnn: Any) -> Groups:
    """The outputs of each array, by the axes that the graph says; an array that it does not follow is one output."""
    return Groups({str(s.path): _along(s) for s in bnn.layout if s.prunable}, 0)


def _along(spec: ParamSpec) -> np.ndarray:
    sides = [size if axis in spec.outputs else 1 for axis, size in enumerate(spec.shape)]
    return np.arange(math.prod(sides), dtype=np.int32).reshape(sides)


def _thin(ids: np.ndarray) -> np.ndarray:
    """The array without the axes along which it repeats itself: compiled functions hold it as a constant."""
    for axis in range(ids.ndim):
        first = np.take(ids, [0], axis)
        ids = first if np.array_equal(np.broadcast_to(first, ids.shape), ids) else ids
    return ids
