"""Positive numbers of a likelihood itself, such as the scale of the noise: given, or learned with the network."""

from typing import Any

import numpyro
import numpyro.distributions as dist

from bayesprune.model.families import Family


def positive(name: str, given: float | None, shape: float, rate: float) -> Any:
    """``given``; or, where that is None, a site of the model, Gamma(shape, rate)."""
    return numpyro.sample(name, dist.Gamma(shape, rate)) if given is None else given


def guide(family: Family, name: str, given: float | None) -> None:
    """The guide's site of a number that is learned."""
    if given is None:
        family.positive(name)


def least_spread(shape: float, rate: float, num_targets: int) -> float:
    """The standard deviation of targets below which the prior of the noise's precision makes it twice their variance, or more.

      v = 2 rate / (4 shape + n)                                                                          (21.14)

    of n targets under Gamma(shape, rate): with residuals of variance v the precision is (2 shape + n) / (2 rate + n v), and
    v times that is 1/2.

    >>> round(least_spread(6.0, 6.0, 12), 3), round(least_spread(6.0, 6.0, 10_000), 3)
    (0.577, 0.035)
    """
    return float((2.0 * rate / (4.0 * shape + num_targets)) ** 0.5)


def check_given(value: Any, name: str, meaning: str) -> None:
    """Refuse what is neither None nor a positive number; ``meaning`` says what it is."""
    if value is not None and (isinstance(value, bool | str) or not 0 < value < float("inf")):
        raise ValueError(f"{name} must be positive ({meaning}), or None to learn it; got {value!r}.")
