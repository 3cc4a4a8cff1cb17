"""What a family of posteriors is: a guide of one array of weights, and how its node is read from parameters and written."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.nn import initializers
from numpyro.distributions import constraints

from bayesprune.core.checks import check_name
from bayesprune.core.layout import Layout, ParamSpec, with_posterior
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Array, Node

STARTS = ("uniform", "normal", "he")
TRUNCATED_SD = 0.87962566103423978  # of a standard normal within (-2, 2)
# Of what He's start makes of an input at the end of the hidden layers, this share; no layer takes more than LEAST of it.
WHOLE, LEAST = 0.01, 0.1
SPREAD = 0.1  # scales, in units of the deviation that locs start with
ALONE = 0.1  # the deviation taken for that of an array without inputs, in whose layer no kernel is

Sound = tuple[tuple[str, float, float], ...]
SoundScales = tuple[tuple[str, float], ...]


def sound_start(prior: object, layout: Layout) -> Sound:
    """(path, deviation of the locs, scale) of every Bayesian weight array, in the posterior's coordinates.

      loc ~ N(0, (g sqrt(2/fan_in) / unit)²),   scale = SPREAD g sqrt(2/fan_in) / unit,   g = max(LEAST, WHOLE^(1/L))   (2.11)

    L counts the hidden kernels: a net of two hidden layers starts at a tenth of He's in each, one of eight at a half, so that
    the outputs of both start at about a hundredth of what He's start gives, and no signal is lost on the way. The last layer
    has g = 1, biases start at 0. ``unit``: what the prior makes of one unit of loc, its scales at 1; see
    `model.prior.Prior.factor`.

    Source: He et al. (2015) for g = 1; Zhang, Dauphin & Ma (2019) for a start whose product over the layers is kept.
    """
    bayesian = with_posterior(layout)
    depth = sum(bool(spec.inputs) and not spec.path.is_last for spec in bayesian)
    gain = max(LEAST, WHOLE ** (1.0 / depth)) if depth else 1.0
    of_layer = {s.path.layer: _deviation(s, gain) for s in reversed(bayesian) if s.inputs}
    starts = []
    for spec in bayesian:
        unit = prior.factor(spec)[0] if hasattr(prior, "factor") else 1.0
        deviation = of_layer.get(spec.path.layer, ALONE) / unit
        starts.append((str(spec.path), _deviation(spec, gain) / unit if spec.inputs else 0.0, SPREAD * deviation))
    return tuple(starts)


def sound_scales(prior: object, layout: Layout) -> SoundScales:
    """(site, start of its logarithm) of the positive scales that do not start at 1 under this prior."""
    return tuple(prior.scale_starts(layout).items()) if hasattr(prior, "scale_starts") else ()


def _deviation(spec: ParamSpec, gain: float) -> float:
    return (1.0 if spec.path.is_last else gain) * math.sqrt(2.0 / spec.fan_in)


def check_start(init_loc: str) -> None:
    """Refuse an unknown name of a start."""
    check_name("init_loc", init_loc, STARTS)


def _uniform(init_range: float, shape: tuple[int, ...]) -> Any:
    """U(-init_range, init_range), as a function of a key."""
    # Drawn in one row, as gates are: quicker to compile.
    size = math.prod(shape)
    return lambda rng_key: jax.random.uniform(rng_key, (size,), minval=-init_range, maxval=init_range).reshape(shape)


def start_of_loc(family: Any, spec: ParamSpec) -> Any:
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


def start_of_scale(family: Any, name: str, shape: tuple[int, ...]) -> Any:
    """The initial logarithm of a positive scale."""
    sound = dict(family.sound_scales).get(name)
    return _uniform(family.init_range, shape) if sound is None else jnp.full(shape, sound)


def _truncated(deviation: float, shape: tuple[int, ...], unit: float = 1.0) -> Any:
    """Normal of this deviation, cut off at two of its own, in this unit."""
    draw = initializers.truncated_normal(deviation / TRUNCATED_SD)
    return lambda rng_key: draw(rng_key, shape) / unit


class Family(ABC):
    """One kind of posterior: a frozen dataclass of knobs with three methods, in one file with its `core.types.Node`.

      ``guide(spec)``          one NumPyro site of the array's path, of independent elements (no event shape); returns its draw
      ``read(params, spec)``   the array's node from the parameters that the guide has; `KeyError` for one that is missing
      ``write(node, spec)``    the inverse: those parameters by name, of a node that was cut, say

    Everything else has an answer here, for independent log-normal scales; a family that knows better overrides it. ``spec``:
    a `core.layout.ParamSpec`, ``str(spec.path)`` the site. A prior asks for ``weight``, ``coupled`` or ``gated`` of each array
    and ``positive`` or ``scale_of_units`` of its own scales, and so writes its guide once, for any family.

    ``spread``: weights have one; points have not. ``factorised``: weights are independent Gaussians of the node's loc and
    scale; who overrides a method that draws or reads has to say so anew. ``centred``: ``around`` says all of a weight, so that
    a fit can start from one that was trained. ``no_mean``: why the mean of the weights is none of the network's.
    """

    init_range: float = 2.0
    init_scale: float = 0.1
    sound_scales: SoundScales = ()
    spread: ClassVar[bool] = True
    factorised: ClassVar[bool] = False
    centred: ClassVar[bool] = False
    no_mean: ClassVar[str] = ""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        drawn = {"guide", "weight", "coupled", "gated", "read", "posterior", "positive"}
        if drawn & vars(cls).keys() and "factorised" not in vars(cls):
            cls.factorised = False

    @abstractmethod
    def guide(self, spec: ParamSpec) -> Any: ...

    @abstractmethod
    def read(self, params: dict[str, Any], spec: ParamSpec) -> Any: ...

    @abstractmethod
    def write(self, node: Node, spec: ParamSpec) -> dict[str, Any]: ...

    def weight(self, spec: ParamSpec) -> Any:
        """What a prior asks for an array of weights."""
        return self.guide(spec)

    def coupled(self, spec: ParamSpec, standard: Array) -> Any:
        """A weight beside its unit's scale, of which `scale_of_units` gave ``standard``: here they are independent."""
        return self.weight(spec)

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        """A weight behind a gate whose probability starts at ``inclusion``: here there is none."""
        raise ValueError(
            f"{type(self).__name__} has no method gated, so that its weights have no gates: use posterior='mean_field' with "
            "priors.DiracSlab, or another prior."
        )

    def positive(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        """A positive site, q(c) = LogNormal(loc, scale²)."""
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

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, Any]:
        """The nodes of every Bayesian weight. Raises `KeyError` for a parameter that is missing."""
        return {str(spec.path): self.read(params, spec) for spec in layout if spec.bayesian}

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any:
        """E[c^power] of a positive scale c ~ LogNormal(m, s²): exp(power m + power² s²/2)."""
        loc, scale = params[f"{name}_log_loc"], params[f"{name}_log_scale"]
        return jnp.exp(power * loc + 0.5 * jnp.square(power * scale))

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]:
        """Mean and standard deviation of log c."""
        return params[f"{name}_log_loc"], params[f"{name}_log_scale"]

    def around(self, loc: Array, scale: Array | None, spec: ParamSpec) -> dict[str, Any]:
        """The parameters that put an array of weights at ``loc``, with this ``scale`` where it has one of each weight."""
        return {}

    def joint(self, spec: ParamSpec) -> bool:
        """Whether the weights of an array vary together, so that a cut moves the others."""
        return False

    def check(self, prior: object, layout: Layout, read: Callable[..., Any]) -> None:
        """Refuse a prior or a layout that this family is not for; ``read``: parameters -> nodes as the prior means them."""
        return


@by_one_thread
def starts_of(family: Family, prior: Any, layout: Layout) -> dict[str, Any]:
    """The parameters that a prior's guide of this family begins with, by name."""
    with numpyro.handlers.block(), numpyro.handlers.trace() as sites, numpyro.handlers.seed(rng_seed=0):
        prior.guide(layout, family)
    params = {name: site["value"] for name, site in sites.items() if site["type"] == "param"}
    sites.clear()
    return params


@dataclass(frozen=True)
class ParamNames:
    """Parameters called ``"<site>_<stem>_<field>"``, of the site's shape, but for those of ``joint``.

    ``hidden``: the stem in the names of weights that are never pruned, so that they are not found when parameters are read.
    Fields of ``joint`` are of all weights at once. ``node``: the class of what they make; ``make``: the node of values by
    field, which alone know of no prior.
    """

    fields: tuple[str, ...]
    node: type[Node]
    make: Callable[[dict[str, Any]], Any]
    stem: str = "auto"
    hidden: str = "dense"
    joint: tuple[str, ...] = ()

    def name(self, site: str, field: str, hidden: bool = False) -> str:
        """The name of one parameter.

        >>> ParamNames(("loc",), Node, dict).name("w", "loc")
        'w_auto_loc'
        """
        return f"{site}_{self.hidden if hidden else self.stem}_{field}"

    def sites(self, params: dict[str, Any]) -> list[str]:
        """The sites of which ``params`` have every parameter; scalars are not weights and are left out."""
        first = self.name("", self.fields[0])
        sites = [name.removesuffix(first) for name in params if name.endswith(first) and jnp.ndim(params[name]) > 0]
        return [site for site in sites if all(self.name(site, field) in params for field in self.fields)]

    def values(self, params: dict[str, Any], site: str, hidden: bool = False) -> dict[str, Any]:
        """The parameters of a site by field. Raises `KeyError` for one that is missing."""
        return {field: params[self.name(site, field, hidden)] for field in self.fields}

    def values_of(self, node: Node) -> dict[str, Any]:
        """The parameters of a node by field: those that it holds."""
        return {field: getattr(node, field) for field in self.fields if hasattr(node, field)}

    def read(self, params: dict[str, Any], spec: ParamSpec) -> Any:
        """The node of an array of a layout."""
        return self.make(self.values(params, str(spec.path), not spec.prunable))

    def write(self, node: Node, spec: ParamSpec) -> dict[str, Any]:
        """The parameters of a node, by name."""
        return {self.name(str(spec.path), f, not spec.prunable): value for f, value in self.values_of(node).items()}
