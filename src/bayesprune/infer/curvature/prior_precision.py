"""The prior's precision by the evidence: one number for all weights, for each layer, or for each unit, by MacKay's steps."""

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from bayesprune.core.checks import check_name, check_positive
from bayesprune.model.layout import ParamSpec

SHARES = ("scalar", "layer", "unit", "own")
LEAST, MOST = 1e-8, 1e8  # of a precision, in units of the network's weights
STEPS, NEAR = 1000, 1e-4  # of the search, and the change of log delta that ends it

_OF_EACH_WEIGHT = (
    "prior_precision='weight' would give every weight the precision that is best for itself, and by it the removal of no "
    "weight gains anything: dF0 = -(k - 1 - log k)/2 <= 0, k = H w² (25.7), so that bp.bmr_prune keeps all. Evidence compares "
    "a weight with a prior that it shares: take 'layer', 'unit' or 'scalar'."
)


class PrecisionGroups(NamedTuple):
    """Which weights share a precision: site -> numbers of groups, of a shape that broadcasts; and the groups' names."""

    members: dict[str, np.ndarray]
    names: list[str]


def check_share(share: str | float | int, curvature: str) -> None:
    """Refuse a precision that is neither a word nor a positive number, and what a form has no place for."""
    if not isinstance(share, str):
        return check_positive(share, "prior_precision")
    if share == "weight":
        raise ValueError(_OF_EACH_WEIGHT)
    check_name("prior_precision", share, SHARES)
    if share == "unit" and curvature == "kron":
        raise ValueError(
            "prior_precision='unit' has no place in a Kronecker product, whose columns would each have a prior of its own: "
            "take 'layer' or 'scalar', or curvature='diag'."
        )
    return None


def groups_of(specs: Mapping[str, ParamSpec], share: str) -> PrecisionGroups:
    """The groups of each word: a unit is one output of a layer, its bias and what enters it."""
    names: dict[str, int] = {}
    members = {}
    for site, spec in specs.items():
        if share == "scalar":
            members[site] = np.asarray(names.setdefault("all weights", 0))
            continue
        sides = [size if axis in spec.outputs and share == "unit" else 1 for axis, size in enumerate(spec.shape)]
        count = int(np.prod(sides))
        of_layer = [f"{spec.path.layer}, output {i}" if count > 1 else spec.path.layer for i in range(count)]
        numbers = [names.setdefault(name, len(names)) for name in of_layer]
        members[site] = np.asarray(numbers).reshape(sides if count > 1 else ())
    return PrecisionGroups(members, list(names))


def groups_of_scales(scales: Mapping[str, np.ndarray], curvature: str) -> tuple[PrecisionGroups, np.ndarray]:
    """A group for every standard deviation that the prior gives the weights of an array, and their precisions."""
    members, names, precisions = {}, list[str](), list[float]()
    for site, scale in scales.items():
        found, number = np.unique(scale, return_inverse=True)
        if len(found) > 1 and curvature == "kron":
            raise ValueError(
                f"prior_precision='own' gives the weights of {site!r} {len(found)} standard deviations, and a Kronecker "
                "product has room for one in each array: take curvature='diag' or 'full', or 'layer' by the evidence."
            )
        numbers = (len(names) + number).reshape(np.shape(scale))
        members[site] = numbers if len(found) > 1 else np.asarray(numbers.flat[0])
        names += [site if len(found) == 1 else f"{site}, {value:.3g}" for value in found]
        precisions += (found.astype(np.float64) ** -2.0).tolist()
    return PrecisionGroups(members, names), np.asarray(precisions)


def by_evidence(
    determined: Callable[[np.ndarray], np.ndarray], squares: np.ndarray, start: np.ndarray, names: list[str]
) -> np.ndarray:
    """The precisions of the groups, (groups,), at which the evidence is stationary: delta = gamma / sum w², (25.2).

    ``determined``: gamma of every group under given precisions; ``squares``: the sums of w². Warns where the search ends at
    the edge of its range, or has not settled.
    """
    delta, moved = np.clip(start, LEAST, MOST), np.inf
    for _ in range(STEPS):
        new = np.clip(np.maximum(determined(delta), 0.0) / np.maximum(squares, np.finfo(float).tiny), LEAST, MOST)
        moved = np.abs(np.log(new / delta))
        delta = new
        if moved.max() < NEAR:
            break
    edge = (delta <= LEAST) | (delta >= MOST) | (moved >= NEAR)
    if edge.any():
        which = [name for name, at in zip(names, edge, strict=True) if at]
        warnings.warn(
            f"the prior precision of {', '.join(which[:6])}{' and others' if len(which) > 6 else ''} found no maximum of the "
            f"evidence between {LEAST:g} and {MOST:g}, and stands at "
            f"{', '.join(f'{value:.3g}' for value in delta[edge][:6])}: the data say nothing of these weights, or they all lie "
            "at 0. Give a number, or let more weights share one: prior_precision='layer', or 'scalar'.",
            stacklevel=4,
        )
    return delta
