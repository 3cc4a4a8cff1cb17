"""From a curvature to a posterior: precisions by the evidence, and the Gaussian of each array, in the network's units.

Who shares a precision is said by a word, and the evidence chooses it by MacKay's steps. All is done on the host and in double
precision: a factor of a covariance is taken once, and single precision would lose it.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import check_name, check_positive
from bayesprune.formulas.laplace import nearest_matrix_normal
from bayesprune.infer.curvature.forms import Factors
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


Arrays = Mapping[str, np.ndarray]


class WeightGaussian(NamedTuple):
    """Of one array: standard deviations of its weights; or the factors of a covariance of rows and of columns."""

    scale: np.ndarray | None = None
    rows: np.ndarray | None = None
    columns: np.ndarray | None = None


class FoundGaussian(NamedTuple):
    """The Gaussians by site, the groups' precisions, what (25.1) adds to the log likelihood, nats, and tr(H S), S the
    covariance: twice what draws add to -log p(D | w), as far as second derivatives say it."""

    gaussians: dict[str, WeightGaussian]
    delta: np.ndarray
    evidence: float
    trace: float


class Asked(NamedTuple):
    """The weights, (site -> array); who shares a precision; where each group's starts, and whether it is to be chosen."""

    weights: Arrays
    groups: PrecisionGroups
    start: np.ndarray
    chosen: bool


def of_diagonal(curvature: Mapping[str, np.ndarray | jax.Array], asked: Asked) -> FoundGaussian:
    """Independent weights of the conditional variances 1 / (H_ii + delta)."""
    h = {site: np.maximum(np.asarray(value, np.float64), 0.0) for site, value in curvature.items()}
    delta, evidence = _apart(h, asked)
    scales = {site: (value + delta[asked.groups.members[site]]) ** -0.5 for site, value in h.items()}
    trace = sum(float(np.sum(value * scales[site] ** 2)) for site, value in h.items())
    return FoundGaussian({site: WeightGaussian(scale=scale) for site, scale in scales.items()}, delta, evidence, trace)


def bases_of(curvature: Mapping[str, Factors]) -> dict[str, list[Any]]:
    """Eigenvalues and eigenvectors of both factors of each array, which no precision changes."""
    return {site: [np.linalg.eigh(np.asarray(f, np.float64)) for f in factors] for site, factors in curvature.items()}


def of_kronecker(bases: Mapping[str, list[Any]], asked: Asked) -> FoundGaussian:
    """A matrix normal for each array, the nearest to the Kronecker product with the prior, (25.6)."""
    values: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for site, pair in bases.items():
        rows, columns = (np.maximum(base.eigenvalues, 0.0) for base in pair)
        values[site] = (rows, columns / max(rows.sum(), np.finfo(float).tiny))
    delta, evidence = _apart({site: np.outer(*pair).reshape(asked.weights[site].shape) for site, pair in values.items()}, asked)
    found, trace = {}, 0.0
    for site, spectra in values.items():
        precision = float(delta[asked.groups.members[site]])
        variances = _nearest(*spectra, precision)
        trace += float(np.prod([spectrum @ variance for spectrum, variance in zip(spectra, variances, strict=True)]))
        vectors = [base.eigenvectors for base in bases[site]]
        factors = [_factor((basis * v) @ basis.T) for basis, v in zip(vectors, variances, strict=True)]
        # An array of one row or one column has a full covariance, by the factor that `_nearest` has not filled with a 1.
        rows, columns = factors
        if len(rows) == 1 or len(columns) == 1:
            found[site] = WeightGaussian(rows=columns if len(rows) == 1 else rows)
        else:
            found[site] = WeightGaussian(rows=rows, columns=columns)
    return FoundGaussian(found, delta, evidence, trace)


def positive(curvature: np.ndarray | jax.Array) -> np.ndarray:
    """The matrix without its negative part: what is no maximum, or has been rounded, determines nothing."""
    values, vectors = np.linalg.eigh(np.asarray(curvature, np.float64))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T  # type: ignore[no-any-return]


def of_all(curvature: np.ndarray, asked: Asked, marginal: bool, whole: bool) -> FoundGaussian:
    """From the curvature of all weights together, `positive`, in the order of the sites.

    ``marginal``: variances [P^-1]_ii, whatever the others are; else those given that the weights of other arrays (of ``whole``)
    or all others stay at their means. ``whole``: a full covariance of each array; else independent weights.
    """
    flat = lambda arrays: np.concatenate([np.ravel(arrays[site]) for site in asked.weights])  # noqa: E731
    numbers = flat({s: np.broadcast_to(asked.groups.members[s], w.shape) for s, w in asked.weights.items()})
    w, count = flat(asked.weights), len(asked.groups.names)
    sum_of = lambda values: np.bincount(numbers, values, count)  # noqa: E731

    def determined(delta: np.ndarray) -> np.ndarray:
        return sum_of(1.0 - delta[numbers] * np.diag(np.linalg.inv(curvature + np.diag(delta[numbers]))))

    delta = by_evidence(determined, sum_of(w**2), asked.start, asked.groups.names) if asked.chosen else asked.start
    precision = curvature + np.diag(delta[numbers])
    evidence = 0.5 * (np.log(delta[numbers]).sum() - np.linalg.slogdet(precision)[1] - (delta[numbers] * w**2).sum())
    covariance = np.linalg.inv(precision) if marginal else None
    found, first, trace = {}, 0, 0.0
    for site, weights in asked.weights.items():
        part = slice(first, first := first + weights.size)
        if whole:
            block = np.linalg.inv(precision[part, part]) if covariance is None else covariance[part, part]
            found[site] = WeightGaussian(rows=_factor(block))
            trace += float(np.sum(curvature[part, part] * block))
        else:
            diagonal = 1.0 / np.diag(precision)[part] if covariance is None else np.diag(covariance)[part]
            found[site] = WeightGaussian(scale=np.sqrt(diagonal).reshape(weights.shape))
            trace += float(np.diag(curvature)[part] @ diagonal)
    return FoundGaussian(found, delta, float(evidence), trace)


def _apart(values: Arrays, asked: Asked) -> tuple[np.ndarray, float]:
    """Precisions and evidence where the curvature is diagonal in some basis, of these eigenvalues."""
    numbers = {site: np.broadcast_to(asked.groups.members[site], np.shape(h)).ravel() for site, h in values.items()}
    count = len(asked.groups.names)

    def sum_of(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.sum([np.bincount(numbers[site], np.ravel(arrays[site]), count) for site in values], axis=0)

    def determined(delta: np.ndarray) -> np.ndarray:
        return sum_of({site: np.ravel(h) / (np.ravel(h) + delta[numbers[site]]) for site, h in values.items()})

    squares = sum_of({site: np.square(w, dtype=np.float64) for site, w in asked.weights.items()})
    delta = by_evidence(determined, squares, asked.start, asked.groups.names) if asked.chosen else asked.start
    logs = sum_of({site: np.log1p(np.ravel(h) / delta[numbers[site]]) for site, h in values.items()})
    return delta, float(-0.5 * (delta * squares + logs).sum())


def _nearest(rows: np.ndarray, columns: np.ndarray, precision: float) -> list[np.ndarray]:
    # Where one of the two is a single number its variance is 1, and the other is exact.
    if len(rows) == 1:
        return [np.ones(1), 1.0 / (rows[0] * columns + precision)]
    if len(columns) == 1:
        return [1.0 / (rows * columns[0] + precision), np.ones(1)]
    found = nearest_matrix_normal(jnp.asarray(rows), jnp.asarray(columns), precision)
    return [np.asarray(variances, np.float64) for variances in found]


def _factor(covariance: np.ndarray) -> np.ndarray:
    return np.linalg.cholesky(0.5 * (covariance + covariance.T))
