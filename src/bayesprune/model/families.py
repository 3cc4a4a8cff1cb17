"""Families of guides: how one weight, or one positive scale, is approximated. A prior writes its guide once, for any."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.nn import initializers
from numpyro.distributions import constraints

from bayesprune.core.checks import check_not_negative, unknown_name
from bayesprune.core.types import MeanField, SpikeSlab
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.sound_start import Sound, SoundScales
from bayesprune.model.spike_slab import GatedNormal
from bayesprune.posteriors import mean_field, points, spike_slab

STARTS = ("uniform", "normal", "he")
TRUNCATED_SD = 0.87962566103423978  # of a standard normal within (-2, 2)


@runtime_checkable
class Family(Protocol):
    """What a prior's guide asks of a family, and how a posterior is read back from its parameters."""

    def weight(self, spec: ParamSpec) -> Any: ...

    def coupled(self, spec: ParamSpec, standard: Any) -> Any: ...

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any: ...

    def positive(self, name: str, shape: tuple[int, ...] = ()) -> Any: ...

    def scale_of_units(self, name: str, shape: tuple[int, ...]) -> Any: ...

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, Any]: ...

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any: ...

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]: ...


def _uniform(init_range: float, shape: tuple[int, ...]) -> Any:
    # Drawn in one row, as gates are: quicker to compile.
    size = math.prod(shape)
    return lambda rng_key: jax.random.uniform(rng_key, (size,), minval=-init_range, maxval=init_range).reshape(shape)


@dataclass(frozen=True)
class MeanFieldFamily:
    """Independent Normals for weights, LogNormals for positive scales: q(w) = N(loc, scale²), q(c) = LogNormal(loc, scale²).

    Args:
        init_range: every loc starts at U(-init_range, init_range) (Marković et al. 2024, the authors' code).
        init_scale: every scale starts here.
        init_loc: "uniform" as above; for weights (not for scales) also "normal", N(0, init_range²), and "he", kernels from
            N(0, 2/fan_in) and biases at zero.
        unit: what one unit of a loc is in the network: with "he", kernels are divided by it.
        init_spread: weights' scales start at |N(init_scale, init_spread²)| (Li et al. 2024, the authors' code).
        sound: the start of each array, see `model.sound_start`; it goes before the others.
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

    def __post_init__(self) -> None:
        _check_start(self.init_loc)
        for name in ("init_range", "init_scale", "init_spread"):
            check_not_negative(getattr(self, name), name)

    def weight(self, spec: ParamSpec) -> Any:
        # Unchecked: the reduced posterior of a dead weight has scale zero, which NumPyro would refuse.
        return numpyro.sample(str(spec.path), dist.Normal(*self._slab(spec), validate_args=False))

    def coupled(self, spec: ParamSpec, standard: Any) -> Any:
        """A weight beside its unit's scale, of which `scale_of_units` gave ``standard``: here they are independent."""
        return self.weight(spec)

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        """A weight behind a gate whose probability starts at ``inclusion``; ``gate``: see `model.spike_slab.GatedNormal`."""
        loc, scale = self._slab(spec)
        log_odds = math.log(inclusion) - math.log1p(-inclusion)  # of the double: a float32 would have rounded it to 1
        name = spike_slab.FAMILY.name(str(spec.path), "logit", not spec.prunable)
        logit = numpyro.param(name, jnp.full(spec.shape, log_odds))
        return numpyro.sample(str(spec.path), GatedNormal(loc, scale, logit, gate=gate, validate_args=False))

    def positive(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        return self._positive(name, shape)[0]

    def scale_of_units(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """A positive site, and the standard normal numbers z behind its draw: log c = loc + scale z."""
        value, loc, scale = self._positive(name, shape)
        # z does not move with loc and scale, though it is computed from them.
        return value, jax.lax.stop_gradient((jnp.log(value) - loc) / scale)

    def _positive(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
        loc = numpyro.param(f"{name}_log_loc", start_of_scale(self, name, shape))
        scale = numpyro.param(f"{name}_log_scale", jnp.full(shape, self.init_scale), constraint=constraints.softplus_positive)
        return numpyro.sample(name, dist.LogNormal(loc, scale)), loc, scale

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField | SpikeSlab]:
        """The nodes of every Bayesian weight. Raises `KeyError` for a parameter that is missing."""
        return {str(spec.path): _node(params, str(spec.path), not spec.prunable) for spec in layout if spec.bayesian}

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any:
        """E[c^power] of a positive scale c ~ LogNormal(m, s²): exp(power m + power² s²/2)."""
        loc, scale = params[f"{name}_log_loc"], params[f"{name}_log_scale"]
        return jnp.exp(power * loc + 0.5 * jnp.square(power * scale))

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]:
        """Mean and standard deviation of log c."""
        return params[f"{name}_log_loc"], params[f"{name}_log_scale"]

    def _slab(self, spec: ParamSpec) -> tuple[Any, Any]:
        name = lambda field: mean_field.FAMILY.name(str(spec.path), field, not spec.prunable)  # noqa: E731
        loc = numpyro.param(name("loc"), start_of_loc(self, spec))
        scale = self._start_of_scale(spec.shape)
        for site, _, sound in self.sound:
            scale = jnp.full(spec.shape, sound) if site == spec.path else scale
        return loc, numpyro.param(name("scale"), scale, constraint=constraints.softplus_positive)

    def _start_of_scale(self, shape: tuple[int, ...]) -> Any:
        if not self.init_spread:
            return jnp.full(shape, self.init_scale)
        return lambda rng_key: jnp.abs(self.init_scale + self.init_spread * jax.random.normal(rng_key, shape))


def _check_start(init_loc: str) -> None:
    if init_loc not in STARTS:
        raise unknown_name("init_loc", init_loc, STARTS)


def start_of_loc(family: "MeanFieldFamily | MapFamily", spec: ParamSpec) -> Any:
    """The initial loc of a weight array: a value, or a function of a key."""
    for site, deviation, _ in family.sound:
        if site == spec.path:
            return _truncated(deviation, spec.shape) if deviation else jnp.zeros(spec.shape)
    if family.init_loc == "uniform":
        return _uniform(family.init_range, spec.shape)
    if family.init_loc == "normal":
        return lambda rng_key: family.init_range * jax.random.normal(rng_key, spec.shape)
    if not spec.inputs:
        return jnp.zeros(spec.shape)
    return _truncated(math.sqrt(2.0 / spec.fan_in), spec.shape, family.unit)


def start_of_scale(family: "MeanFieldFamily | MapFamily", name: str, shape: tuple[int, ...]) -> Any:
    """The initial logarithm of a positive scale."""
    sound = dict(family.sound_scales).get(name)
    return _uniform(family.init_range, shape) if sound is None else jnp.full(shape, sound)


def _truncated(deviation: float, shape: tuple[int, ...], unit: float = 1.0) -> Any:
    """Normal of this deviation, cut off at two of its own, in this unit."""
    draw = initializers.truncated_normal(deviation / TRUNCATED_SD)
    return lambda rng_key: draw(rng_key, shape) / unit


def _node(params: dict[str, Any], site: str, hidden: bool) -> MeanField | SpikeSlab:
    gated = spike_slab.FAMILY.name(site, "logit", hidden) in params
    family = spike_slab.FAMILY if gated else mean_field.FAMILY
    return family.make(family.values(params, site, hidden))


@dataclass(frozen=True)
class MapFamily:
    """A point for every latent variable: the maximum of the posterior density (in the prior's non-centred coordinates).

    Args: ``init_range``, ``init_loc``, ``unit``, ``sound`` and ``sound_scales`` as of `MeanFieldFamily`.
    """

    init_range: float = 2.0
    init_loc: str = "uniform"
    unit: float = 1.0
    sound: Sound = ()
    sound_scales: SoundScales = ()

    def __post_init__(self) -> None:
        _check_start(self.init_loc)

    def weight(self, spec: ParamSpec) -> Any:
        loc = numpyro.param(points.FAMILY.name(str(spec.path), "loc", not spec.prunable), start_of_loc(self, spec))
        return numpyro.sample(str(spec.path), dist.Delta(loc))

    def coupled(self, spec: ParamSpec, standard: Any) -> Any:
        """The weight as a point."""
        return self.weight(spec)

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        raise ValueError(
            "a point mass at zero has no maximum of its posterior density: use posterior='mean_field' with priors.DiracSlab."
        )

    def positive(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        log_loc = numpyro.param(f"{name}_log_loc", start_of_scale(self, name, shape))
        return numpyro.sample(name, dist.Delta(jnp.exp(log_loc), log_density=self.log_volume(log_loc)))

    def log_volume(self, log_loc: Any) -> Any:
        """What the log density of a positive variable loses on the way to its logarithm: nothing, for a maximum is of c."""
        return 0.0

    def scale_of_units(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """A positive site, and zeros: a point has no spread."""
        return self.positive(name, shape), jnp.zeros(shape)

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField]:
        """The points, as nodes without spread. Raises `KeyError` for a parameter that is missing."""
        values = {str(s.path): points.FAMILY.values(params, str(s.path), not s.prunable) for s in layout if s.bayesian}
        return {site: points.FAMILY.make(value) for site, value in values.items()}

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any:
        """c^power at the point c."""
        return jnp.exp(power * params[f"{name}_log_loc"])

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]:
        """log c, and no spread."""
        loc = params[f"{name}_log_loc"]
        return loc, jnp.zeros_like(loc)


def refuse_points(family: Any, reason: str, prior: str) -> None:
    """Refuse a family of points for a prior that has none that is best; ``reason`` says why."""
    if isinstance(family, MapFamily):
        raise ValueError(f"priors.{prior} has no maximum of its posterior density, for {reason}: use posterior='mean_field'.")
