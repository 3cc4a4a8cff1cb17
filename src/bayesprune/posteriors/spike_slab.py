"""Spike and slab: a mean field with the log-odds of every weight's inclusion beside it, and its laws as NumPyro distributions.

The distributions are elementwise, so that `masked` can prune them, and have log densities, so that NumPyro's own ELBOs and
samplers take them; `MeanFieldELBO` and NumPyro's `TraceMeanField_ELBO` use their divergences in closed form.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.nn import log_sigmoid
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.core.checks import check_name
from bayesprune.core.types import Array, Node
from bayesprune.formulas import dirac_slab, gates, mixture
from bayesprune.posteriors.divergence import divergence
from bayesprune.posteriors.family import ParamNames

GATES = ("hard", "inverse_cdf", "relaxed")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SpikeSlab(Node):
    """Spike and slab, q(w_hat) = p N(loc, scale²) + (1 - p) spike, with inclusion probability p = sigmoid(logit).

    ``unit``: the network's weight is w = unit w_hat, as of `MeanField`. A cut leaves the logit: 0 means even odds. ``at_zero``:
    the spike is a point at zero; else it is a narrow Gaussian, the posterior is N(loc, scale²), and p says which of the prior's
    two components it comes from, as under `priors.GaussianSlab`.

    >>> mean, variance = SpikeSlab(jnp.array([2.0]), jnp.array([1.0]), jnp.array([0.0])).moments()
    >>> print(mean, variance)  # one half of the time N(2, 1), else zero
    [1.] [1.5]
    """

    loc: Any
    scale: Any
    logit: Any
    unit: Any = 1.0
    at_zero: bool = field(default=True, metadata={"static": True})

    gated: ClassVar[bool] = True
    no_gain: ClassVar[str] = (
        "the evidence of (2.5) is that of a Gaussian prior, and this posterior is of a spike and slab: prune it by its "
        "inclusion probabilities, with methods.SVBNN or methods.SBNN."
    )

    def draw(self, rng_key: jax.Array) -> jax.Array:
        """One draw of the network's weights."""
        gate_key, slab_key = jax.random.split(rng_key)
        gate = jax.random.bernoulli(gate_key, self.present(), jnp.shape(self.loc))
        slab = self.loc + self.scale * jax.random.normal(slab_key, jnp.shape(self.loc), jnp.result_type(self.loc))
        return jnp.where(gate, slab * self.unit, 0)

    def moments(self) -> tuple[Any, Any]:
        """Mean p loc and variance p (scale² + (1 - p) loc²) of the network's weights; p is 1 where no spike is at zero."""
        p = self.present()
        variance = p * (jnp.square(self.scale) + self.present(-1.0) * jnp.square(self.loc))
        return p * self.loc * self.unit, variance * jnp.square(self.unit)

    def present(self, sign: float = 1.0) -> Any:
        """The probability that a weight is no point at zero, or with ``sign`` = -1 that it is one."""
        return jax.nn.sigmoid(sign * self.logit) if self.at_zero else jnp.full(jnp.shape(self.loc), sign > 0, float)

    def gain(self) -> Any:
        """There is none: `TypeError`."""
        raise TypeError(self.no_gain)

    def divergence(self, prior: Distribution) -> jax.Array:
        """The divergence (5.1) from a `GatedNormal`, or (6.2) from `TwoNormals`, weight by weight, nats."""
        if not self.at_zero:
            return divergence(dist.Normal(self.loc, self.scale, validate_args=False), prior)
        return divergence(GatedNormal(self.loc, self.scale, self.logit, validate_args=False), prior)

    def log_odds(self) -> jax.Array:
        """The logit."""
        return jnp.asarray(self.logit)

    def under(self, prior_scale: ArrayLike | None) -> "SpikeSlab":
        """The node as it is: its prior is no Gaussian."""
        return self

    def renewed(self, grown: Array, scale: Array, mean: Callable[[Any], Any]) -> "SpikeSlab":
        """As of `Node`; the log-odds start at the mean of those beside."""
        return replace(super().renewed(grown, scale, mean), logit=jnp.where(grown, mean(self.logit), self.logit))


# "<site>_auto_loc", "<site>_auto_scale", "<site>_auto_logit": w = g v, g ~ Bernoulli, v ~ N(loc, scale²).
FAMILY = ParamNames(("loc", "scale", "logit"), SpikeSlab, lambda values: SpikeSlab(**values))


class GatedNormal(dist.Distribution):
    """w = g v,  g ~ Bernoulli(sigmoid(logit)),  v ~ N(loc, scale²): a point mass at zero beside a Gaussian.

    ``gate`` says how a draw carries gradients: "hard" (0 or 1 forward, relaxed backward, `formulas.gates.hard_gate`),
    "inverse_cdf" (exact), "relaxed" (soft both ways: its draws are not of this distribution). The density is with respect to
    a point mass at zero plus the Lebesgue measure: log(1 - phi) at w = 0, log phi + log N(w; loc, scale²) elsewhere.

    Source: Bai, Song & Cheng 2020, equations 5 and 7.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "logit": constraints.real,
    }
    support = constraints.real
    reparametrized_params: ClassVar[list[str]] = ["loc", "scale", "logit"]
    pytree_data_fields = ("loc", "scale", "logit")
    pytree_aux_fields = ("gate",)

    def __init__(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        logit: ArrayLike = 0.0,
        *,
        gate: str = "hard",
        validate_args: bool | None = None,
    ) -> None:
        check_name("gate", gate, GATES)
        self.loc, self.scale, self.logit = jnp.broadcast_arrays(*map(jnp.asarray, (loc, scale, logit)))
        self.gate = gate
        super().__init__(batch_shape=jnp.shape(self.loc), validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        shape = self.shape(sample_shape)
        if self.gate == "inverse_cdf":
            return gates.inverse_cdf(self.loc, self.scale, self.logit, jax.random.uniform(key, shape))
        gate_key, slab_key = jax.random.split(key)
        return self.draw_gate(gate_key, shape) * (self.loc + self.scale * _flat(jax.random.normal, slab_key, shape))

    def draw_gate(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """A gate for each element; of `relaxed_gate` where the draw is relaxed, of `hard_gate` otherwise."""
        draw = gates.relaxed_gate if self.gate == "relaxed" else gates.hard_gate
        return draw(self.logit, _flat(jax.random.logistic, key, shape))

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> jax.Array:
        slab = log_sigmoid(self.logit) + dist.Normal(self.loc, self.scale, validate_args=False).log_prob(value)
        return jnp.where(value == 0, log_sigmoid(-self.logit), slab)


def _flat(draw: Callable[..., Any], key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The same numbers, drawn in one row: XLA takes two thirds of the time to compile that."""
    return draw(key, (math.prod(shape),)).reshape(shape)  # type: ignore[no-any-return]


class TwoNormals(dist.Distribution):
    """w ~ N(0, slab_scale²) with probability ``slab_probability``, else N(0, spike_scale²): which of the two is summed out.

    Source: Saha, Liu & Liang 2024, equation 3.1.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "spike_scale": constraints.positive,
        "slab_scale": constraints.positive,
        "slab_probability": constraints.unit_interval,
    }
    support = constraints.real
    pytree_data_fields = ("spike_scale", "slab_scale", "slab_probability")

    def __init__(self, spike_scale: ArrayLike, slab_scale: ArrayLike = 1.0, slab_probability: ArrayLike = 0.5) -> None:
        values = map(jnp.asarray, (spike_scale, slab_scale, slab_probability))
        self.spike_scale, self.slab_scale, self.slab_probability = jnp.broadcast_arrays(*values)
        super().__init__(batch_shape=jnp.shape(self.spike_scale))

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        which, noise = jax.random.split(key)
        shape = self.shape(sample_shape)
        wide = jax.random.bernoulli(which, self.slab_probability, shape)
        return jnp.where(wide, self.slab_scale, self.spike_scale) * jax.random.normal(noise, shape)

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> jax.Array:
        return mixture.log_density(value, self.spike_scale, self.slab_scale, self.slab_probability)


@kl_divergence.register(GatedNormal, GatedNormal)
def dirac_divergence(q: GatedNormal, p: GatedNormal) -> jax.Array:
    """The divergence (5.1) of one `GatedNormal` from another, element by element, nats."""
    return dirac_slab.kl_divergence(q.loc, q.scale, q.logit, p.loc, p.scale, p.logit)


@kl_divergence.register(dist.Normal, TwoNormals)
def mixture_divergence(q: dist.Normal, p: TwoNormals) -> jax.Array:
    """The divergence of N(loc, scale²) with the best inclusion probabilities from a `TwoNormals`: (6.2) less 1/2, nats.

    An upper bound of the divergence from the mixture itself, because the posterior takes weight and component as independent.
    """
    return mixture.collapsed_penalty(q.loc, q.scale, p.spike_scale, p.slab_scale, p.slab_probability) - 0.5
