"""Half-Cauchy scales as sites of a program: by themselves, or as the root of a ratio of two Gamma variables."""

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import unknown_name
from bayesprune.model.families import Family
from bayesprune.model.prior import SiteMoments

# How C+(0, 1) is written: as one site, or as sqrt(a/b) with a, b ~ Gamma(1/2, 1), which has lighter tails to learn.
FORMS = ("half_cauchy", "gamma_ratio")


def check_form(form: str) -> None:
    """Refuse an unknown form."""
    if form not in FORMS:
        raise unknown_name("form", form, FORMS)


def names(name: str, form: str) -> tuple[str, ...]:
    """The sites of a scale."""
    return (name,) if form == "half_cauchy" else (f"{name}_numerator", f"{name}_denominator")


def sample(name: str, shape: tuple[int, ...], form: str) -> Any:
    """In the model: s ~ C+(0, 1), of ``shape``."""
    if form == "half_cauchy":
        return numpyro.sample(name, dist.HalfCauchy(1.0).expand(shape))
    above, below = (numpyro.sample(site, dist.Gamma(0.5, 1.0).expand(shape)) for site in names(name, form))
    return jnp.sqrt(above / below)


def guide(family: Family, name: str, shape: tuple[int, ...], form: str) -> Any:
    """In the guide: its sites; returns the standard normal numbers behind the draw of log s (zeros for points)."""
    draws = [family.scale_of_units(site, shape) for site in names(name, form)]
    if form == "half_cauchy":
        return draws[0][1]
    # Of two scales the numerator's number and the denominator's, as of one: exact where both have the same spread.
    return (draws[0][1] - draws[1][1]) / jnp.sqrt(2.0)


def starts(name: str, form: str, log_value: float) -> tuple[str, float]:
    """The site, and the start of its logarithm, at which the scale's own logarithm is ``log_value``, others starting at 0."""
    return (name, log_value) if form == "half_cauchy" else (names(name, form)[1], -2.0 * log_value)


def log_moments(moment: SiteMoments, name: str, form: str) -> tuple[Any, Any]:
    """Mean and standard deviation of log s under the posterior."""
    if form == "half_cauchy":
        return moment.log(name)
    (above, above_std), (below, below_std) = (moment.log(site) for site in names(name, form))
    return 0.5 * (above - below), 0.5 * jnp.hypot(above_std, below_std)
