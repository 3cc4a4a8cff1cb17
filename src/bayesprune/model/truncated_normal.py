"""A truncated normal whose draws carry gradients and whose density holds far from its mean."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.formulas import truncated_log_normal as formulas
from bayesprune.formulas.truncated_quantile import quantile


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
