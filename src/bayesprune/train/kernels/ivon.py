"""IVON: the scale of a mean field is written by the curvature that an optimiser's second moment estimates."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_not_negative
from bayesprune.formulas import ivon as formula
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable
from bayesprune.posteriors.mean_field import FAMILY, MeanFieldFamily
from bayesprune.train.ivon import check_settings
from bayesprune.train.kernel import Moments, Params
from bayesprune.train.kernels.optimizer import Optax

REFERENCE = "shen2024variational"
REST = "rest: "
SETTLED, LARGEST = 0.75, 0.05  # of the steps; of what a step may forget of the curvature


class Newton(NamedTuple):
    """``step``: how many there were. ``momentum``: gm of every loc. ``rest``: the state of the other parameters' optimiser."""

    step: jax.Array
    momentum: Params
    rest: Any


@dataclass(frozen=True)
class IVON:
    """Newton steps of a mean field's locs, whose scales are written by the curvature; (24.1) to (24.3).

      s = (n (h + delta))^(-1/2),  delta = 1/(n prior_scale²);
      m <- m - rate (gm/(1 - b1^t) + delta m)/(h + delta),  gm and h running means of gradient and curvature

    Weight decay is the prior: delta is that of the `BNN`'s. Any ``estimator=`` gives the curvature, by the bound's slope in the
    scales: "weight" is the published one, noise of outputs gives it with less variance. The divergence has weight 1 from the
    first step on, whatever the course; a large h0 keeps idle weights at rest in the beginning. Parameters that are no weights
    with a spread (scales of layers, of noise, biases without a posterior) are moved by ``rest``.

    Args:
        learning_rate: a number falls by a cosine over the fit to zero; a function of the step is taken as it is. It is
            multiplied by h0 + delta, so that in the network's units the first steps are gradient descent's of that rate. At
            four times the default two of five trials left for infinity (`benchmarks/ivon.md`).
        h0: the curvature that weights start with, of the mean loss a row, in the network's own units; it sets the scales that a
            new fit starts from, 1/sqrt(n (h0 + delta)), whatever the posterior's own start. Given parameters keep theirs.
        b1, b2: decay rates of the gradient's mean and of the curvature's. A b2 of None goes by the length of the fit: the
            spread of a weight that the data say nothing of is at its prior's after three quarters of the steps.
        clip: the largest step of Newton, element by element and before the learning rate, in the posterior's units; None: any.
        rest: an optax transformation of all other parameters, one rate or schedule in it.
        num_rows, num_steps, prior_scale, units: n, the steps of the fit, the prior's standard deviation and each site's unit;
            `fit_svi` says them.

    Raises:
        ValueError: numbers out of range; in a fit, a posterior that is no mean field (of points there is no spread to write), a
            prior that is not Gaussian about zero, a ``kl_weight`` other than 1.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Gaussian(0.1), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=4, batch_size=64, optimizer=bp.kernels.IVON())
        >>> bp.bmr_prune(fit.params).mask["Dense_0.kernel"].shape
        (64, 16)

    Source: Shen et al. (2024), algorithm 1.
    """

    learning_rate: float | int | Callable[[Any], Any] = 0.25
    h0: float | int = 0.1
    b1: float = 0.9
    b2: float | None = None
    clip: float | int | None = None
    rest: optax.GradientTransformation = optax.adam(1e-3)  # noqa: RUF009  one object, whose states are the callers' own
    num_rows: int = 0
    num_steps: int = 0
    prior_scale: float = 0.0
    units: tuple[tuple[str, float], ...] = ()

    per_row: ClassVar[bool] = True
    whole_bound: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shares = {"b1": self.b1} | ({} if self.b2 is None else {"b2": self.b2})
        check_settings(self.learning_rate, self.h0, self.clip, **shares)
        for name in ("num_rows", "num_steps"):
            check_integer(getattr(self, name), name, minimum=0)
        check_not_negative(self.prior_scale, "prior_scale")

    def for_fit(self, program: Trainable, num_rows: int, num_steps: int) -> "IVON":
        """The kernel of one fit. `ValueError` for a program whose posterior it cannot write."""
        if not isinstance(program, BNN):
            raise ValueError(
                "kernels.IVON reads prior and posterior of a bp.BNN, which a hand-written program does not say: use bp.ivon "
                "in a loop of your own, or give optax.adam(1e-3)."
            )
        family, prior = program.family, program.prior
        if not (isinstance(family, MeanFieldFamily) and family.factorised):
            raise ValueError(
                f"kernels.IVON writes the scales of posterior='mean_field', and this BNN's is {type(family).__name__}: build "
                "it with posterior='mean_field'."
            )
        scale = getattr(prior, "prior_scale", None)
        if scale is None:
            raise ValueError(
                f"kernels.IVON has a Gaussian prior about zero for weight decay, and priors.{type(prior).__name__} is none: "
                "take priors.Gaussian or priors.Flat, or optax.adam(1e-3)."
            )
        if self.num_rows not in (0, num_rows) or self.prior_scale not in (0.0, float(scale)):
            raise ValueError(
                f"IVON's num_rows={self.num_rows} and prior_scale={self.prior_scale} must be the data's {num_rows} and the "
                f"prior's {scale}: leave them out, the fit says them."
            )
        factor = getattr(prior, "factor", lambda spec: (1.0, "", 0.0))
        weights = [spec for spec in program.layout if spec.bayesian]
        locs = (FAMILY.name(str(spec.path), "loc", not spec.prunable) for spec in weights)
        units = tuple((loc, float(factor(spec)[0])) for loc, spec in zip(locs, weights, strict=True))
        return replace(self, num_rows=num_rows, num_steps=self.num_steps or num_steps, prior_scale=float(scale), units=units)

    @property
    def decay(self) -> float:
        """Delta, in the posterior's coordinates."""
        if not (self.num_rows and self.prior_scale):
            raise ValueError("IVON's num_rows and prior_scale are not known: bp.fit_svi says them; elsewhere give them.")
        return 1.0 / (self.num_rows * self.prior_scale**2)

    def begin(self, params: Params) -> Params:
        """The parameters with the scales of h0."""
        started = {_scale(loc): self._first_scale(loc, params) for loc in self._locs(params)}
        return params | started

    def init(self, params: Params) -> Newton:
        """No momentum; the curvature is in the scales."""
        locs = self._locs(params)
        zeros = {loc: jnp.zeros_like(params[loc]) for loc in locs}
        return Newton(jnp.zeros((), jnp.int32), zeros, Optax(self.rest).init(_rest(params, locs)))

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Newton) -> tuple[Params, Newton]:
        """One step of all parameters."""
        locs, decay, rows, count = self._locs(params), self.decay, self.num_rows, state.step + 1
        correction = 1.0 - jnp.asarray(self.b1, float) ** count.astype(float)
        momentum, after = {}, dict(params)
        for loc in locs:
            raw, m = params[_scale(loc)], params[loc]
            s, derivative = _softplus(raw)
            slope = gradient[_scale(loc)] / derivative
            h = 1.0 / (rows * jnp.square(s)) - decay
            estimate = formula.curvature_of_spread(slope, s, rows, decay)
            momentum[loc] = self.b1 * state.momentum[loc] + (1.0 - self.b1) * (gradient[loc] - decay * m)
            h = formula.curvature_after(h, estimate, decay, self.memory(loc))
            move = formula.newton_step(m, momentum[loc], h, decay, correction)
            move = move if self.clip is None else jnp.clip(move, -self.clip, self.clip)
            after[loc] = m - self.rate(state.step, loc) * move
            after[_scale(loc)] = _unconstrained(jax.lax.rsqrt(rows * (h + decay)))
        rest, inner = Optax(self.rest).step(rng_key, _rest(gradient, locs), _rest(params, locs), state.rest)
        return after | rest, Newton(count, momentum, inner)

    def rate(self, step: ArrayLike, loc: str) -> Any:
        """The learning rate of a parameter at a step, times (h0 + delta) in the network's units."""
        rate: Any = self.learning_rate
        if not callable(rate):
            rate = optax.cosine_decay_schedule(rate, self._length())
        return rate(step) * (self.h0 + self.decay / self._unit(loc) ** 2)

    def memory(self, loc: str) -> float:
        """b2 of a parameter: as it is given, else by (24.2) with hh = 0, h + delta falls to delta in so many steps."""
        if self.b2 is not None:
            return self.b2
        folds = 1.0 + math.log1p(self._curvature(loc) / self.decay)
        return 1.0 - min(LARGEST, folds / (SETTLED * self._length()))

    def moments(self, state: Newton) -> Moments:
        """The momentum, and what the other parameters' optimiser has."""
        rest = {REST + kind: arrays for kind, arrays in Optax(self.rest).moments(state.rest).items()}
        return {"momentum": state.momentum} | rest

    def with_moments(self, state: Newton, moments: Moments) -> Newton:
        """The state with those."""
        rest = {kind.removeprefix(REST): arrays for kind, arrays in moments.items() if kind.startswith(REST)}
        return state._replace(momentum=dict(moments["momentum"]), rest=Optax(self.rest).with_moments(state.rest, rest))

    def _length(self) -> int:
        if not self.num_steps:
            raise ValueError("IVON's num_steps is not known: bp.fit_svi says it; elsewhere give it, a schedule and b2.")
        return self.num_steps

    def _locs(self, params: Params) -> list[str]:
        """The names of the locs whose scales are written."""
        ends = tuple(FAMILY.name("", "loc", hidden) for hidden in (False, True))
        return [name for name in params if name.endswith(ends) and _scale(name) in params]

    def _curvature(self, loc: str) -> float:
        """h0 in the posterior's coordinates."""
        return self.h0 * self._unit(loc) ** 2

    def _unit(self, loc: str) -> float:
        """What one unit of a loc is in the network at the start."""
        return float(dict(self.units).get(loc, 1.0))

    def _first_scale(self, loc: str, params: Params) -> jax.Array:
        scale = (self.num_rows * (self._curvature(loc) + self.decay)) ** -0.5
        return jnp.full_like(params[loc], _unconstrained(jnp.asarray(scale, params[loc].dtype)))


def _scale(loc: str) -> str:
    return loc.removesuffix("loc") + "scale"


def _rest(params: Params, locs: list[str]) -> Params:
    taken = {*locs, *map(_scale, locs)}
    return {name: value for name, value in params.items() if name not in taken}


def _softplus(raw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """log(1 + e^raw) and its derivative, by one exponential: a step of many weights is bound by such functions."""
    small = jnp.exp(-jnp.abs(raw))
    return jnp.maximum(raw, 0.0) + jnp.log1p(small), jnp.where(raw >= 0, 1.0, small) / (1.0 + small)


def _unconstrained(scale: jax.Array) -> jax.Array:
    """The inverse of softplus."""
    return scale + jnp.log(-jnp.expm1(-scale))
