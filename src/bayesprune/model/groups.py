"""Which prunable weights of a network belong together: its units and heads, or those of each output or input of an array."""

import functools
import math
import warnings
from collections.abc import Callable

import jax
import numpy as np

from bayesprune.core.checks import check_name
from bayesprune.core.types import Groups
from bayesprune.model.layout import LaidOut, ParamSpec
from bayesprune.structure import flops_of_units

_UNSEEN = (
    "scores have a trained bias or scale, are mixed by a kernel, multiply nothing, or are no inner product of queries with "
    "keys in one step; or where queries, keys or values have no projection of their own"
)


def groups(bnn: LaidOut, name: str) -> Groups:
    """The groups of a name over the weights of ``bnn`` that may be pruned.

    "unit": what makes a unit. "head": what makes the queries, keys and values of a head of attention. "per_output": the outputs
    of each array, numbered from 0 in every one. "per_input": weights of an array that read one input, of a convolution one
    channel of what it is given; "per_slice": of arrays with positions those from one input to one output, else as "per_input".

    Raises `ValueError` for an unknown name, and for units or heads of a network that has none; warns where scores
    are left in which no head is seen.
    """
    found = _groups(bnn, name)
    if name == "head" and bnn.units.headless:
        warnings.warn(
            f"scope='head' cuts {found.count} heads, and none of {bnn.units.headless} more tables of scores, whose units stay: "
            f"no head is seen where {_UNSEEN}. scope='unit' takes all units.",
            stacklevel=3,
        )
    return found


@functools.lru_cache(maxsize=32)
def _groups(bnn: LaidOut, name: str) -> Groups:
    known = {"unit": _units, "head": _heads, "per_output": _outputs, "per_input": _in_a_row, "per_slice": _slices}
    check_name("group", name, known)
    return known[name](bnn)


def _units(bnn: LaidOut) -> Groups:
    found = _made_by(bnn, np.arange(bnn.units.count))
    if not found.count:
        raise ValueError(
            "scope='unit' cuts units that weights make and others read, and in this network none has a weight that may be "
            "pruned: cut single weights, scope='global', or let prunable= of the BNN accept what makes them. A net without "
            "hidden layers has no units, for its outputs stay."
        )
    return found


def _heads(bnn: LaidOut) -> Groups:
    found = _made_by(bnn, bnn.units.heads)
    if not found.count:
        raise ValueError(
            "scope='head' cuts heads of attention, and in this network none with a prunable weight was found: take "
            f"scope='unit'. A head of one feature is a unit there. No head is seen where {_UNSEEN}."
        )
    return found


def _made_by(bnn: LaidOut, group_of: np.ndarray) -> Groups:
    """The prunable weights that make each group of units, numbered without gaps; ``group_of``: of every unit, -1: of none."""
    group_of = np.append(group_of, -1)  # the last, which -1 shows, for none
    members = {str(s.path): group_of[bnn.units.producers[str(s.path)]] for s in bnn.layout if s.prunable}
    present = np.unique(np.concatenate([np.zeros(0, int), *(ids.reshape(-1) for ids in members.values())]))
    present = present[present >= 0]
    numbers = np.full(group_of.max() + 2, -1, np.int32)  # also of groups that no prunable weight makes
    numbers[present] = np.arange(len(present))
    thin = {site: _thin(numbers[ids]) for site, ids in members.items()}
    return Groups(thin, len(present), functools.partial(_flops, bnn, numbers[group_of[:-1]], len(present)))


def _flops(bnn: LaidOut, group_of: np.ndarray, count: int) -> np.ndarray:
    """What groups of units cost, (count,)."""
    grouped = group_of >= 0
    with jax.ensure_compile_time_eval():  # a step that is being traced may be the first to ask
        return np.bincount(group_of[grouped], flops_of_units(bnn.graph, bnn.units)[grouped], count)


def _outputs(bnn: LaidOut) -> Groups:
    """The outputs of each array, by the axes that the graph says; an array that it does not follow is one output."""
    return Groups({str(s.path): _along(s, s.outputs) for s in bnn.layout if s.prunable}, 0)


def _slices(bnn: LaidOut) -> Groups:
    has_positions = lambda spec: len(spec.inputs) + len(spec.outputs) < len(spec.shape)  # noqa: E731
    return _in_a_row(bnn, lambda spec: _along(spec, (*spec.inputs, *spec.outputs)) if has_positions(spec) else _channels(spec))


def _channels(spec: ParamSpec) -> np.ndarray:
    """The input that each entry reads; of a convolution in groups of channels, each group of outputs has inputs of its own."""
    within, outputs = _along(spec, spec.inputs), _along(spec, spec.outputs)
    if spec.channel_groups == 1:
        return within
    return _thin(outputs // (outputs.size // spec.channel_groups) * within.size + within)


def _in_a_row(bnn: LaidOut, numbers_of: Callable[[ParamSpec], np.ndarray] = _channels) -> Groups:
    """Groups of each array, numbered through all arrays; an array that reads nothing is in none."""
    members, count = {}, 0
    for spec in bnn.layout:
        if not spec.prunable:
            continue
        reads = spec.inputs or spec.channel_groups > 1
        ids = numbers_of(spec) + np.int32(count) if reads else np.full((1,) * len(spec.shape), -1, np.int32)
        members[str(spec.path)] = ids
        count = max(count, int(ids.max(initial=-1)) + 1)
    return Groups(members, count)


def _along(spec: ParamSpec, axes: tuple[int, ...]) -> np.ndarray:
    sides = [size if axis in axes else 1 for axis, size in enumerate(spec.shape)]
    return np.arange(math.prod(sides), dtype=np.int32).reshape(sides)


def _thin(ids: np.ndarray) -> np.ndarray:
    """The array without the axes along which it repeats itself: compiled functions hold it as a constant."""
    for axis in range(ids.ndim):
        first = np.take(ids, [0], axis)
        ids = first if np.array_equal(np.broadcast_to(first, ids.shape), ids) else ids
    return ids
