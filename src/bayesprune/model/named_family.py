"""Families of guides by the names that users give them, with a sound start; and with that of a prior's authors."""

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from bayesprune.core.checks import unknown_name
from bayesprune.model.correlated import COVARIANCES, CorrelatedFamily
from bayesprune.model.families import Family, MapFamily, MeanFieldFamily
from bayesprune.model.layout import Layout
from bayesprune.model.sound_start import sound_scales, sound_start
from bayesprune.model.structured import StructuredFamily


def named_family(name: str, prior: Any, layout: Layout) -> Family:
    """The family of a name with a sound start: that of the prior where its authors chose one, else `sound_start`.

    U(-2, 2), in which most of the papers' code starts, is too wide to be left in a few thousand steps; see
    benchmarks/course.md.

    Raises `ValueError` for an unknown name, and for "structured" with a prior without scales of units.
    """
    start: dict[str, Any] = {"init_loc": "he", "init_range": 0.0}
    start |= {"sound": sound_start(prior, layout), "sound_scales": sound_scales(prior, layout)}
    return _family(name, prior, MeanFieldFamily(**start), MapFamily(**start))


def authors_family(name: str, prior: Any) -> Family:
    """The family of a name with the start that the prior's authors chose: U(-2, 2) where they said nothing else."""
    return _family(name, prior, MeanFieldFamily(), MapFamily())


def _family(name: str, prior: Any, mean_field: MeanFieldFamily, points: MapFamily) -> Family:
    start: Family = getattr(prior, "family", mean_field)
    known: dict[str, Callable[[], Family]] = {
        "mean_field": lambda: start,
        "structured": lambda: _structured(prior, start),
        "map": lambda: points,
    } | {covariance: functools.partial(CorrelatedFamily, **_fields(start), covariance=covariance) for covariance in COVARIANCES}
    if name not in known:
        raise unknown_name("posterior", name, known)
    return known[name]()


def _structured(prior: Any, start: Family) -> Family:
    if not getattr(prior, "couples", False):
        raise ValueError(
            f"posterior='structured' lets a weight vary with the scale of its unit, and {type(prior).__name__} has no such "
            "scales: it would be the mean field. Take 'mean_field', or priors.Horseshoe, GroupHorseshoe or GroupNormalJeffreys."
        )
    return StructuredFamily(**_fields(start))


def _fields(start: Family) -> dict[str, Any]:
    """A start, by the names of `MeanFieldFamily`'s fields."""
    return {field.name: getattr(start, field.name) for field in fields(MeanFieldFamily)}
