"""Positive numbers of a likelihood itself, such as the scale of the noise: given, or learned with the network."""

import inspect
import math
from typing import Any

import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesprune.core.checks import check_name, is_number
from bayesprune.model.families import Family
from bayesprune.model.likelihoods.protocol import Likelihood

PER_OUTPUT, SHARED = "per_output", "shared"  # whether every output has a number of its own, or all have one


def positive(name: str, given: float | None, shape: float, rate: ArrayLike, sizes: tuple[int, ...] = ()) -> Any:
    """``given``; or, where that is None, a site of the model, Gamma(shape, rate), as many as ``sizes`` says."""
    return numpyro.sample(name, dist.Gamma(shape, rate).expand(sizes)) if given is None else given


def guide(family: Family, name: str, given: float | None, sizes: tuple[int, ...] = ()) -> None:
    """The guide's site of a number that is learned."""
    if given is None:
        family.positive(name, sizes)


def sizes_of(noise: str, num_outputs: int) -> tuple[int, ...]:
    """How many numbers the noise of so many outputs has; a single one has no axis.

    >>> sizes_of("per_output", 3), sizes_of("per_output", 1), sizes_of("shared", 3)
    ((3,), (), ())
    """
    return (num_outputs,) if noise != SHARED and num_outputs > 1 else ()


def check_noise(noise: object, known: tuple[str, ...] = (PER_OUTPUT, SHARED)) -> None:
    """Refuse what is not among the words for whose the noise is."""
    check_name("noise", noise, known)


def guide_of(likelihood: Likelihood, family: Family, output_shape: tuple[Any, ...] | dict[str, Any]) -> None:
    """A likelihood's guide; ``output_shape`` goes to those that ask for it by name, as numbers of each output do."""
    asks = "output_shape" in inspect.signature(likelihood.guide).parameters
    likelihood.guide(family, **({"output_shape": output_shape} if asks else {}))


def least_spread(shape: float, rate: float, num_targets: int) -> float:
    """The standard deviation of targets below which the prior of the noise's precision makes it twice their variance, or more.

      v = 2 rate / (4 shape + n)                                                                          (21.14)

    of n targets under Gamma(shape, rate): with residuals of variance v the precision is (2 shape + n) / (2 rate + n v), and
    v times that is 1/2.

    >>> round(least_spread(6.0, 6.0, 12), 3), round(least_spread(6.0, 6.0, 10_000), 3)
    (0.577, 0.035)
    """
    return float((2.0 * rate / (4.0 * shape + num_targets)) ** 0.5)


def check_given(value: Any, name: str, meaning: str, most: float = math.inf, limit: str = "") -> None:
    """Refuse what is neither None nor a positive number; ``meaning`` says what it is.

    Beyond ``most`` a density is a difference of log-gammas that single precision does not hold, and the law is its ``limit``.
    """
    if value is None:
        return
    if not is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive ({meaning}), one number, or None to learn it; got {value!r}.")
    if value > most:
        raise ValueError(
            f"{name} must be at most {most:,.0f}, got {value!r}: beyond it single precision does not hold the density, and the "
            f"law is nearly its limit: take {limit}."
        )
