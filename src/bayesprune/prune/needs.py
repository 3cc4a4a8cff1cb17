"""What sparsifiers need, checked in one place before anything is trained or cut."""

from collections.abc import Sequence
from typing import get_args

import jax
import numpy as np

from bayesprune.core import trees
from bayesprune.core.types import Needs, PyTree, Sparsifier
from bayesprune.model.program import Trainable
from bayesprune.prune.scores import check_evidence

# Groups of weights that are whole rows or columns of their arrays.
WHOLE = ("unit", "head")


def needs_of(sparsifier: Sparsifier) -> Needs:
    """The needs that a sparsifier declares; none by default."""
    return getattr(sparsifier, "needs", Needs())


def warm_up_of(sparsifier: Sparsifier) -> int:
    """Acts that a sparsifier skips at first; 0 by default."""
    return int(getattr(sparsifier, "warm_up", 0))


def check_needs(sparsifier: Sparsifier, posterior: PyTree, program: Trainable | None = None) -> None:
    """Refuse a posterior, site -> node, that lacks what the sparsifier needs. Values are looked at where there are any yet.

    ``program``: what was asked for the priors, if anything was.

    Raises `TypeError` for the wrong kind of nodes, `ValueError` for a prior that is not known to be Gaussian, or points where a
    spread is needed.
    """
    needs, name = needs_of(sparsifier), type(sparsifier).__name__
    for site, node in trees.flatten(posterior).items():
        if getattr(needs.node, "gated", False) and not node.gated:
            raise TypeError(
                f"{name} reads inclusion probabilities, and site {site!r} is a {type(node).__name__}, which has no inclusion "
                "probabilities: fit with priors.DiracSlab or priors.GaussianSlab and "
                "give program=bnn, or prune by another method."
            )
        if not isinstance(node, needs.node):
            raise TypeError(f"{name} does not read a {type(node).__name__}, which site {site!r} is: prune by another method.")
        if needs.law and not isinstance(getattr(node, "law", None), needs.law):
            kinds = get_args(needs.law) or (needs.law,)
            laws = [law.__name__ for law in kinds]
            priors = " or ".join(getattr(law, "priors", "see docs/adding_a_prior.md") for law in kinds)
            raise TypeError(
                f"{name} reads the law of the units' scales ({' or '.join(laws)}), and site {site!r} has none: fit with a "
                f"prior that has such scales ({priors}) and give program=bnn, keep sites without one out by "
                "prunable= of the BNN, or prune by methods.Cut(scope='unit')."
            )
    if needs.spread and not has_spread(posterior):
        raise no_spread(sparsifier)
    if needs.evidence:
        check_evidence(posterior, program)


def no_spread(sparsifier: Sparsifier) -> ValueError:
    """The error for points, where a spread is needed."""
    return ValueError(
        f"{type(sparsifier).__name__} needs a posterior with spread, and this one is of points. A MAP fit has no evidence to "
        "prune by: fit with posterior='mean_field', or prune by methods.Magnitude, or by methods.SSVI, which is RigL on "
        "points; a fit with priors.UnitNoise, whose units alone have evidence, by methods.SBP or methods.BMRS."
    )


def nothing_to_prune(
    who: str, program: Trainable | None = None, whole: Sequence[str] = (), points: Sequence[str] = ()
) -> ValueError:
    """The error where all weights are kept whole; of what sites, a network's layout says before ``whole`` and ``points`` do.

    >>> print(nothing_to_prune("params have", whole=["Dense_0.kernel"]))
    params have nothing to prune: 'Dense_0.kernel' are kept whole. Say what may be cut by prunable= ...
    """
    layout = getattr(program, "layout", ())
    whole = [str(spec.path) for spec in layout if spec.bayesian] or list(whole)
    points = [str(spec.path) for spec in layout if not spec.bayesian] or list(points)
    kept = f"{', '.join(map(repr, whole[:6]))} are kept whole" if whole else "no site is shown to it"
    also = f", and {', '.join(map(repr, points[:6]))} are points, outside of bayesian=" if points else ""
    return ValueError(
        f"{who} nothing to prune: {kept}{also}. Say what may be cut by prunable= of the BNN or Program, and fit anew: the "
        "default leaves the last layer whole, prunable=bp.select.everything nothing."
    )


def check_whole(sparsifier: Sparsifier, posterior: PyTree) -> None:
    """Refuse to cut single weights of a matrix normal: by what the sparsifier says, for no mask is known while tracing."""
    needs = needs_of(sparsifier)
    if needs.whole or needs.groups in WHOLE:
        return
    for site, node in trees.flatten(posterior).items():
        if node.whole:
            raise ValueError(
                f"{type(sparsifier).__name__} cuts single weights, and the posterior of {site!r} is a matrix normal, which "
                "stays one only where whole rows or columns are cut: prune by bp.bmr_prune, which takes such, or by "
                "methods.Cut(scope='unit') with program=bnn, or fit with posterior='full'."
            )


def has_spread(posterior: PyTree) -> bool:
    """Whether any scale is above zero, or not known yet. By NumPy: JAX would trace what is known."""
    scales = [node.scale for node in trees.flatten(posterior).values()]
    return any(isinstance(scale, jax.core.Tracer) or bool((np.asarray(scale) > 0).any()) for scale in scales)
