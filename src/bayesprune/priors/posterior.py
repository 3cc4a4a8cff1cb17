"""Yesterday's posterior as today's prior: data that come one after another, with what is to be forgotten in between."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.handlers import substitute

from bayesprune.core.checks import check_number, check_params, check_within, got
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.layout import Layout, ParamSpec, with_posterior
from bayesprune.model.prior import Independent, Moments, array_of, guide_each, sample_own
from bayesprune.posteriors import params
from bayesprune.posteriors.mean_field import MeanField

REFERENCE = "nguyen2018variational"


@dataclass(frozen=True, eq=False, init=False)
class Posterior(Independent):
    """Independent Gaussians at the moments of a fit, as today's prior (22.2):

        w ~ N(m, s²),    1/s² = (1 - f)/s_1² + f/s_0²,    m = (1 - f) m_1 s²/s_1²

    with the fitted mean and standard deviation m_1, s_1 of each weight in the network's own units, its first prior N(0, s_0²),
    and the share f that is forgotten: 0 keeps all, and near 1 the first prior is back. Under a first prior that is no Gaussian
    about zero the term f/s_0² is missing. Of weights that vary together the marginals are carried on; of a first prior that
    learns scales, as `Flat` does, the weights at the scales' posterior means: how far those vary is left out of s_1, by which
    the largest weights of a small network are too sure by a factor of up to two or three.

    Weights that were pruned stay dead in fits under this prior; ``fit_svi(..., mask={})`` trains them again, under their first
    prior. Evidence is that of all data together, against the first prior, what is forgotten counting less; so `bmr_prune` and
    `methods.BMR` prune after a second fit as after the first. A fit starts at m and s by itself. Parameters that are points,
    and statistics of batches, are carried on by ``init_params=bp.from_trained(bnn, fit.net_params(the_bnn_of_before))``.

    Args:
        fit: a `FitResult`, a `Pruned`, or anything with fields ``params`` and ``mask``, of the same network.
        forgetting: f, in [0, 1).

    Raises:
        TypeError: ``fit`` is none.
        ValueError: ``forgetting`` is out of range; the fit is of points, or its parameters do not say what they mean; weights
            were pruned whose first prior is no Gaussian about zero; at the `BNN`: it is of another network.

    Example:
        >>> import jax, numpy as np, bayesprune as bp
        >>> def under(prior):
        ...     return bp.BNN(bp.nets.MLP((), 1), prior=prior, likelihood=bp.likelihoods.Normal(1.0), input_shape=(2,))
        >>> monday = bp.Dataset(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
        >>> fit = bp.fit_svi(jax.random.key(0), under(bp.priors.Gaussian()), monday, num_steps=2, progress=False)
        >>> prior = bp.priors.Posterior(fit, forgetting=0.1)
        >>> tuesday = bp.Dataset(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))
        >>> fit = bp.fit_svi(jax.random.key(0), under(prior), tuesday, num_steps=2, progress=False)

    Source: Nguyen, Li, Bui & Turner (2018), equation 1; Kulhavý & Zarrop (1993) for forgetting.
    """

    loc: Mapping[str, np.ndarray]
    scale: Mapping[str, np.ndarray]
    first: Mapping[str, np.ndarray]
    mask: Mapping[str, np.ndarray]
    forgetting: float

    def __init__(self, fit: Any, forgetting: float = 0.0) -> None:
        if isinstance(fit, type) or not all(hasattr(fit, name) for name in ("params", "mask")):
            raise TypeError(f"fit must be a fit, with its params and mask, got {got(fit)}: give the result of bp.fit_svi.")
        check_number(forgetting, "forgetting")
        check_within(forgetting, "forgetting", "[0, 1)", "it is the share that is forgotten")
        check_params(fit.params, "fit.params")
        found = params.moments(fit.params)
        if not found:
            raise ValueError(
                "fit.params do not say which sites are weights: give a fit of bp.fit_svi or bp.fit_sgmcmc, or add "
                "bnn.describe(params) to parameters of NumPyro's own SVI."
            )
        laws = {site: _law(site, *moments, fit.mask.get(site), forgetting) for site, moments in found.items()}
        for number, name in enumerate(("loc", "scale")):
            object.__setattr__(self, name, {site: law[number] for site, law in laws.items()})
        object.__setattr__(self, "first", {site: moments[2] for site, moments in found.items() if moments[2] is not None})
        object.__setattr__(self, "mask", {site: law[2] for site, law in laws.items() if not law[2].all()})
        object.__setattr__(self, "forgetting", float(forgetting))

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return sample_own(layout, lambda spec: dist.Normal(*self._moments(spec)))

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``, which starts where the prior stands."""
        starts: dict[str, Any] = {}
        for spec in with_posterior(layout):
            starts |= family.around(*self._moments(spec), spec)
        with substitute(data=starts):
            guide_each(layout, family)

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """In the weight's own units, under the first prior: what is removed has no part in any of the data."""
        first = self.first.get(str(spec.path))
        return replace(node, prior_scale=None if first is None else self._typed(first), unit=1.0)

    def _moments(self, spec: ParamSpec) -> tuple[Any, Any]:
        remedy = "Give a fit of the same net in which the same parameters are Bayesian."
        loc = array_of(self.loc, spec, "priors.Posterior was given a fit", remedy)
        return self._typed(loc), self._typed(self.scale[str(spec.path)])

    def _typed(self, array: np.ndarray) -> Any:
        return jnp.asarray(array, float)


def _law(
    site: str, mean: np.ndarray, scale: np.ndarray, first: np.ndarray | None, mask: Array | None, forgetting: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and standard deviation of today's prior, and which weights are alive; in float64."""
    alive = (scale > 0) | (mean != 0)
    alive = alive if mask is None else alive & np.asarray(mask)
    if (alive & ~(scale > 0)).any():
        raise ValueError(
            f"fit has points at {site!r}, whose spread is not known: fit with posterior='mean_field', or take "
            "priors.moped(...) about them."
        )
    if first is None and not alive.all():
        raise ValueError(
            f"fit has pruned weights at {site!r}, and their first prior is no Gaussian about zero, so that they would have "
            "none: fit first under priors.Gaussian(), Flat() or Horseshoe()."
        )
    if not forgetting and alive.all():
        return mean, scale, alive
    known = np.where(alive, scale, 1.0)
    precision = (1.0 - forgetting) / known**2
    total = precision + (0.0 if first is None else forgetting / first**2)
    kept = (1.0 - forgetting) / known**2 / total * mean
    dead = (0.0, 1.0 if first is None else first)
    return np.where(alive, kept, dead[0]), np.where(alive, total**-0.5, dead[1]), alive
