"""The group normal-Jeffreys prior of Bayesian compression: a Gaussian scale for each unit, under 1/|z|."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesprune.model import select
from bayesprune.model.families import Family, MeanFieldFamily
from bayesprune.model.layout import Layout, ParamSpec, Predicate, of_compression, with_posterior
from bayesprune.model.prior import DrawnNormal, LogUniformDensity, Moments
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.points import refuse_points
from bayesprune.posteriors.scales import GaussianScale

REFERENCE = "louizos2017bayesian"
START, SPREAD, SCALE = 1.0, 0.01, math.exp(-4.5)


@dataclass(frozen=True)
class GroupNormalJeffreys:
    """Gaussian weights that share a scale under the normal-Jeffreys prior; "BC-GNJ".

      p(z_i) ~ 1/|z_i|,  w_hat ~ N(0, 1),  w_ij = z_i w_hat_ij;   q(z_i) = N(mz, vz),  q(w_hat) = N(m, v), with (16.1)

    Units are the inputs of dense kernels and the output channels of convolutions, as in the authors' code; biases, and whatever
    else is no kernel, have N(0, 1). By default all kernels may be pruned, the last layer's too, and nothing else; a channel
    that is cut leaves its bias.

    The prior has no norm: losses are comparable among fits with it, not across priors. Its density has no maximum:
    ``posterior="map"`` is refused, and so are draws from the prior. One z is drawn for all rows of a step, the authors draw one
    for each row; ``estimator="local"`` draws the outputs given z. Their clipping of v in the first layer is left out. Scores of
    weights (``snr``) and evidence are those of w_hat, given the scales.

    Sites: one per weight array (w_hat), and ``"<array>.z"``. ``law`` of a node is a `GaussianScale`.

    Example:
        >>> GroupNormalJeffreys().prior_scale
        1.0

    Source: Louizos, Ullrich & Welling (2017), section 4.1; start values as in the authors' code.
    """

    prior_scale: ClassVar[float] = 1.0
    unit: ClassVar[float] = 1.0  # of every site in the network, at the start: scales begin near one
    improper: ClassVar[bool] = True
    couples: ClassVar[bool] = True
    prunable: ClassVar[Predicate] = staticmethod(select.kernels)

    @property
    def family(self) -> MeanFieldFamily:
        """Small scales about kernels N(0, 2/fan-in) (the authors: 1/fan-in)."""
        return MeanFieldFamily(init_range=0.0, init_scale=SCALE, init_loc="he")

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        weights: dict[str, Any] = {}
        for spec in with_posterior(layout):
            standard = numpyro.sample(str(spec.path), dist.Normal().expand(spec.shape))
            shape = of_compression(spec)
            z = numpyro.sample(f"{spec.path}.z", LogUniformDensity().expand(shape)) if shape else 1.0
            weights[str(spec.path)] = z * standard
        return weights

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model`: the weights by ``family``, a scale by a Gaussian."""
        refuse_points(family, "the density 1/|z| of a scale grows without bound at z = 0", "GroupNormalJeffreys")
        for spec in with_posterior(layout):
            if (shape := of_compression(spec)) is None:
                family.weight(spec)
                continue
            loc = numpyro.param(f"{spec.path}.z_loc", _near_one(shape))
            scale = numpyro.param(f"{spec.path}.z_scale", jnp.full(shape, SCALE), constraint=constraints.softplus_positive)
            z = numpyro.sample(f"{spec.path}.z", DrawnNormal(loc, scale))
            family.coupled(spec, jax.lax.stop_gradient((z - loc) / scale))

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """Prior N(0, 1), unit E z, and the law of z."""
        if of_compression(spec) is None:
            return replace(node, prior_scale=self.prior_scale)
        law = GaussianScale(moment.value(f"{spec.path}.z_loc"), moment.value(f"{spec.path}.z_scale"))
        return Scaled(node.loc, node.scale, self.prior_scale, law.mean(), law)


def _near_one(shape: tuple[int, ...]) -> Any:
    return lambda rng_key: START + SPREAD * jax.random.normal(rng_key, shape)
