"""Gaussians that vary with their unit's scale: a mean field with a correlation beside every weight."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesprune.core.layout import Layout, ParamSpec
from bayesprune.core.types import Array
from bayesprune.posteriors.family import ParamNames, starts_of
from bayesprune.posteriors.mean_field import MeanField, MeanFieldFamily

# Short of 1, so that a weight keeps a spread of its own and the divergence stays finite.
LARGEST = 0.999


def _make(values: dict[str, Any]) -> MeanField:
    return MeanField(values["loc"], values["scale"], prior_scale=None)  # the marginals (3.7)


# "<site>_auto_loc", "<site>_auto_scale", "<site>_auto_correlation"
FAMILY = ParamNames(("loc", "scale", "correlation"), MeanField, _make)


@dataclass(frozen=True)
class StructuredFamily(MeanFieldFamily):
    """The mean field, but each weight and its unit's log scale are jointly Gaussian, with one correlation rho a weight (3.7).

      q(log tau) = N(m, s²),   q(w_hat | log tau) = N( loc + rho scale z, (1 - rho²) scale² ),   z = (log tau - m)/s

    ``loc`` and ``scale`` are the marginals, so evidence, SNR and plots read the same node as of the mean field. It costs one
    more parameter a weight, which starts at 0. The product w = tau w_hat then has mean E[tau] (loc + rho scale s), where a
    node's ``loc * unit`` leaves the second term out. Sites without a unit's scale are as in `MeanFieldFamily`.

    Example:
        >>> import bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP(hidden=(8,), num_outputs=3), prior=bp.priors.Horseshoe(),
        ...              likelihood=bp.likelihoods.Categorical(), input_shape=(4,), posterior="structured")

    Source: Ghosh, Yao & Doshi-Velez 2018, section 4, in its form of pairs.
    """

    factorised: ClassVar[bool] = False
    centred: ClassVar[bool] = False
    no_mean: ClassVar[str] = (
        "weights of the StructuredFamily vary with the scales of their units, and the mean of the product is no product "
        "of means: fit with posterior='mean_field', predict by draws, bp.predict(...), or keep drawn networks, "
        "bp.compact(..., keep='posterior', rng_key=..., num_draws=...)."
    )

    def coupled(self, spec: ParamSpec, standard: Array) -> Any:
        """A weight that varies with its unit's scale; ``standard``: z, of a shape that broadcasts to the weight's."""
        loc, scale = self._slab(spec)
        site = FAMILY.name(str(spec.path), "correlation", not spec.prunable)
        rho = numpyro.param(site, jnp.zeros(spec.shape), constraint=constraints.interval(-LARGEST, LARGEST))
        conditional = dist.Normal(loc + rho * scale * standard, scale * jnp.sqrt(1.0 - rho**2), validate_args=False)
        return numpyro.sample(str(spec.path), conditional)

    def check(self, prior: Any, layout: Layout, read: Callable[..., Any]) -> None:
        """Refuse a prior where no weight has a unit's scale to vary with: it would be the mean field, unsaid."""
        params = jax.eval_shape(lambda: starts_of(self, prior, layout))
        if not any(name.endswith("_correlation") for name in params):
            raise ValueError(
                f"posterior='structured' lets a weight vary with the scale of its unit, and {type(prior).__name__} scales no "
                "unit here: it would be the mean field. Take 'mean_field', or a prior that has such scales: "
                "priors.GroupHorseshoe(), GroupNormalJeffreys(), or Horseshoe(), whose last layer has them with last='unit'."
            )
