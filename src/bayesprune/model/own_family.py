"""A guide family of the user's own: it trains and predicts as it likes, and is cut where its weights are what nodes say."""

from typing import Any

import jax
import numpyro.distributions as dist
from numpyro.handlers import seed, trace

from bayesprune.core.keys import abstract_key
from bayesprune.core.tracing import by_one_thread
from bayesprune.posteriors.params import stems

OURS = "bayesprune."
CUT = (dist.Normal, dist.Delta)


def why_not_cut(bnn: Any) -> str:
    """Why the weights of a family cannot be cut, with the remedy; "" where they can, as those of ours always.

    A cut sets the parameters ``"<site>_auto_loc"`` and ``"<site>_auto_scale"`` of a weight to zero, and reads its evidence as
    that of a Gaussian: a family that keeps others, or draws from another law, would be cut in name alone.
    """
    if type(bnn.family).__module__.startswith(OURS):
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
    "fit and predict without pruning, take a family of bayesprune.model.families, or derive from MeanFieldFamily, drawing from "
    "dist.Normal(loc, scale) of the parameters '<site>_auto_loc' and '<site>_auto_scale'."
)


def check_cut(program: Any) -> None:
    """Refuse to cut weights that cannot be; see `why_not_cut`."""
    if reason := getattr(program, "uncut", ""):
        raise ValueError(reason)


def _single(fn: Any) -> Any:
    """The law of single weights, below what makes an array of them."""
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        fn = fn.base_dist
    return fn
