"""A model with draws for all its sites, improper priors too, which have none of their own."""

from collections.abc import Callable
from typing import Any

import jax
import numpyro.distributions as dist
from numpyro.handlers import seed, substitute
from numpyro.infer import init_to_uniform


def drawn(model: Callable[..., Any], rng_key: jax.Array) -> Callable[..., Any]:
    """As `numpyro.handlers.seed`; a site of `ImproperUniform` has a value where NumPyro's guides would begin.

    >>> import numpyro
    >>> model = lambda: numpyro.sample("w", dist.ImproperUniform(dist.constraints.positive, (), (2,)))
    >>> drawn(model, jax.random.key(0))().shape
    (2,)
    """
    return substitute(seed(model, rng_key), substitute_fn=_where_improper)  # type: ignore[no-any-return]


def _where_improper(site: dict[str, Any]) -> Any:
    fn: Any = site.get("fn")
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return init_to_uniform(site) if site["type"] == "sample" and isinstance(fn, dist.ImproperUniform) else None
