"""Families of guides for ``posterior=``: ours by name, with a sound start or that of a prior's authors; and the user's own."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import jax
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.handlers import seed, trace
from numpyro.infer.autoguide import AutoDelta

from bayesprune.core.checks import check_name, check_object, is_number
from bayesprune.core.keys import abstract_key
from bayesprune.core.tracing import by_one_thread
from bayesprune.model.layout import LaidOut, Layout
from bayesprune.model.program import Trainable
from bayesprune.posteriors import correlated, points
from bayesprune.posteriors.correlated import COVARIANCES, CorrelatedFamily
from bayesprune.posteriors.family import Family, sound_scales, sound_start
from bayesprune.posteriors.mean_field import MeanFieldFamily
from bayesprune.posteriors.params import CHOSEN, named, stems
from bayesprune.posteriors.points import MapFamily, NoisyPoints
from bayesprune.posteriors.structured import StructuredFamily

__all__ = ["CorrelatedFamily", "Family", "MapFamily", "MeanFieldFamily", "NoisyPoints", "StructuredFamily"]  # handed on
OURS = "bayesprune."
CUT = (dist.Normal, dist.Delta)


def family_of(posterior: object, prior: object, layout: Layout) -> Family:
    """The family of a name, with a sound start; or the family given, with its own."""
    if isinstance(posterior, str):
        return named_family(posterior, prior, layout)
    check_object(posterior, "posterior", ("guide", "read", "write"), "'mean_field', 'full', 'map', or MeanFieldFamily()")
    if not isinstance(posterior, Family):
        raise TypeError(
            f"posterior must be a name or derive from bayesprune.model.families.Family, got {type(posterior).__name__}: "
            "derive it, for what a prior asks of its guide besides."
        )
    return posterior


def named_family(name: str, prior: object, layout: Layout) -> Family:
    """The family of a name with a sound start: that of the prior where its authors chose one, else `sound_start`.

    U(-2, 2), in which most of the papers' code starts, is too wide to be left in a few thousand steps; see
    benchmarks/course.md.

    Raises `ValueError` for an unknown name, and for "structured" with a prior without scales of units.
    """
    start: dict[str, Any] = {"init_loc": "he", "init_range": 0.0}
    start |= {"sound": sound_start(prior, layout), "sound_scales": sound_scales(prior, layout)}
    return _family(name, prior, MeanFieldFamily(**start), MapFamily(**start))


def authors_family(name: str, prior: object) -> Family:
    """The family of a name with the start that the prior's authors chose: U(-2, 2) where they said nothing else."""
    return _family(name, prior, MeanFieldFamily(), MapFamily())


def _family(name: str, prior: object, mean_field: MeanFieldFamily, points: MapFamily) -> Family:
    start: Family = getattr(prior, "family", mean_field)
    known: dict[str, Callable[[], Family]] = {
        "mean_field": lambda: start,
        "structured": lambda: _structured(prior, start),
        "map": lambda: points,
    } | {covariance: functools.partial(CorrelatedFamily, **_fields(start), covariance=covariance) for covariance in COVARIANCES}
    check_name("posterior", name, known)
    return known[name]()


def own_unit(program: Trainable) -> float | None:
    """What one unit of every site is in the network; None where scales are learned, or nothing is known of the sites.

    Where a prior scales its sites (`Flat`, `Horseshoe`, a narrow `Gaussian`) a step of a site is a small one of the weight.
    """
    unit: Any = getattr(getattr(program, "prior", None), "unit", None)
    return float(unit) if is_number(unit) else None


def weights_of(sites: frozenset[str], params: Mapping[str, Any]) -> dict[str, bool]:
    """Which parameters are those of weights at these sites, and no log-odds of their inclusion.

    >>> weights_of(frozenset({"w"}), {"w_auto_loc": 0.0, "w_auto_logit": 0.0, "w_map_loc": 0.0, "noise_auto_loc": 0.0})
    {'w_auto_loc': True, 'w_auto_logit': False, 'w_map_loc': True, 'noise_auto_loc': False}
    """
    return {name: _site_of(name) in sites and not name.endswith("_logit") for name in params}


def _site_of(name: str) -> str:
    return name.partition("_auto_")[0].partition("_map_")[0]


def are_noisy_points(program: Trainable) -> bool:
    """Whether weights are points, and the noise of their units has a posterior: under `UnitNoise` or `ConcreteDropout`."""
    return isinstance(getattr(program, "family", None), NoisyPoints)


def is_of_points(program: Trainable) -> bool:
    """Whether a program's posterior is of points in the weights' own units, or nearly.

    No ``spread``, as of "map", under a prior whose sites are the weights by a fixed factor above a quarter; or `AutoDelta`.
    """
    if isinstance(program.guide, AutoDelta):
        return True
    return not getattr(getattr(program, "family", None), "spread", True) and (own_unit(program) or 0.0) > 0.25


def _structured(prior: object, start: Family) -> Family:
    if not getattr(prior, "couples", False):
        raise ValueError(
            f"posterior='structured' lets a weight vary with the scale of its unit, and {type(prior).__name__} has no such "
            "scales: it would be the mean field. Take 'mean_field', or priors.Horseshoe, GroupHorseshoe or GroupNormalJeffreys."
        )
    return StructuredFamily(**_fields(start))


def _fields(start: Family) -> dict[str, Any]:
    """A start, by the names of `MeanFieldFamily`'s fields."""
    return {field.name: getattr(start, field.name) for field in fields(MeanFieldFamily)}


def why_not_cut(bnn: LaidOut) -> str:
    """Why the weights of a family cannot be cut, with the remedy; "" where they can, as those of ours always.

    A cut sets the parameters ``"<site>_auto_loc"`` and ``"<site>_auto_scale"`` of a weight to zero, and reads its evidence as
    that of a Gaussian: a family that keeps others, or draws from another law, would be cut in name alone.
    """
    if type(bnn.family).__module__.startswith(OURS) or writes_itself(bnn.family):
        return ""
    name, prunable = type(bnn.family).__name__, {str(spec.path) for spec in bnn.layout if spec.prunable}
    laws: dict[str, Any] = {}
    params: dict[str, Any] = {}

    def guide(rng_key: jax.Array) -> None:
        for site, entry in trace(seed(bnn.guide, rng_key)).get_trace().items():
            if entry["type"] == "sample":
                laws[site] = type(_single(entry["fn"]))
            elif entry["type"] == "param":
                params[site] = entry["value"]

    jax.eval_shape(by_one_thread(guide), abstract_key())
    for site in sorted(prunable):
        law = laws.get(site)
        if law is not None and not law.__module__.startswith(OURS) and not issubclass(law, CUT):
            return (
                f"{name} draws the weights of {site!r} from {law.__name__}, and evidence and cuts are of Gaussians: {_REMEDY}"
            )
    if missing := sorted(prunable - set(stems(params, prunable).values())):
        return f"{name} keeps the weights of {missing[0]!r} in parameters of its own names, which no cut reaches: {_REMEDY}"
    return ""


_REMEDY = (
    "fit and predict without pruning, take a family of bayesprune.model.families, derive from MeanFieldFamily, drawing from "
    "dist.Normal(loc, scale) of the parameters '<site>_auto_loc' and '<site>_auto_scale', or give it methods read and write."
)


def writes_itself(family: Family) -> bool:
    """Whether a user's family says by methods of its own how nodes are read and written."""
    return not any(getattr(type(family), name).__module__.startswith(OURS) for name in ("read", "write"))


def check_cut(program: object, training: bool = False) -> None:
    """Refuse to cut weights that cannot be; see `why_not_cut`. ``training``: on the way, by names that are ours."""
    reason = getattr(program, "uncut", "")
    family = getattr(program, "family", None)
    if not reason and training and family is not None and writes_itself(family):
        reason = (
            f"{type(family).__name__} writes its nodes itself, and training cuts arrays by names that are ours: fit without a "
            "sparsifier and mask, and cut the fit by bp.prune_once(fit.params, method, program=bnn)."
        )
    if reason:
        raise ValueError(reason)


def _single(fn: Distribution) -> Any:
    """The law of single weights, below what makes an array of them."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        fn = fn.base_dist
    return fn


def family_of_params(family: Family, params: Mapping[str, Any], layout: Layout) -> Family:
    """``family``, or the one that `bayesprune.laplace` wrote ``params`` in, by their names."""
    sites = [str(spec.path) for spec in layout if spec.bayesian]
    if not any(site + CHOSEN in params for site in sites):
        return family
    return found_family(params, sites)


def found_family(params: Mapping[str, Any], sites: list[str]) -> Family:
    """The family of some sites, by the names that their parameters have. Raises `ValueError` for a site without any."""
    kinds = {site: named(params, site)[0] for site in sites}
    together = tuple(site for site, kind in kinds.items() if kind.joint)
    if together:
        whole = all(kinds[site] is correlated.FULL for site in together)
        largest = max(len(params[name]) for name in params if name.endswith(("_factor", "_rows", "_columns")))
        return CorrelatedFamily(covariance="full" if whole else "matrix_normal", sites=together, largest=largest)
    return MapFamily() if all(kind is points.FAMILY for kind in kinds.values()) else MeanFieldFamily()
