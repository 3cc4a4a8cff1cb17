"""Schedules: frozen dataclasses that map a step, traced or not, to a number. Steps may be fractions; units are the caller's."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from bayesprune.core.checks import check_density, check_integer, check_not_negative, check_positive, check_within

__all__ = [
    "Constant",
    "CosineReplacement",
    "Cubic",
    "CyclicalCosine",
    "Geometric",
    "Halving",
    "LinearWarmup",
]
__dir__ = __all__.copy  # what completion offers


def _check_order(begin: int | float, end: int | float) -> None:
    if not 0 <= begin < end < math.inf:
        raise ValueError(f"begin and end must satisfy 0 <= begin < end < inf, got {begin=}, {end=}: swap or widen them.")


def _progress(step: Real[ArrayLike, "..."], begin: int | float, end: int | float) -> Float[Array, "..."]:
    """How far a step lies between begin (0) and end (1), held outside."""
    return jnp.clip((jnp.asarray(step, float) - begin) / (end - begin), 0.0, 1.0)


class Checked:
    """A schedule that is nowhere negative or infinite, and has made sure of it by its numbers."""


@dataclass(frozen=True)
class Constant:
    """The same value at every step.

    >>> print(Constant(0.5)(100))
    0.5
    """

    value: float = 1.0

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jnp.full(jnp.shape(step), self.value, float)


@dataclass(frozen=True)
class LinearWarmup(Checked):
    """0 until ``begin``, then linear to ``peak`` at ``end``, then constant: the weight of a KL term; the beta_t of (4.1).

    A `ValueError` unless 0 <= begin < end and 0 <= peak.

    >>> warmup = LinearWarmup(begin=5, end=20)
    >>> print(warmup(5), warmup(12.5), warmup(99))
    0.0 0.5 1.0

    Source: Sønderby et al. 2016; Molchanov et al. 2017.
    """

    begin: int | float
    end: int | float
    peak: float = 1.0

    def __post_init__(self) -> None:
        _check_order(self.begin, self.end)
        check_not_negative(self.peak, "peak")

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.peak * _progress(step, self.begin, self.end)


@dataclass(frozen=True)
class Cubic(Checked):
    """Density from 1 at ``begin`` to ``final_density`` at ``end``, fast at first: final + (1 - final) (1 - u)³, u the progress.

    A `ValueError` for a density outside (0, 1] or unless 0 <= begin < end.

    >>> cubic = Cubic(final_density=0.2, begin=0, end=10)
    >>> print(cubic(0), cubic(5), cubic(10))
    1.0 0.3 0.2

    Source: Zhu & Gupta 2018, eq. (1), written for densities.
    """

    final_density: float
    begin: int | float
    end: int | float

    def __post_init__(self) -> None:
        check_density(self.final_density, "final_density")
        _check_order(self.begin, self.end)

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.final_density + (1.0 - self.final_density) * (1.0 - _progress(step, self.begin, self.end)) ** 3


@dataclass(frozen=True)
class CosineReplacement(Checked):
    """Fraction of the alive weights to exchange: (initial/2) (1 + cos(pi step/end)), 0 from ``end`` on; the r_t of section 4.

    A `ValueError` unless ``end`` > 0 and 0 < ``initial`` <= 1.

    >>> rate = CosineReplacement(end=100)
    >>> print(rate(0), rate(100), rate(200))
    0.3 0.0 0.0

    Source: Li et al. 2024, section 3; Dettmers & Zettlemoyer 2019.
    """

    end: int | float
    initial: float = 0.3

    def __post_init__(self) -> None:
        check_positive(self.end, "end")
        check_density(self.initial, "initial")

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        return 0.5 * self.initial * (1.0 + jnp.cos(jnp.pi * _progress(step, 0.0, self.end)))


@dataclass(frozen=True)
class Geometric(Checked):
    """Density after each of several prunings that cut ``rate`` of what is left: max(final, (1 - rate)^step).

    A `ValueError` for a rate outside (0, 1) or a density outside (0, 1].

    >>> print(Geometric(final_density=0.1, rate=0.5)(2))
    0.25

    Source: Frankle & Carbin 2019, section 2 (iterative pruning).
    """

    final_density: float
    rate: float = 0.2

    def __post_init__(self) -> None:
        check_density(self.final_density, "final_density")
        check_within(self.rate, "rate", "(0, 1)", "it is the share of the remaining weights cut each time")

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jnp.maximum(self.final_density, (1.0 - self.rate) ** jnp.asarray(step, float))


@dataclass(frozen=True)
class Halving(Checked):
    """M 2^(M - i) / (2^M - 1) for the i-th of the M minibatches of an epoch: a penalty's weight, 1 on average.

    The first minibatch carries half of the epoch's penalty and each next one half as much as the one before it. ``step`` counts
    optimiser steps from 0. A `ValueError` unless ``num_batches`` is a positive integer.

    >>> halving = Halving(num_batches=2)
    >>> print(halving(0), halving(1), halving(2))
    1.3333334 0.6666667 1.3333334

    Source: Blundell et al. 2015, section 3.4; Saha et al. 2024, equation 4.3.
    """

    num_batches: int

    def __post_init__(self) -> None:
        check_integer(self.num_batches, "num_batches")

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        i = jnp.asarray(step) % self.num_batches + 1
        return self.num_batches * jnp.exp2(-jnp.asarray(i, float)) / (1.0 - 0.5**self.num_batches)


@dataclass(frozen=True)
class CyclicalCosine(Checked):
    """From ``peak`` towards 0 by half a cosine, anew in each cycle: (peak/2) (1 + cos(pi (step mod period)/period)).

    ``period``: steps of a cycle. A `ValueError` unless both are positive.

    >>> cycles = CyclicalCosine(peak=0.2, period=10)
    >>> [round(float(cycles(step)), 3) for step in (0, 5, 10)]
    [0.2, 0.1, 0.2]

    Source: Zhang et al. 2020, equation (1), without its first step's ceiling; Ke & Fan 2022.
    """

    peak: float
    period: int

    def __post_init__(self) -> None:
        check_positive(self.peak, "peak")
        check_integer(self.period, "period")

    def __call__(self, step: Real[ArrayLike, "..."]) -> Float[Array, "..."]:
        # Of the whole step: float32 does not have each one beyond 2^24.
        place = jnp.asarray(jnp.asarray(step) % self.period, float)
        return 0.5 * self.peak * (1.0 + jnp.cos(jnp.pi * place / self.period))
