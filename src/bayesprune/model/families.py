"""Families of guides: how one weight, or one positive scale, is approximated. A prior writes its guide once, for any."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesprune.core.types import MeanField
from bayesprune.model.layout import Layout, ParamSpec


@runtime_checkable
class Family(Protocol):
    """What a prior's guide asks of a family, and how a posterior is read back from its parameters."""

    def weight(self, spec: ParamSpec) -> Any: ...

    def positive(self, name: str) -> Any: ...

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField]: ...


def _uniform(init_range: float, shape: tuple[int, ...]) -> Any:
    return lambda rng_key: jax.random.uniform(rng_key, shape, minval=-init_range, maxval=init_range)


def _stem(spec: ParamSpec) -> str:
    """Parameter-name stem: AutoNormal's for what may be pruned, so that pruning finds it; another for what may not."""
    return f"{spec.path}_auto" if spec.prunable else f"{spec.path}_dense"


@dataclass(frozen=True)
class MeanFieldFamily:
    """Independent Normals for weights, LogNormals for positive scales: q(w) = N(loc, scale²), q(c) = LogNormal(loc, scale²).

    Every loc starts at U(-init_range, init_range), every scale at init_scale (Marković et al. 2024, the authors' code).
    """

    init_range: float = 2.0
    init_scale: float = 0.1

    def weight(self, spec: ParamSpec) -> Any:
        stem = _stem(spec)
        loc = numpyro.param(f"{stem}_loc", _uniform(self.init_range, spec.shape))
        scale = numpyro.param(f"{stem}_scale", jnp.full(spec.shape, self.init_scale), constraint=constraints.softplus_positive)
        # Unchecked: the reduced posterior of a dead weight has scale zero, which NumPyro would refuse.
        return numpyro.sample(str(spec.path), dist.Normal(loc, scale, validate_args=False))

    def positive(self, name: str) -> Any:
        loc = numpyro.param(f"{name}_log_loc", _uniform(self.init_range, ()))
        scale = numpyro.param(f"{name}_log_scale", jnp.full((), self.init_scale), constraint=constraints.softplus_positive)
        return numpyro.sample(name, dist.LogNormal(loc, scale))

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField]:
        return {str(s.path): MeanField(params[f"{_stem(s)}_loc"], params[f"{_stem(s)}_scale"]) for s in layout if s.bayesian}


@dataclass(frozen=True)
class MapFamily:
    """A point for every latent variable: the maximum of the posterior density (in the prior's non-centred coordinates)."""

    init_range: float = 2.0

    def weight(self, spec: ParamSpec) -> Any:
        loc = numpyro.param(_map_name(spec), _uniform(self.init_range, spec.shape))
        return numpyro.sample(str(spec.path), dist.Delta(loc))

    def positive(self, name: str) -> Any:
        log_loc = numpyro.param(f"{name}_log_loc", _uniform(self.init_range, ()))
        return numpyro.sample(name, dist.Delta(jnp.exp(log_loc)))

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField]:
        locs = {str(s.path): params[_map_name(s)] for s in layout if s.bayesian}
        return {name: MeanField(loc, jnp.zeros_like(loc)) for name, loc in locs.items()}


def _map_name(spec: ParamSpec) -> str:
    return f"{spec.path}_map_loc" if spec.prunable else f"{spec.path}_dense_map_loc"
