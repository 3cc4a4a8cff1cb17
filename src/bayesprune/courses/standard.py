"""The standard course: the default of a fit."""

import functools
from dataclasses import dataclass
from typing import Any

import optax

from bayesprune.core.checks import check_integer, check_positive, check_within
from bayesprune.core.schedules import Constant, LinearWarmup
from bayesprune.courses.course import Plan
from bayesprune.model.families import are_noisy_points, is_of_points, own_unit, weights_of
from bayesprune.model.program import Trainable

# AdaBelief's first rate; that of points in the weights' own units, which no noise keeps from running away; and the most that
# the steps of all weights that an output reads may add up to.
RATE, RATE_OF_POINTS, OF_SUMS = 4e-2, 5e-3, 2.0


@dataclass(frozen=True)
class Standard:
    """He's start, a divergence whose weight rises, a rate that falls, and early, small, verified acts.

      beta_t = min(1, t / (warm_up T)),   rate_t = rate (1 + cos(pi t / T)) / 2      (2.10)

    Args:
        rate: AdaBelief's first learning rate. None: 0.04, but 0.005 for points in the weights' own units: ``posterior="map"``,
            and under `ConcreteDropout` and, the noise of its units apart, `UnitNoise`. Of other posteriors a step of no more
            than 2 / fan-in of a weight, by the largest fan-in, where the sites of the prior are the weights by a fixed factor
            (`Gaussian`, `GaussianSlab`, `DiracSlab`, ...): in nets of hundreds of inputs larger ones lose much of the accuracy,
            or all. Gates and scales that are no weights' keep 0.04. `Flat` and others scale their sites, and 0.04 is a small
            step of the weights.
        warm_up: share of the steps over which the divergence's weight rises from 0 to 1; with weight 1 from the first step on,
            weights that are of no use look like those that are of none yet.
        every: steps between two acts of the sparsifier. None: a hundredth of all steps, from 20 (of a short fit a twentieth of
            them) to 100. Idle weights are what the bound is spent on: early, small and frequent cuts spare it.
        first, last: shares of the steps within which it acts. Before ``first`` even a verified act may take what is of no use
            yet: small networks end in another optimum then. After ``last`` the survivors settle.
        verified: minibatches by which acts by evidence, or by the law of the units' scales, are verified, see `prune.verified`;
            0: they are taken as they are.
        estimator: of the bound, as of `fit_svi`. A noise for every output of a layer is that of sampled weights, where each
            weight reaches one output of a row, and its gradients vary less: survivors are told from idle weights sooner.

    A fit that goes on from trained weights (``init=``, ``init_params=``) has weight 1 from its first step on.

    `benchmarks/course.md` compares each knob with its rivals.

    Example:
        >>> plan = Standard().plan(num_steps=1000)
        >>> plan.every, float(plan.kl_weight(1000))
        (20, 1.0)

    Source: Sønderby et al. (2016) for the rising weight; Loshchilov & Hutter (2017) for the cosine; He et al. (2015); Yang & Hu
    (2021) for rates of 1 / fan-in.
    """

    rate: float | None = None
    warm_up: float = 0.75
    every: int | None = None
    first: float = 0.1
    last: float = 0.95
    verified: int = 1
    estimator: str = "local_where_exact"

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_positive(self.rate, "rate")
        if self.every is not None:
            check_integer(self.every, "every")
        check_integer(self.verified, "verified", minimum=0)
        for name in ("warm_up", "first", "last"):
            check_within(getattr(self, name), name, "[0, 1]", "it is a share of the steps")
        if self.first > self.last:
            raise ValueError(f"first={self.first} lies after last={self.last}: within them the sparsifier acts; swap them.")

    def begin(self, program: Trainable) -> Any:
        """The program as it is: posteriors given by name have He's start."""
        return program

    def rate_for(self, program: Trainable) -> float:
        """The first rate of the weights."""
        if self.rate is not None:
            return self.rate
        if is_of_points(program) or are_noisy_points(program):
            return RATE_OF_POINTS
        bayesian = [spec for spec in getattr(program, "layout", ()) if spec.bayesian]
        most, unit = max((spec.fan_in for spec in bayesian if spec.inputs), default=1), own_unit(program)
        return RATE if unit is None else min(RATE, OF_SUMS / (unit * most))

    def optimizer(self, num_steps: int, program: Trainable | None = None) -> optax.GradientTransformation:
        """AdaBelief whose rate falls; of a program whose weights have a smaller one by `rate_for`, theirs is a share of it."""
        rate = RATE if self.rate is None else self.rate
        of_weights = rate if program is None else self.rate_for(program)
        falling = lambda first: optax.adabelief(optax.cosine_decay_schedule(first, num_steps))  # noqa: E731
        if program is None or of_weights == rate or is_of_points(program):
            return falling(of_weights)
        sites = frozenset(str(spec.path) for spec in getattr(program, "layout", ()))
        return optax.chain(falling(rate), optax.masked(optax.scale(of_weights / rate), functools.partial(weights_of, sites)))

    def plan(self, num_steps: int, begun: bool = False) -> Plan:
        """The course over so many steps."""
        rising = self.warm_up > 0 and not begun
        kl_weight: Any = LinearWarmup(0, max(1, round(self.warm_up * num_steps))) if rising else Constant(1.0)
        first, last = (round(share * num_steps) for share in (self.first, self.last))
        rhythm = min(100, max(1, num_steps // 100, min(20, num_steps // 20)))
        every = rhythm if self.every is None else self.every
        of_program = functools.partial(self.optimizer, num_steps)
        return Plan(of_program(), kl_weight, every, first, last, self.verified, self.estimator, True, of_program)
