"""The course of a fit: the weight of the divergence rises, and the learning rate falls."""

import functools
import numbers
from dataclasses import dataclass
from typing import Any

import optax

from bayesprune.core.checks import check_integer, got
from bayesprune.core.schedules import LinearWarmup
from bayesprune.courses import Plain, Plan
from bayesprune.model.program import Trainable

# Chosen by the inner scores of benchmarks/tabular.md; the steps without annealing are those of the records there.
SHARE, STEPS, STEPS_WITHOUT = 0.75, 5000, 3000


@dataclass(frozen=True)
class Annealed(Plain):
    """AdaBelief and the weight beta of step t of T, He's start, and noise where it is exact: the standard course's.

      loss_t = beta_t KL(q || p) - E_q log p(y | x, w),   beta_t = min(1, t / (share T)),   rate_t = rate (1 + cos(pi t / T))

    From the first step on with weight 1, gates close before the weights behind them have learned anything, and of many weights
    that share an effect each ends below 1/2 alone: the cut then takes them all. Past share T the loss is the bound itself, so
    that what is approximated is the posterior, untempered. ``rate`` is the mean of rate_t. ``share`` 0: the plain course, beta
    and the rate constant, the prior's authors' start, sampled weights.

    Of the authors' start, U(-0.6, 0.6) for every weight whatever reads it, a hidden layer over a hundred inputs that are nearly
    copies is saturated, and dies: see benchmarks/tabular_kinds.py.

    >>> plan = Annealed(0.01, share=0.75).plan(4000)
    >>> [round(float(plan.kl_weight(step)), 2) for step in (0, 1500, 3000, 4000)]
    [0.0, 0.5, 1.0, 1.0]

    Source: Sønderby et al. (2016) for the weight; Loshchilov & Hutter (2017) for the cosine.
    """

    share: float = SHARE

    def plan(self, num_steps: int, begun: bool = False) -> Plan:
        """The course over so many steps."""
        plan = super().plan(num_steps, begun)._replace(optimizer=_optimizer(self.rate, bool(self.share), num_steps))
        if not self.share:
            return plan
        return plan._replace(kl_weight=LinearWarmup(0, self.share * num_steps), estimator="local_where_exact")

    def begin(self, program: Trainable) -> Any:
        """The program as it is, which has He's start; without annealing with its prior's authors'."""
        return program if self.share else super().begin(program)


@functools.lru_cache(maxsize=64)
def _optimizer(rate: float, falls: bool, num_steps: int) -> optax.GradientTransformation:
    """The same object for the same settings: what a new one computes would be traced anew in every fit of a search."""
    return optax.adabelief(optax.cosine_decay_schedule(2 * rate, num_steps) if falls else rate)


def is_auto(setting: object) -> bool:
    """Whether a setting, of any type, is the word "auto"."""
    return isinstance(setting, str) and setting == "auto"


def read(annealing: object) -> float:
    """The share of the steps over which the weight rises; 0 for no annealing."""
    if is_auto(annealing):
        return SHARE
    if isinstance(annealing, bool) or not isinstance(annealing, numbers.Real):
        raise TypeError(f"annealing must be 'auto' or a number in [0, 1], got {got(annealing)}.")
    share = float(annealing)
    if not 0 <= share <= 1:
        raise ValueError(f"annealing must lie in [0, 1], got {annealing}: it is a share of the steps, and 0 is none.")
    return share


def read_steps(num_steps: Any, share: float, annealed: int = STEPS) -> int:
    """The number of steps of a fit that is annealed over such a share of them; ``annealed``: under "auto"."""
    if is_auto(num_steps):
        return annealed if share else STEPS_WITHOUT
    check_integer(num_steps, "num_steps")
    return int(num_steps)
