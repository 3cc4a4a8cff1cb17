"""How posteriors start: by their family's own rule, or small enough to prune and large enough for a deep net's signal."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn import initializers

from bayesprune.core.checks import check_name
from bayesprune.core.layout import Layout, ParamSpec, with_posterior

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
