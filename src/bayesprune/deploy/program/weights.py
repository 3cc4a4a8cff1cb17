"""What a compact network knows of its weights: points, independent Gaussians, or networks that were drawn."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_key
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.packing import Packing

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Points:
    """One network: its constants are all there is."""

    kind: ClassVar[str] = "mean"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each site's weights."""
        return {}

    def mean(self) -> dict[str, np.ndarray]:
        return {}

    def draw(self, rng_key: jax.Array, index: ArrayLike, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}

    def chosen(self, num_samples: int | None) -> np.ndarray:
        return np.zeros(1, np.int32)


@dataclass(frozen=True, eq=False)
class GaussianLaw:
    """Independent Gaussians that may share a random scale: w = s (loc + scale z), z ~ N(0, 1), log s ~ N(mean, std²).

    ``loc``, ``scale``: {site: array}, zero where dead. ``shared``: {site: name of its s}; ``log``: {name: (mean, std)}.
    """

    loc: Arrays
    scale: Arrays
    shared: Mapping[str, str]
    log: Mapping[str, tuple[float, float]]

    kind: ClassVar[str] = "gaussian"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {site: loc.shape for site, loc in self.loc.items()}

    def mean(self) -> dict[str, np.ndarray]:
        """E[w] of each site."""
        expected = {name: math.exp(mean + 0.5 * std**2) for name, (mean, std) in self.log.items()}
        of = {site: expected.get(self.shared.get(site, ""), 1.0) for site in self.loc}
        return {site: np.asarray(loc * of[site], loc.dtype) for site, loc in self.loc.items()}

    def draw(self, rng_key: jax.Array, index: ArrayLike, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Network number ``index``; numbers are drawn only for weights that have a spread. ``tensors``: those of this law."""
        rng_key = jax.random.fold_in(rng_key, index)
        names = [*self.log, *self.loc]
        keys = dict(zip(names, jax.random.split(rng_key, max(1, len(names))), strict=False))
        factor = {name: jnp.exp(mean + std * jax.random.normal(keys[name])) for name, (mean, std) in self.log.items()}
        drawn = {}
        for site, loc in self.loc.items():
            places = np.nonzero(self.scale[site].reshape(-1))[0]
            noise = jnp.ravel(jnp.asarray(tensors[f"scale/{site}"]))[places] * jax.random.normal(keys[site], places.shape)
            flat = jnp.ravel(jnp.asarray(tensors[f"loc/{site}"]))
            value = flat.at[places].add(noise, unique_indices=True, indices_are_sorted=True)
            drawn[site] = value.reshape(loc.shape) * factor.get(self.shared.get(site, ""), 1.0)
        return drawn

    def tensors(self) -> dict[str, np.ndarray]:
        """Arrays to be kept."""
        named = {"loc": self.loc, "scale": self.scale}
        return {f"{name}/{site}": array for name, arrays in named.items() for site, array in arrays.items()}

    def chosen(self, num_samples: int | None) -> np.ndarray:
        """The numbers of so many networks; 100 of them for None."""
        return np.arange(100 if num_samples is None else num_samples, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Draws:
    """Networks that were drawn before, or left by a sampler: {site: (draws, *shape)}, all alike as probable."""

    values: Arrays

    kind: ClassVar[str] = "draws"

    @property
    def num_draws(self) -> int:
        return len(next(iter(self.values.values()), (0,)))  # where no weight is left, all networks are one

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {site: draws.shape[1:] for site, draws in self.values.items()}

    def mean(self) -> dict[str, np.ndarray]:
        return {site: draws.mean(0) for site, draws in self.values.items()}

    def draw(self, rng_key: jax.Array, index: ArrayLike, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Network number ``index``, as it is."""
        return {site: jnp.asarray(tensors[f"draws/{site}"])[index] for site in self.values}

    def tensors(self) -> dict[str, np.ndarray]:
        return {f"draws/{site}": draws for site, draws in self.values.items()}

    def chosen(self, num_samples: int | None) -> np.ndarray:
        """So many of the networks, evenly over all of them, chain after chain; no more than there are, all for None."""
        number = self.num_draws if num_samples is None else min(num_samples, self.num_draws)
        return ((np.arange(number) + 0.5) * self.num_draws / number).astype(np.int32)


Law = Points | GaussianLaw | Draws


def check_one(law: Law, who: str) -> None:
    """Refuse several stored networks where one is needed: the mean of their weights is none of them."""
    if isinstance(law, Draws) and law.num_draws > 1:
        raise ValueError(
            f"{who} is of one network, and {law.num_draws} are stored here, whose predictions are averaged: make one by "
            "bp.compact(..., keep='mean'), or of several chains by num_draws=1."
        )


@runtime_checkable
class Weighted(Protocol):
    """A program with the law of its weights, and its head: what engines run. A `Compact` is one."""

    @property
    def program(self) -> OpProgram: ...
    @property
    def head(self) -> OpProgram: ...
    @property
    def law(self) -> Law: ...
    @property
    def inputs(self) -> Packing: ...
    @property
    def output_shape(self) -> tuple[int, ...]: ...


def checked(rng_key: Any, num_samples: Any) -> tuple[jax.Array, int]:
    """The key and the number of draws, or an error."""
    check_integer(num_samples, "num_samples")
    return check_key(rng_key), num_samples
