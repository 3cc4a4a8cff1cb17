"""A prior whose scales the evidence of a fit has chosen: empirical Bayes, in rounds of training."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.checks import check_params, got
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.prior import Independent, Moments, array_of, sample_own
from bayesprune.posteriors import params
from bayesprune.posteriors.mean_field import MeanField

REFERENCE = "dhahri2024shaving"


@dataclass(frozen=True, eq=False, init=False)
class Empirical(Independent):
    """Independent Gaussians about zero with the scales that a fit's own prior has: w ~ N(0, 1/delta).

    After `bp.laplace(..., prior_precision="unit", excess=None)`, or "layer", those are the precisions delta that the evidence
    chose, a number for each output of a layer; of a prior with scales of its own (`Flat`, `Horseshoe`) they are its scales'
    posterior means. A next fit under them, and so on in rounds, ascends the evidence while it trains: what no row asks for has
    a narrow prior then, and is near zero when it is cut. On LeNet-5 four fifths of the weights fall so without a loss of
    accuracy and without training on (`benchmarks/without_retraining.md`).

    Args:
        fit: a `FitResult`, a `Pruned`, or anything with a field ``params``, of the same network.

    Sites: one per weight array, the weight itself.

    Raises:
        TypeError: ``fit`` is none.
        ValueError: its parameters do not say their prior, or a prior is no Gaussian about zero; at the `BNN`: the fit is of
            another network.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> def under(prior):
        ...     return bp.BNN(bp.nets.MLP((16,), 10), prior=prior, likelihood=bp.likelihoods.Categorical(),
        ...                   input_shape=(8, 8, 1), posterior="map")
        >>> bnn, start = under(bp.priors.Gaussian()), None
        >>> for key in jax.random.split(jax.random.key(0), 2):
        ...     fit = bp.fit_svi(key, bnn, train, num_steps=100, batch_size=64, init_params=start, progress=False)
        ...     around = bp.laplace(key, bnn, fit, train, prior_precision="unit", excess=None)
        ...     trained, bnn = fit.net_params(bnn), under(bp.priors.Empirical(around))
        ...     start = bp.from_trained(bnn, trained)

    Source: MacKay (1992); Dhahri et al. (2024), whose SpaM ascends it every few epochs.
    """

    scale: Mapping[str, np.ndarray]

    def __init__(self, fit: Any) -> None:
        if isinstance(fit, type) or not hasattr(fit, "params"):
            raise TypeError(f"fit must be a fit, with its params, got {got(fit)}: give the result of bp.laplace or bp.fit_svi.")
        check_params(fit.params, "fit.params")
        found = {site: (np.shape(mean), prior) for site, (mean, _, prior) in params.moments(fit.params).items()}
        unknown = [site for site, (_, prior) in found.items() if prior is None or not (np.isfinite(prior) & (prior > 0)).all()]
        if unknown or not found:
            which = f"of {unknown[0]!r}" if unknown else "of any weight"
            raise ValueError(f"fit.params say no Gaussian prior about zero {which}: give the result of bp.laplace.")
        object.__setattr__(
            self, "scale", {site: np.broadcast_to(np.asarray(prior), shape) for site, (shape, prior) in found.items()}
        )

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return sample_own(layout, lambda spec: dist.Normal(0.0, self._scale(spec)))

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """In the weight's own units, with the scales as its prior."""
        return replace(node, prior_scale=self._scale(spec), unit=1.0)

    def _scale(self, spec: ParamSpec) -> Any:
        remedy = "Give a fit of the same net in which the same parameters are Bayesian."
        return jnp.asarray(array_of(self.scale, spec, "priors.Empirical was given a fit", remedy), float)
