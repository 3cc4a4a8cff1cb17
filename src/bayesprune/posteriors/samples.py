"""Stored samples: whole networks, as a sampler left them, in place of a density."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.layout import Layout
from bayesprune.core.send import send, send_all
from bayesprune.posteriors.family import ParamNames
from bayesprune.posteriors.mean_field import MeanField

DRAWS = "$draws"
# Chains, and the draws of each: the axes before a site's own.
AXES = (0, 1)


@jax.jit
def _mean_and_std(draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Over all chains and draws."""
    return jnp.mean(draws, AXES), jnp.std(draws, AXES)


@dataclass(frozen=True)
class Samples(ParamNames):
    """``"<name>$draws"``, (chains, draws, *shape), of every site of the model: weights, scales, and what is no site at all.

    As a node they are a mean field of the same means and standard deviations, so that evidence and scores can be read.

    >>> params = {"w$draws": jnp.array([[[1.0, 0.0], [3.0, 0.0]]])}
    >>> node = FAMILY.make(FAMILY.values(params, "w"))
    >>> print(node.loc, node.scale)
    [2. 0.] [1. 0.]
    """

    def name(self, site: str, field: str, hidden: bool = False) -> str:
        """The name of the parameter, of a weight that may be pruned or not."""
        return f"{site}${field}"

    def sites(self, params: Mapping[str, Any]) -> list[str]:
        """The sites with arrays of draws, those of numbers left out."""
        return [site for site, value in draws_of(params).items() if not isinstance(value, dict) and jnp.ndim(value) > len(AXES)]


def _make(values: dict[str, Any]) -> MeanField:
    loc, scale = _mean_and_std(values["draws"])
    return MeanField(loc, scale, prior_scale=None)


FAMILY = Samples(("draws",), MeanField, _make)


def draws_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> draws, of what parameters hold; empty for those of a density."""
    return {name.removesuffix(DRAWS): value for name, value in params.items() if name.endswith(DRAWS)}


def count(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many chains, and draws of each."""
    chains, draws = jax.tree.leaves(draws_of(params))[0].shape[:2]
    return int(chains), int(draws)


def spread_out(params: Mapping[str, Any], num_samples: int) -> dict[str, Any]:
    """At most ``num_samples`` of the draws, evenly over all chains, along one axis; names without their ending.

    >>> print(spread_out({"w$draws": jnp.arange(8.0).reshape(2, 4)}, 4)["w"])
    [1. 3. 5. 7.]
    """
    chains, draws = count(params)
    number = min(num_samples, chains * draws)
    which = (2 * np.arange(number) + 1) * (chains * draws) // (2 * number)  # the middles of so many equal parts
    return _taken(send_all(draws_of(params)), send(which, np.int32))


@jax.jit
def _taken(values: dict[str, Any], which: jax.Array) -> dict[str, Any]:
    """Some of the draws of all chains, one chain after the other."""
    return jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *jnp.shape(leaf)[2:]))[which], values)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class StoredSamples:
    """A `Family` of stored draws, for reading parameters."""

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, MeanField]:
        """Nodes of the draws' moments. Raises `KeyError` for a weight without draws."""
        names = {str(spec.path): f"{spec.path}{DRAWS}" for spec in layout if spec.bayesian}
        return {site: FAMILY.make({"draws": params[name]}) for site, name in names.items()}

    def moment(self, params: dict[str, Any], name: str, power: float) -> Any:
        """The mean of c^power over the draws."""
        return jnp.mean(params[name + DRAWS] ** power, AXES)

    def log_moments(self, params: dict[str, Any], name: str) -> tuple[Any, Any]:
        """Mean and standard deviation of log c over the draws."""
        logs = jnp.log(params[name + DRAWS])
        return jnp.mean(logs, AXES), jnp.std(logs, AXES)


READER = StoredSamples()
