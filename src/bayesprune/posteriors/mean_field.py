"""Independent Gaussians, under the names that our guides and `numpyro.infer.autoguide.AutoNormal` give them."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import Distribution, constraints

from bayesprune.core.checks import check_not_negative
from bayesprune.core.layout import ParamSpec
from bayesprune.core.types import Array, Node
from bayesprune.formulas import gaussian
from bayesprune.posteriors import spike_slab
from bayesprune.posteriors.divergence import divergence
from bayesprune.posteriors.family import Family, ParamNames, Sound, SoundScales, check_start, start_of_loc
from bayesprune.posteriors.spike_slab import SpikeSlab


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MeanField(Node):
    """Independent Gaussians, q(w_hat) = N(loc, scale²) for every element, and what they mean in the network.

    ``prior_scale``: standard deviation of the Gaussian prior N(0, prior_scale²) in the coordinates of ``loc``; None where the
    prior is no Gaussian, and then there is no evidence. ``unit``: the network's weight is w = unit w_hat, and ``loc * unit`` is
    the mean of the weight itself. Both are numbers, or arrays that broadcast to ``loc``. The defaults say: a weight in its
    own units under N(0, 1).
    """

    loc: Any
    scale: Any
    prior_scale: Any = 1.0
    unit: Any = 1.0

    def draw(self, rng_key: jax.Array) -> jax.Array:
        """One draw of the network's weights."""
        noise = jax.random.normal(rng_key, jnp.shape(self.loc), jnp.result_type(self.loc))
        return (self.loc + self.scale * noise) * self.unit  # type: ignore[no-any-return]

    def moments(self) -> tuple[Any, Any]:
        """Mean and variance of the network's weights."""
        return self.loc * self.unit, jnp.square(self.scale * self.unit)

    def gain(self) -> jax.Array:
        """Evidence gained by the removal of each weight alone, (2.5), nats. `ValueError` where the prior is no Gaussian.

        >>> print(MeanField(jnp.array([0.0, 2.0]), jnp.array([0.5, 1.0])).gain())
        [ 0.6931472 -2.       ]
        """
        if self.prior_scale is None:
            raise ValueError("the prior of these weights is no Gaussian about zero, and the evidence (2.5) is one's.")
        return gaussian.log_evidence_gain_of_removal(self.loc, self.scale, self.prior_scale)

    def divergence(self, prior: Distribution) -> jax.Array:
        """KL( N(loc, scale²) || prior ), weight by weight, nats; see `posteriors.divergence`."""
        return divergence(dist.Normal(self.loc, self.scale, validate_args=False), prior)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled(MeanField):
    """A mean field whose weights share random scales: w = s w_hat, one s for all weights of a unit; ``unit`` is E s.

    ``law``: what the posterior says of the scales, one of the records of `bayesprune.posteriors` with arrays that broadcast to
    ``loc``: `LogNormalScale`, `GaussianScale`, `TruncatedLogNormalScale`. Each has the ``mean`` and the ``variance`` of s.
    """

    law: Any = None


# "<site>_auto_loc" and "<site>_auto_scale": q(w) = N(loc, scale²), element by element.
FAMILY = ParamNames(("loc", "scale"), MeanField, lambda values: MeanField(**values, prior_scale=None))


@dataclass(frozen=True)
class MeanFieldFamily(Family):
    """Independent Normals for weights, LogNormals for positive scales: q(w) = N(loc, scale²), q(c) = LogNormal(loc, scale²).

    Args:
        init_range: every loc starts at U(-init_range, init_range) (Marković et al. 2024, the authors' code).
        init_scale: every scale starts here.
        init_loc: "uniform" as above; for weights (not for scales) also "normal", N(0, init_range²), and "he", kernels from
            N(0, 2/fan_in) and biases at zero.
        unit: what one unit of a loc is in the network: with "he", kernels are divided by it.
        init_spread: weights' scales start at |N(init_scale, init_spread²)| (Li et al. 2024, the authors' code).
        sound: the start of each array, see `posteriors.family.sound_start`; it goes before the others.
        sound_scales: the same for the logarithms of positive scales.

    Of a posterior by name a `BNN` gives it a sound start; a family that it is given keeps its own.
    """

    init_range: float = 2.0
    init_scale: float = 0.1
    init_loc: str = "uniform"
    unit: float = 1.0
    init_spread: float = 0.0
    sound: Sound = ()
    sound_scales: SoundScales = ()

    factorised: ClassVar[bool] = True
    centred: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_start(self.init_loc)
        for name in ("init_range", "init_scale", "init_spread"):
            check_not_negative(getattr(self, name), name)

    def guide(self, spec: ParamSpec) -> Any:
        # Unchecked: the reduced posterior of a dead weight has scale zero, which NumPyro would refuse.
        return numpyro.sample(str(spec.path), dist.Normal(*self._slab(spec), validate_args=False))

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        """A weight behind a gate whose probability starts at ``inclusion``; ``gate``: see `spike_slab.GatedNormal`."""
        loc, scale = self._slab(spec)
        log_odds = math.log(inclusion) - math.log1p(-inclusion)  # of the double: a float32 would have rounded it to 1
        name = spike_slab.FAMILY.name(str(spec.path), "logit", not spec.prunable)
        logit = numpyro.param(name, jnp.full(spec.shape, log_odds))
        return numpyro.sample(str(spec.path), spike_slab.GatedNormal(loc, scale, logit, gate=gate, validate_args=False))

    def read(self, params: dict[str, Any], spec: ParamSpec) -> MeanField | SpikeSlab:
        gated = spike_slab.FAMILY.name(str(spec.path), "logit", not spec.prunable) in params
        return (spike_slab.FAMILY if gated else FAMILY).read(params, spec)  # type: ignore[no-any-return]

    def write(self, node: Node, spec: ParamSpec) -> dict[str, Any]:
        return (spike_slab.FAMILY if node.gated else FAMILY).write(node, spec)

    def around(self, loc: Array, scale: Array | None, spec: ParamSpec) -> dict[str, Any]:
        return self.write(MeanField(loc, scale), spec)

    def _slab(self, spec: ParamSpec) -> tuple[Any, Any]:
        name = lambda field: FAMILY.name(str(spec.path), field, not spec.prunable)  # noqa: E731
        loc = numpyro.param(name("loc"), start_of_loc(self, spec))
        scale = self._start_of_scale(spec.shape)
        for site, _, sound in self.sound:
            scale = jnp.full(spec.shape, sound) if site == spec.path else scale
        return loc, numpyro.param(name("scale"), scale, constraint=constraints.softplus_positive)

    def _start_of_scale(self, shape: tuple[int, ...]) -> Any:
        if not self.init_spread:
            return jnp.full(shape, self.init_scale)
        return lambda rng_key: jnp.abs(self.init_scale + self.init_spread * jax.random.normal(rng_key, shape))
