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


def check_given(value: Any, name: str, meaning: str) -> None:
    """Refuse what is neither None nor a positive number; ``meaning`` says what it is."""
    if value is not None and (isinstance(value, bool | str) or not 0 < value < float("inf")):
        raise ValueError(f"{name} must be positive ({meaning}), or None to learn it; got {value!r}.")
