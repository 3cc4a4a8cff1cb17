"""Families of guides by the names that users give them."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from bayesprune.core.checks import unknown_name
from bayesprune.model.correlated import COVARIANCES, CorrelatedFamily
from bayesprune.model.families import Family, MapFamily, MeanFieldFamily
from bayesprune.model.structured import StructuredFamily


def named_family(name: str, prior: Any) -> Family:
    """The family of a name, with the start that the prior's authors chose.

    Raises `ValueError` for an unknown name, and for "structured" with a prior without scales of units.
    """
    known: dict[str, Callable[[Any], Family]] = {
        "mean_field": _mean_field,
        "structured": _structured,
        "map": lambda _: MapFamily(),
    } | {covariance: _correlated(covariance) for covariance in COVARIANCES}
    if name not in known:
        raise unknown_name("posterior", name, known)
    return known[name](prior)


def _mean_field(prior: Any) -> Family:
    family: Family = getattr(prior, "family", MeanFieldFamily())
    return family


def _correlated(covariance: str) -> Callable[[Any], Family]:
    return lambda prior: CorrelatedFamily(**_start(prior), covariance=covariance)


def _structured(prior: Any) -> Family:
    if not getattr(prior, "couples", False):
        raise ValueError(
            f"posterior='structured' lets a weight vary with the scale of its unit, and {type(prior).__name__} has no such "
            "scales: it would be the mean field. Take 'mean_field', or priors.Horseshoe, GroupHorseshoe or GroupNormalJeffreys."
        )
    return StructuredFamily(**_start(prior))


def _start(prior: Any) -> dict[str, Any]:
    """The start that the prior's authors chose, by the names of `MeanFieldFamily`'s fields."""
    start = _mean_field(prior)
    return {field.name: getattr(start, field.name) for field in fields(MeanFieldFamily)}
