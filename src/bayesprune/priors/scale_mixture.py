"""The scale mixture of two Gaussians of Bayes by Backprop."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive, check_within
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.prior import Independent

REFERENCE = "blundell2015weight"


@dataclass(frozen=True)
class ScaleMixture(Independent):
    """Weights from a wide and a narrow Gaussian: w ~ pi N(0, scale1²) + (1 - pi) N(0, scale2²), w = scale1 w_hat.

    Args:
        scale1: standard deviation of the wide component, in the weights' own units.
        scale2: standard deviation of the narrow component; below ``scale1``.
        pi: probability of the wide component.

    Sites: one per weight array, w_hat ~ pi N(0, 1) + (1 - pi) N(0, (scale2/scale1)²). The divergence from the posterior has no
    closed form; it is estimated at the drawn weights. This prior is for pruning by signal-to-noise ratio (`methods.SNR`): the
    Gaussian evidence of `bmr_prune` does not hold for it.

    Raises:
        ValueError: a scale is not positive, ``scale2 >= scale1``, or ``pi`` is outside (0, 1).

    Source: Blundell et al. (2015), equation 7; their grid: pi in {1/4, 1/2, 3/4}, -log scale1 in {0, 1, 2}, -log scale2
    in {6, 7, 8}.
    """

    scale1: float = 1.0
    scale2: float = 0.0025
    pi: float = 0.5

    def __post_init__(self) -> None:
        check_positive(self.scale1, "scale1")
        check_positive(self.scale2, "scale2")
        if self.scale2 >= self.scale1:
            raise ValueError(f"scale2 must be below scale1, got {self.scale2} and {self.scale1}: scale1 is the wide component.")
        check_within(self.pi, "pi", "(0, 1)", "it is the probability of the wide component")

    @property
    def unit(self) -> float:
        """What one unit of a site is in the network."""
        return self.scale1

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return {str(spec.path): self.scale1 * self._sample(spec) for spec in layout if spec.bayesian}

    def _sample(self, spec: ParamSpec) -> Any:
        weights = dist.Categorical(probs=jnp.broadcast_to(jnp.array([self.pi, 1.0 - self.pi]), (*spec.shape, 2)))
        scales = jnp.array([1.0, self.scale2 / self.scale1])
        components = dist.Normal(jnp.zeros((*spec.shape, 2)), scales)
        return numpyro.sample(str(spec.path), dist.MixtureSameFamily(weights, components))
