"""Multiplicative log-normal noise for each unit: structured Bayesian pruning."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.core.checks import is_number
from bayesprune.core.types import Array
from bayesprune.formulas import truncated_log_normal as formulas
from bayesprune.formulas.truncated_log_normal import quantile
from bayesprune.model import select
from bayesprune.model.families import Family
from bayesprune.model.layout import Layout, ParamSpec, Predicate, of_outputs, with_posterior
from bayesprune.model.prior import Moments, noisy_weights
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.points import NoisyPoints, check_noisy_points
from bayesprune.posteriors.scales import TruncatedLogNormalScale

REFERENCE = "neklyudov2017structured"
HIGH, LARGEST_LOC, LOG_SCALES = 0.0, 5.0, (-9.0, 5.0)


@dataclass(frozen=True)
class UnitNoise:
    """Weights are points, and each unit's output is multiplied by noise theta_i in (0, 1]; "SBP".

      w_ij = theta_i w_hat_ij,  log theta_i uniform on [low, 0];   q(log theta_i) = N(mu_i, sigma_i²) on [low, 0], with (18.1)

    Args:
        low: the lower bound of log theta.

    Units are the outputs of a kernel, neurons or channels, in all layers but the last; noise comes before the bias. One
    theta is drawn for all rows and positions of a step. Start from a trained net: parameters of a fit under `Gaussian` with
    ``posterior="map"`` and ``prunable=select.hidden_kernels`` go into ``init_params=``. mu is kept in [low, 5] and log
    sigma in [-9, 5] (the authors: from -20, where theta is a point).

    The weights have the improper prior p(w) = 1: there is no evidence of a weight (`bmr_prune` refuses), but one of a unit:
    `methods.SBP` and `methods.BMRS` cut by it. Nothing can be drawn from the prior. ``estimator="local"`` has nothing to do,
    and ``posterior="map"`` or a family of one's own other than `NoisyPoints` is refused. ``bp.predict`` averages over draws of
    theta; the authors take E theta, which ``unit`` of a node is.

    Sites: one per weight array (w_hat), and ``"<array>.log_theta"``. By default hidden kernels may be pruned, and nothing else.

    Raises:
        ValueError: ``low`` is not below 0.

    Example:
        >>> UnitNoise().low
        -20.0

    Source: Neklyudov, Molchanov, Ashukha & Vetrov (2017), section 3.
    """

    low: float = -20.0

    improper: ClassVar[bool] = True
    prunable: ClassVar[Predicate] = staticmethod(select.hidden_kernels)

    def __post_init__(self) -> None:
        if not (is_number(self.low) and -math.inf < self.low < HIGH):
            raise ValueError(f"low must be finite and below 0, got {self.low}: it bounds log theta, and theta is at most 1.")

    @property
    def family(self) -> NoisyPoints:
        """Points, from N(0, 2/fan-in)."""
        return NoisyPoints()

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        law = dist.Uniform(self.low, HIGH)
        theta = lambda spec: jnp.exp(numpyro.sample(f"{spec.path}.log_theta", law.expand(of_outputs(spec))))  # noqa: E731
        return noisy_weights(layout, lambda spec: theta(spec) if _has_noise(spec) else 1.0)

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model`: weights by points, noise by a truncated normal of log theta."""
        check_noisy_points(family, "UnitNoise")
        for spec in with_posterior(layout):
            family.weight(spec)
            if _has_noise(spec):
                name, shape = f"{spec.path}.log_theta", of_outputs(spec)
                loc = numpyro.param(f"{name}_loc", jnp.zeros(shape))
                start = jnp.full(shape, family.init_scale)  # type: ignore[attr-defined]
                scale = numpyro.param(f"{name}_scale", start, constraint=constraints.softplus_positive)
                numpyro.sample(name, TruncatedNormal(*self._within(loc, scale), self.low, HIGH))

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """No prior scale, unit E theta, and the law of theta."""
        if not _has_noise(spec):
            return node
        name = f"{spec.path}.log_theta"
        law = TruncatedLogNormalScale(*self._within(moment.value(f"{name}_loc"), moment.value(f"{name}_scale")), self.low, HIGH)
        return Scaled(node.loc, node.scale, None, law.mean(), law)

    def _within(self, loc: Array, scale: Array) -> tuple[Any, Any]:
        least, largest = map(math.exp, LOG_SCALES)
        return jnp.clip(loc, self.low, LARGEST_LOC), jnp.clip(scale, least, largest)


def _has_noise(spec: ParamSpec) -> bool:
    """Whether the array is the kernel of a layer whose outputs are units."""
    return bool(spec.inputs and spec.outputs) and not spec.path.is_last


class TruncatedNormal(dist.Distribution):
    """N(loc, scale²) within [low, high], numbers; drawn by its inverse distribution function.

    `numpyro.distributions.TruncatedNormal` is the same where loc is near the bounds; at ten standard deviations beyond them it
    has neither draws nor a density.

    Source: Neklyudov et al. 2017, section 3.2.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    reparametrized_params: ClassVar[list[str]] = ["loc", "scale"]
    pytree_data_fields = ("loc", "scale")
    pytree_aux_fields = ("low", "high")

    def __init__(self, loc: ArrayLike, scale: ArrayLike, low: float, high: float, *, validate_args: bool | None = None) -> None:
        self.loc, self.scale = jnp.broadcast_arrays(jnp.asarray(loc), jnp.asarray(scale))
        self.low, self.high = low, high
        super().__init__(batch_shape=jnp.shape(self.loc), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        shape = self.shape(sample_shape)
        share = jax.random.uniform(key, shape, self.loc.dtype, minval=jnp.finfo(self.loc.dtype).tiny)
        lower, upper = (jnp.broadcast_to(bound, shape) for bound in self._bounds())
        return jnp.clip(self.loc + self.scale * quantile(share, lower, upper), self.low, self.high)

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> jax.Array:
        z = (value - self.loc) / self.scale
        mass = formulas.log_mass(*self._bounds())
        return -0.5 * jnp.square(z) - formulas.LOG_ROOT_TWO_PI - jnp.log(self.scale) - mass

    def _bounds(self) -> tuple[jax.Array, jax.Array]:
        return formulas.standard(self.loc, self.scale, self.low, self.high)


@kl_divergence.register(TruncatedNormal, dist.Uniform)
def _uniform(posterior: TruncatedNormal, prior: dist.Uniform) -> jax.Array:
    nats = formulas.kl_uniform(posterior.loc, posterior.scale, posterior.low, posterior.high)
    # Where the prior is wider than the posterior's support; a narrower one is refused by nobody, and its divergence infinite.
    wider = jnp.log((prior.high - prior.low) / (posterior.high - posterior.low))
    return jnp.where((posterior.low >= prior.low) & (posterior.high <= prior.high), nats + wider, jnp.inf)
