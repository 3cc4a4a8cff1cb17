"""What a family of posteriors is: nodes, and the parameters that hold them by name."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from bayesprune.core.types import MeanField, SpikeSlab

Node = MeanField | SpikeSlab


@runtime_checkable
class Family(Protocol):
    """One kind of posterior: how its parameters are called, and how they are read, written, drawn from and summed up."""

    @property
    def fields(self) -> tuple[str, ...]: ...

    def name(self, site: str, field: str, hidden: bool = False) -> str: ...

    def make(self, values: dict[str, Any]) -> Node: ...

    def draw(self, rng_key: jax.Array, node: Any) -> jax.Array: ...

    def moments(self, node: Any) -> tuple[jax.Array, jax.Array]: ...


@dataclass(frozen=True)
class Named:
    """Parameters called ``"<site>_<stem>_<field>"``, of the site's shape, but for those of ``joint``.

    ``hidden``: the stem in the names of weights that are never pruned, so that whoever reads parameters does not find them.
    Fields of ``joint`` are of all weights at once. A family that has some has a method ``values_of``, and its nodes have one,
    ``given_zero``: see `posteriors.correlated`.
    """

    stem: str
    hidden: str
    fields: tuple[str, ...]
    joint: tuple[str, ...] = ()

    def name(self, site: str, field: str, hidden: bool = False) -> str:
        """The name of one parameter.

        >>> Named("auto", "dense", ("loc", "scale")).name("w", "loc")
        'w_auto_loc'
        """
        return f"{site}_{self.hidden if hidden else self.stem}_{field}"

    def sites(self, params: dict[str, Any]) -> list[str]:
        """The sites of which ``params`` have every parameter; scalars are not weights and are left out."""
        first = self.name("", self.fields[0])
        sites = [name.removesuffix(first) for name in params if name.endswith(first) and jnp.ndim(params[name]) > 0]
        return [site for site in sites if all(self.name(site, field) in params for field in self.fields)]

    def values(self, params: dict[str, Any], site: str, hidden: bool = False) -> dict[str, Any]:
        """The parameters of a site by field. Raises `KeyError` for one that is missing."""
        return {field: params[self.name(site, field, hidden)] for field in self.fields}
