"""The family that parameters are of: a trained net's posterior may be of another than the network was built with."""

from collections.abc import Mapping
from typing import Any

from bayesprune.model.families import CorrelatedFamily, Family, MapFamily, MeanFieldFamily
from bayesprune.model.layout import Layout
from bayesprune.posteriors import correlated, points
from bayesprune.posteriors.params import CHOSEN, named


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
