"""The regularised horseshoe: one scale for each unit, one for each layer, and a slab that bounds them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import check_name, check_positive
from bayesprune.core.types import Array
from bayesprune.formulas import regularised
from bayesprune.model.families import Family
from bayesprune.model.layout import Layout, ParamSpec, of_outputs, with_posterior
from bayesprune.model.prior import Moments
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.scales import LogNormalScale

REFERENCE = "piironen2017sparsity"
LAST = SLABS = ("layer", "unit")
# How C+(0, 1) is written: as one site, or as sqrt(a/b) with a, b ~ Gamma(1/2, 1), which has lighter tails to learn.
FORMS = ("half_cauchy", "gamma_ratio")


@dataclass(frozen=True)
class Horseshoe:
    """Non-centred Gaussian weights under half-Cauchy scales of units and layers; "tiered" in the BMR paper (3.1).

      tau_i ~ C+(0, 1) for each unit i,   nu ~ C+(0, tau0) for each layer,   c^-2 ~ Gamma(2, 6),   w_hat ~ N(0, 1)
      w_ij = gamma_i w_hat_ij,   gamma_i² = c² nu² tau_i² / (c² + nu² tau_i²)

    Args:
        tau0: width of the layers' half-Cauchy; the smaller, the fewer units are expected.
        form: ``"half_cauchy"`` has each C+ as one log-normal site, its divergence (3.3) by quadrature; ``"gamma_ratio"`` writes
            it as sqrt(a/b), a, b ~ Gamma(1/2, 1), with a log-normal for each, as in the paper.
        slab: shape and rate of the Gamma of c^-2; None for the horseshoe itself, gamma_i = nu tau_i.
        slab_of: one c for each ``"layer"``, as in the paper, or one for each ``"unit"``, as some later code has it.
        last: ``"layer"`` gives the last layer w = nu w_hat with nu ~ C+(0, 1), as in the authors' code; ``"unit"`` treats it as
            the others.
        local: names of layers, such as ``("Dense_0",)``, whose weights have scales of their own, lambda_ij ~ C+(0, 1); tau_i is
            then tau_i lambda_ij.

    A unit's scale is that of its kernel's column or channel, its bias, and its entries in a norm's parameters; units are the
    axes of outputs that the network's graph shows. Sites: ``"<layer>.nu"`` (nu/tau0 ~ C+(0, 1); of a last layer by ``"layer"``
    nu itself), ``"<layer>.tau_<units>"``, ``"<layer>.precision"`` (c^-2; by units ``"<layer>.precision_<units>"``),
    ``"<array>.lambda"``, and one per weight array (w_hat); with "gamma_ratio" two sites, ``_numerator`` and ``_denominator``,
    for each half-Cauchy. The posterior is written in w_hat's coordinates, where
    the prior is exactly N(0, 1); ``unit`` is E gamma_i.

    Raises:
        ValueError: ``tau0`` or a number of ``slab`` is not positive; ``form``, ``last`` or ``slab_of`` is unknown; the network
            has no layer of a name in ``local``.

    Example:
        >>> Horseshoe(tau0=0.1).slab
        (2.0, 6.0)

    Source: Marković, Friston & Kiebel (2024), equation 6 and section II-F; Piironen & Vehtari (2017); Ghosh et al. (2018).
    """

    tau0: float = 1e-2
    form: str = "half_cauchy"
    slab: tuple[float, float] | None = (2.0, 6.0)
    last: str = "layer"
    local: tuple[str, ...] | str = ()
    slab_of: str = "layer"

    prior_scale: ClassVar[float] = 1.0
    couples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self.tau0, "tau0")
        check_name("form", self.form, FORMS)
        if self.slab is not None:
            check_positive(self.slab, "slab", several=True)
            if np.shape(self.slab) != (2,):
                raise ValueError(f"slab must be shape and rate, such as (2.0, 6.0), or None, got {self.slab!r}.")
            object.__setattr__(self, "slab", tuple(self.slab))
        check_name("last", self.last, LAST)
        check_name("slab_of", self.slab_of, SLABS)
        if not isinstance(self.local, Iterable):
            raise TypeError(f"local must be names of layers, such as ('Dense_0',), got {self.local!r}.")
        object.__setattr__(self, "local", (self.local,) if isinstance(self.local, str) else tuple(self.local))

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        weights: dict[str, Any] = {}
        for layer, specs in self._layers(layout).items():
            nu = self._width(specs[0]) * _sample(f"{layer}.nu", (), self.form)
            taus = {name: _sample(name, shape, self.form) for name, shape in self._taus(specs).items()}
            slabs = {n: numpyro.sample(n, dist.Gamma(*self.slab or ()).expand(s)) for n, s in self._slabs(specs).items()}
            for spec in specs:
                scale = nu * jnp.reshape(taus[_tau(spec)], of_outputs(spec)) if taus else nu
                if layer in self.local:
                    scale = scale * _sample(f"{spec.path}.lambda", spec.shape, self.form)
                gamma = regularised.scale(scale, self._of(spec, slabs[self._precision(spec)])) if slabs else scale
                weights[str(spec.path)] = gamma * numpyro.sample(str(spec.path), dist.Normal().expand(spec.shape))
        return weights

    def scale_starts(self, layout: Layout) -> dict[str, float]:
        """Where logarithms of scales start: at nu = 1, 1/tau0 times the half-Cauchy's median.

        At the median every layer would divide its input by 1/tau0, and a deep network never start to learn. One scale a layer
        is cheap to have in the prior's tail: log(1/tau0) nats.
        """
        layers = [layer for layer, specs in self._layers(layout).items() if self._has_units(specs[0])]
        return dict(_starts(f"{layer}.nu", self.form, -math.log(self.tau0)) for layer in layers)

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``, in which weights may vary with their unit's scale."""
        for layer, specs in self._layers(layout).items():
            _guide(family, f"{layer}.nu", (), self.form)
            taus = {name: _guide(family, name, shape, self.form) for name, shape in self._taus(specs).items()}
            for name, shape in self._slabs(specs).items():
                family.positive(name, shape)
            for spec in specs:
                if layer in self.local:
                    _guide(family, f"{spec.path}.lambda", spec.shape, self.form)
                if taus:
                    family.coupled(spec, jnp.reshape(taus[_tau(spec)], of_outputs(spec)))
                else:
                    family.weight(spec)

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """Prior N(0, 1), unit E gamma_i, and the law of nu tau_i; a last layer of one scale has E nu."""
        log_nu, nu_std = _log_moments(moment, f"{spec.path.layer}.nu", self.form)
        log_nu = log_nu + math.log(self._width(spec))
        local, local_std = 0.0, 0.0
        if spec.path.layer in self.local:
            local, local_std = _log_moments(moment, f"{spec.path}.lambda", self.form)
        if not self._has_units(spec):
            unit = regularised.expected_scale(log_nu + local, jnp.hypot(nu_std, local_std), None)
            return replace(node, prior_scale=self.prior_scale, unit=unit)
        log_tau, tau_std = (jnp.reshape(value, of_outputs(spec)) for value in _log_moments(moment, _tau(spec), self.form))
        law = LogNormalScale(log_tau + local, jnp.hypot(tau_std, local_std), log_nu, nu_std)
        slab = None
        if self.slab:
            loc, spread = moment.log(self._precision(spec))
            slab = self._of(spec, loc), self._of(spec, spread)
        unit = regularised.expected_scale(law.log_mean(), law.log_std(), slab)
        return Scaled(node.loc, node.scale, self.prior_scale, unit, law)

    def _has_units(self, spec: ParamSpec) -> bool:
        """Whether the layer's units have scales: all but a last layer of one scale."""
        return self.last == "unit" or not spec.path.is_last

    def _slabs(self, specs: list[ParamSpec]) -> dict[str, tuple[int, ...]]:
        """The sites of a layer's slabs, c^-2, with their shapes; a last layer of one scale has none."""
        units = [spec for spec in specs if self.slab and self._has_units(spec)]
        return {self._precision(spec): (_count(spec),) if self.slab_of == "unit" else () for spec in units}

    def _precision(self, spec: ParamSpec) -> str:
        return f"{spec.path.layer}.precision" + (f"_{_count(spec)}" if self.slab_of == "unit" else "")

    def _of(self, spec: ParamSpec, value: Array) -> Any:
        """A number of the layer, or of each unit, against the array."""
        return jnp.reshape(value, of_outputs(spec)) if self.slab_of == "unit" else value

    def _width(self, spec: ParamSpec) -> float:
        return self.tau0 if self._has_units(spec) else 1.0

    def _taus(self, specs: list[ParamSpec]) -> dict[str, tuple[int, ...]]:
        """The sites of a layer's units, with their shapes; arrays with as many outputs share one."""
        return {_tau(spec): (_count(spec),) for spec in specs if self._has_units(spec)}

    def _layers(self, layout: Layout) -> dict[str, list[ParamSpec]]:
        """The Bayesian weights by layer, in the network's order."""
        layers: dict[str, list[ParamSpec]] = {}
        for spec in with_posterior(layout):
            layers.setdefault(spec.path.layer, []).append(spec)
        for name in self.local:
            check_name("layer in local", name, layers)
        return layers


def _count(spec: ParamSpec) -> int:
    return math.prod(of_outputs(spec))


def _tau(spec: ParamSpec) -> str:
    return f"{spec.path.layer}.tau_{_count(spec)}"


def _names(name: str, form: str) -> tuple[str, ...]:
    """The sites of a scale."""
    return (name,) if form == "half_cauchy" else (f"{name}_numerator", f"{name}_denominator")


def _sample(name: str, shape: tuple[int, ...], form: str) -> Any:
    """In the model: s ~ C+(0, 1), of ``shape``."""
    if form == "half_cauchy":
        return numpyro.sample(name, dist.HalfCauchy(1.0).expand(shape))
    above, below = (numpyro.sample(site, dist.Gamma(0.5, 1.0).expand(shape)) for site in _names(name, form))
    return jnp.sqrt(above / below)


def _guide(family: Family, name: str, shape: tuple[int, ...], form: str) -> Any:
    """In the guide: its sites; returns the standard normal numbers behind the draw of log s (zeros for points)."""
    draws = [family.scale_of_units(site, shape) for site in _names(name, form)]
    if form == "half_cauchy":
        return draws[0][1]
    # Of two scales the numerator's number and the denominator's, as of one: exact where both have the same spread.
    return (draws[0][1] - draws[1][1]) / jnp.sqrt(2.0)


def _starts(name: str, form: str, log_value: float) -> tuple[str, float]:
    """The site, and the start of its logarithm, at which the scale's own logarithm is ``log_value``, others starting at 0."""
    return (name, log_value) if form == "half_cauchy" else (_names(name, form)[1], -2.0 * log_value)


def _log_moments(moment: Moments, name: str, form: str) -> tuple[Any, Any]:
    """Mean and standard deviation of log s under the posterior."""
    if form == "half_cauchy":
        return moment.log(name)
    (above, above_std), (below, below_std) = (moment.log(site) for site in _names(name, form))
    return 0.5 * (above - below), 0.5 * jnp.hypot(above_std, below_std)
