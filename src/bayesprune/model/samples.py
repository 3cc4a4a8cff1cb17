"""Sampling a network's posterior: the guide whose parameters a sampler moves, and how stored draws are read back."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import seed, substitute, trace

from bayesprune.core.types import MeanField
from bayesprune.model.families import MapFamily, start_anywhere
from bayesprune.model.layout import Layout
from bayesprune.posteriors import samples
from bayesprune.posteriors.params import is_meaning
from bayesprune.posteriors.samples import AXES, DRAWS


@dataclass(frozen=True)
class CurrentSample(MapFamily):
    """A point for every latent variable, where a sampler stands; the loss is -log p(y, w) in the coordinates that move.

    Positive variables move as their logarithms, whose density has |dc/d log c| = c beside that of c. A maximum (`MapFamily`)
    goes without: it is one of the density of c.
    """

    def positive(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        log_loc = numpyro.param(f"{name}_log_loc", start_anywhere(self.init_range, shape))
        return numpyro.sample(name, dist.Delta(jnp.exp(log_loc), log_density=-log_loc))


def current_sample(family: Any) -> CurrentSample:
    """The guide of a sampler that starts where fits of ``family`` do.

    >>> current_sample(MapFamily(init_loc="he")).init_loc
    'he'
    """
    fields = ("init_range", "init_loc", "unit")
    return CurrentSample(**{name: getattr(family, name) for name in fields if hasattr(family, name)})


@dataclass(frozen=True)
class StoredSamples:
    """What `model.families.Family` asks of whoever reads parameters, for stored draws."""

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField]:
        """Nodes of the draws' moments. Raises `KeyError` for a weight without draws."""
        names = {str(spec.path): f"{spec.path}{DRAWS}" for spec in layout if spec.bayesian}
        return {site: samples.FAMILY.make({"draws": params[name]}) for site, name in names.items()}

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any:
        """The mean of c^power over the draws."""
        return jnp.mean(params[name + DRAWS] ** power, AXES)

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]:
        """Mean and standard deviation of log c over the draws."""
        logs = jnp.log(params[name + DRAWS])
        return jnp.mean(logs, AXES), jnp.std(logs, AXES)


READER = StoredSamples()


def values_of(guide: Any, params: dict[str, Any]) -> dict[str, Any]:
    """One network, by the names of its sites: latent values as a guide of points has them, and all that is no site of it.

    >>> guide = lambda x=None, y=None: CurrentSample().positive("c")
    >>> {name: float(value) for name, value in values_of(guide, {"c_log_loc": jnp.zeros(()), "bias": jnp.ones(())}).items()}
    {'c': 1.0, 'bias': 1.0}
    """
    found = trace(substitute(seed(guide, jax.random.key(0)), data=params)).get_trace()
    latent = {name: site["value"] for name, site in found.items() if site["type"] == "sample"}
    others = {name: value for name, value in params.items() if name not in found and not is_meaning(name)}
    return latent | others
