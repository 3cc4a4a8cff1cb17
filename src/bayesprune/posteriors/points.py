"""Points: a maximum of the posterior density, a mean field without spread; alone, or beside random scales of units."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesprune.core.layout import ParamSpec
from bayesprune.core.types import Array, Node
from bayesprune.posteriors.family import Family, ParamNames, Sound, SoundScales, check_start, start_of_loc, start_of_scale
from bayesprune.posteriors.mean_field import MeanField

_zeros = jax.jit(jnp.zeros_like)  # compiled, it sends no number to the device


def _make(values: dict[str, Any]) -> MeanField:
    return MeanField(**values, scale=_zeros(values["loc"]), prior_scale=None)


# "<site>_map_loc": w = loc.
FAMILY = ParamNames(("loc",), MeanField, _make, "map", "dense_map")


@dataclass(frozen=True)
class MapFamily(Family):
    """A point for every latent variable: the maximum of the posterior density (in the prior's non-centred coordinates).

    Args: ``init_range``, ``init_loc``, ``unit``, ``sound`` and ``sound_scales`` as of `MeanFieldFamily`.
    """

    init_range: float = 2.0
    init_loc: str = "uniform"
    unit: float = 1.0
    sound: Sound = ()
    sound_scales: SoundScales = ()

    spread: ClassVar[bool] = False
    factorised: ClassVar[bool] = True
    centred: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_start(self.init_loc)

    def guide(self, spec: ParamSpec) -> Any:
        loc = numpyro.param(FAMILY.name(str(spec.path), "loc", not spec.prunable), start_of_loc(self, spec))
        return numpyro.sample(str(spec.path), dist.Delta(loc))

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        raise ValueError(
            "a point mass at zero has no maximum of its posterior density: use posterior='mean_field' with priors.DiracSlab."
        )

    def positive(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        log_loc = numpyro.param(f"{name}_log_loc", start_of_scale(self, name, shape))
        return numpyro.sample(name, dist.Delta(jnp.exp(log_loc), log_density=self.log_volume(log_loc)))

    def log_volume(self, log_loc: Array) -> Any:
        """What the log density of a positive variable loses on the way to its logarithm: nothing, for a maximum is of c."""
        return 0.0

    def scale_of_units(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """A positive site, and zeros: a point has no spread."""
        return self.positive(name, shape), jnp.zeros(shape)

    def read(self, params: dict[str, Any], spec: ParamSpec) -> MeanField:
        return FAMILY.read(params, spec)  # type: ignore[no-any-return]

    def write(self, node: Node, spec: ParamSpec) -> dict[str, Any]:
        return FAMILY.write(node, spec)

    def around(self, loc: Array, scale: Array | None, spec: ParamSpec) -> dict[str, Any]:
        return FAMILY.write(MeanField(loc, scale), spec)

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any:
        """c^power at the point c."""
        return jnp.exp(power * params[f"{name}_log_loc"])

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]:
        """log c, and no spread."""
        loc = params[f"{name}_log_loc"]
        return loc, jnp.zeros_like(loc)


def refuse_points(family: Any, reason: str, prior: str) -> None:
    """Refuse a family of points for a prior that has none that is best; ``reason`` says why."""
    if not family.spread:
        raise ValueError(f"priors.{prior} has no maximum of its posterior density, for {reason}: use posterior='mean_field'.")


@dataclass(frozen=True)
class NoisyPoints(MapFamily):
    """Weights as points, with all that is random in the noise of their units: for `priors.UnitNoise`.

    Its parameters have the names of `MapFamily`'s, so that a fit can start from a trained one's.

    Args:
        init_range, init_loc, unit: as of `MeanFieldFamily`.
        init_scale: the standard deviation of log theta at the start.
        init_spread: has to be 0.
    """

    init_loc: str = "he"
    init_scale: float = math.exp(-5.0)
    init_spread: float = 0.0

    factorised: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init_spread:
            raise ValueError(f"init_spread must be 0 where weights are points, got {self.init_spread}: leave it out.")


def check_noisy_points(family: object, prior: str) -> None:
    """Refuse another family for a prior whose weights are points."""
    if not isinstance(family, NoisyPoints):
        raise ValueError(
            f"priors.{prior} has points for weights and a posterior of the units' noise, and {type(family).__name__} has not: "
            "leave posterior= at 'mean_field', or give model.families.NoisyPoints()."
        )
