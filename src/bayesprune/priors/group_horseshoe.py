"""The group horseshoe of Bayesian compression: half-Cauchy scales of units and layers, each in two log-normal factors."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.model import select
from bayesprune.model.families import Family, MeanFieldFamily
from bayesprune.model.layout import Layout, ParamSpec, Predicate, of_compression, with_posterior
from bayesprune.model.prior import Moments
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.points import refuse_points
from bayesprune.posteriors.scales import LogNormalScale

REFERENCE = "louizos2017bayesian"
START, SCALE = 0.1, math.exp(-4.5)


@dataclass(frozen=True)
class GroupHorseshoe:
    """Gaussian weights under half-Cauchy scales of units and layers; "BC-GHS" (16.3), the horseshoe of (3.1) without a slab.

      s ~ C+(0, tau0),  z_i ~ C+(0, 1),  w_hat ~ N(0, 1),  w_ij = s z_i w_hat_ij;   s² = a b,  z_i² = a_i b_i
      a, a_i ~ Gamma(1/2, 1),  b ~ InverseGamma(1/2, tau0²),  b_i ~ InverseGamma(1/2, 1)

    Args:
        tau0: width of the layers' half-Cauchy.

    All factors are log-normal in the posterior, with the divergence (3.2). Units are the inputs of dense kernels and the output
    channels of convolutions, as in the authors' code; biases, and whatever else is no kernel, have N(0, 1). By default all
    kernels may be pruned, the last layer's too, and nothing else; a channel that is cut leaves its bias. Scales start near 1.

    A Gamma of shape 1/2 has no maximum: ``posterior="map"`` is refused. Scores of weights (``snr``) and evidence are those of
    w_hat, given the scales.

    Sites: one per weight array (w_hat), ``"<array>.s_gamma"``, ``"<array>.s_inverse"``, ``"<array>.z_gamma"`` and
    ``"<array>.z_inverse"``. ``law`` of a node is a `LogNormalScale`; ``unit`` is E s z_i.

    Raises:
        ValueError: ``tau0`` is not positive.

    Example:
        >>> GroupHorseshoe().tau0
        1e-05

    Source: Louizos, Ullrich & Welling (2017), section 4.2.
    """

    tau0: float = 1e-5

    prior_scale: ClassVar[float] = 1.0
    couples: ClassVar[bool] = True
    prunable: ClassVar[Predicate] = staticmethod(select.kernels)

    def __post_init__(self) -> None:
        check_positive(self.tau0, "tau0")

    @property
    def family(self) -> MeanFieldFamily:
        """Small scales about kernels N(0, 2/fan-in)."""
        return MeanFieldFamily(init_range=START, init_scale=SCALE, init_loc="he")

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        weights: dict[str, Any] = {}
        for spec in with_posterior(layout):
            scale: Any = 1.0
            if (shape := of_compression(spec)) is not None:
                scale = self._half_cauchy(f"{spec.path}.s", (), self.tau0**2) * self._half_cauchy(f"{spec.path}.z", shape, 1.0)
            weights[str(spec.path)] = scale * numpyro.sample(str(spec.path), dist.Normal().expand(spec.shape))
        return weights

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``."""
        refuse_points(family, "the density of a Gamma of shape 1/2 grows without bound at 0", "GroupHorseshoe")
        for spec in with_posterior(layout):
            if (shape := of_compression(spec)) is None:
                family.weight(spec)
                continue
            for name in _factors(f"{spec.path}.s"):
                family.scale_of_units(name, ())
            # Of two factors of equal spread, exactly the standard normal number behind log z.
            numbers = [family.scale_of_units(name, shape)[1] for name in _factors(f"{spec.path}.z")]
            family.coupled(spec, (numbers[0] + numbers[1]) / math.sqrt(2.0))

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """Prior N(0, 1), unit E s z, and the law of s z."""
        if of_compression(spec) is None:
            return replace(node, prior_scale=self.prior_scale)
        (log_s, s_std), (log_z, z_std) = (_log_moments(moment, f"{spec.path}.{scale}") for scale in "sz")
        law = LogNormalScale(log_z, z_std, log_s, s_std)
        return Scaled(node.loc, node.scale, self.prior_scale, law.mean(), law)

    def _half_cauchy(self, name: str, shape: tuple[int, ...], rate: float) -> Any:
        """A scale of C+(0, sqrt(rate)) as the root of a product."""
        gamma, inverse = _factors(name)
        a = numpyro.sample(gamma, dist.Gamma(0.5, 1.0).expand(shape))
        return jnp.sqrt(a * numpyro.sample(inverse, dist.InverseGamma(0.5, rate).expand(shape)))


def _factors(name: str) -> tuple[str, str]:
    return f"{name}_gamma", f"{name}_inverse"


def _log_moments(moment: Moments, name: str) -> tuple[Any, Any]:
    """Mean and standard deviation of log sqrt(a b), (16.4)."""
    (a, a_std), (b, b_std) = (moment.log(factor) for factor in _factors(name))
    return 0.5 * (a + b), 0.5 * jnp.hypot(a_std, b_std)
