"""Parameter sites of a program: found once, abstractly, with their transforms and initial values."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.distributions import biject_to
from numpyro.distributions.constraints import real
from numpyro.handlers import substitute, trace

from bayesprune.core.keys import abstract_key
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset
from bayesprune.model.handlers import seeded
from bayesprune.model.program import Trainable
from bayesprune.posteriors.params import PRIORS


class Example(NamedTuple):
    """Shapes and types of a data set, as something that hashes."""

    leaves: tuple[tuple[tuple[int, ...], Any], ...]
    structure: Any

    @classmethod
    def of(cls, data: Dataset, num_rows: int | None = None) -> "Example":
        """``num_rows``: of the data set that ``data`` are rows of; None: of themselves."""
        leaves, structure = jax.tree.flatten(data)
        rows = len(data.y) if num_rows is None else num_rows
        return cls(tuple(((rows, *leaf.shape[1:]), leaf.dtype) for leaf in leaves), structure)

    @property
    def num_rows(self) -> int:
        return self.leaves[0][0][0]

    def abstract(self, num_rows: int | None = None) -> Dataset:
        """Shapes and types of the data, or of ``num_rows`` of their rows."""
        rows = self.num_rows if num_rows is None else num_rows
        return jax.tree.unflatten(  # type: ignore[no-any-return]
            self.structure, [jax.ShapeDtypeStruct((rows, *shape[1:]), dtype) for shape, dtype in self.leaves]
        )


class Sites(NamedTuple):
    """Parameter sites of a program: transforms to their supports, the function that makes initial values, their shapes.

    ``mutable``: of its state.
    """

    transforms: dict[str, Any]
    initial: Callable[[jax.Array, Dataset], tuple[dict[str, Any], dict[str, Any]]]
    params: dict[str, Any]
    mutable: dict[str, Any]

    def constrain(self, params: dict[str, Any]) -> dict[str, Any]:
        """From the whole real line to each parameter's support; entries without leaves go through."""
        return {n: v if isinstance(v, dict) else self.transforms[n](v) for n, v in params.items()}

    def unconstrain(self, params: dict[str, Any]) -> dict[str, Any]:
        """The inverse of `constrain`."""
        return {n: v if isinstance(v, dict) else self.transforms[n].inv(v) for n, v in params.items()}


@functools.lru_cache(maxsize=16)
def sites_of(program: Trainable, example: Example) -> Sites:
    """Trace guide and model once, abstractly, for their parameters; values come from a function that can be jitted.

    Once for equal programs and data of the same shapes. Nothing is trained here: a network is run as in prediction, so batch
    statistics stay initial.
    """
    transforms: dict[str, Any] = {}

    @by_one_thread
    def initial(rng_key: jax.Array, data: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
        guide_key, model_key = jax.random.split(rng_key)
        guide = trace(seeded(program.guide, guide_key)).get_trace(data.x, data.y)
        values = {n: s["value"] for n, s in guide.items() if s["type"] in ("sample", "param") and not s.get("is_observed")}
        model = trace(substitute(seeded(program.model, model_key), data=values)).get_trace(data.x, data.y)
        params, mutable = {}, {}
        for name, site in (model | guide).items():
            if site["type"] == "param" and site["kwargs"].pop("frozen", False):
                mutable[name] = site["value"]  # which no optimiser moves, and results have among their parameters
            elif site["type"] == "param" and name != PRIORS:  # a fit says the same with its parameters
                transforms[name] = biject_to(site["kwargs"].pop("constraint", real))
                params[name] = transforms[name].inv(site["value"]) if not isinstance(site["value"], dict) else site["value"]
            elif site["type"] == "mutable":
                mutable[name] = site["value"]
        # A weakly typed value would compile the second step again.
        strong = lambda tree: jax.tree.map(lambda v: jnp.asarray(v, jnp.asarray(v).dtype), tree)  # noqa: E731
        return strong(params), strong(mutable)

    params, mutable = jax.eval_shape(initial, abstract_key(), example.abstract())
    return Sites(transforms, initial, params, mutable)
