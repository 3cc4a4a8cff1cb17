"""NumPyro's `seed`: in a program that is short, and for priors without draws of their own."""

from collections.abc import Callable
from typing import Any

import jax
import numpyro.distributions as dist
from numpyro.handlers import seed, substitute
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

from bayesprune.core.keys import chain

_ASK = ("sample", "prng_key", "plate", "control_flow")


class seeded(Messenger):
    """`numpyro.handlers.seed`, with its keys to the bit, made eight at a time (`bayesprune.core.keys.chain`).

    Example:
        >>> import numpyro, numpyro.distributions as dist
        >>> def model():
        ...     return numpyro.sample("a", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
        >>> seeded(model, jax.random.key(0))() == numpyro.handlers.seed(model, jax.random.key(0))()
        True
    """

    def __init__(self, fn: Callable[..., Any], rng_key: jax.Array) -> None:
        self.rng_key = rng_key
        super().__init__(fn)

    def __enter__(self) -> Any:
        self.keys = chain(self.rng_key, 2)  # anew for every call, which may be another trace
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self.keys = iter(())  # those that were made and not handed out are of this call's trace
        super().__exit__(*error)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] in _ASK and msg["kwargs"]["rng_key"] is None and msg["value"] is None:
            (msg["kwargs"]["rng_key"],) = next(self.keys)


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
