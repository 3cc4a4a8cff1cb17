"""NumPyro effect handlers: what a program means is changed from outside, its text never."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, Independent, MaskedDistribution
from numpyro.handlers import seed, substitute
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

from bayesprune.core.checks import as_booleans
from bayesprune.core.keys import chain
from bayesprune.posteriors.mean_field import FAMILY as MEAN_FIELD


class _Pruned(MaskedDistribution):
    """A masked distribution whose draws, too, are zero where the mask is False."""

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        draw = self.base_dist.sample(key, sample_shape)
        return draw * self._mask.astype(draw.dtype)


def _prune(name: str, fn: Distribution, mask: jax.Array) -> Distribution:
    """Mask ``fn`` element by element: below ``to_event``, above which the joint density would be counted once per element."""
    if isinstance(fn, Independent):
        return _prune(name, fn.base_dist, mask).to_event(fn.reinterpreted_batch_ndims)
    if fn.event_shape or tuple(fn.batch_shape) != tuple(mask.shape):
        raise ValueError(
            f"site {name!r} has batch shape {tuple(fn.batch_shape)} and event shape {tuple(fn.event_shape)}, its mask "
            f"{tuple(mask.shape)}: a mask needs a site of independent elements, of its own shape; sample it as "
            "dist.Normal(0, 1).expand(shape)."
        )
    return _Pruned(fn, mask)


class masked_part(Messenger):
    """`masked`, of a part of a program, such as its likelihood: sites of ``mask`` that it does not sample are another's."""

    def __init__(self, fn: Callable[..., Any] | None = None, mask: dict[str, Any] | None = None) -> None:
        self.mask = {} if mask is None else {site: as_booleans(alive, f"mask[{site!r}]") for site, alive in mask.items()}
        self._scales = {MEAN_FIELD.name(site, "scale"): alive for site, alive in self.mask.items()}
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["name"] not in self.mask or msg["is_observed"]:
            return
        msg["fn"] = _prune(msg["name"], msg["fn"], self.mask[msg["name"]])

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "param" and msg["name"] in self._scales and not isinstance(msg["value"], jax.core.Tracer):
            # Of the dead, whose draws are zero whatever it is. NumPyro looks at scales outside of compiled code alone.
            msg["value"] = jnp.where(self._scales[msg["name"]], msg["value"], jnp.ones_like(msg["value"]))
        if msg["type"] == "sample" and msg["name"] in self.mask and not msg["is_observed"]:
            # A product, not a `where`: array values that stand for distributions (local reparameterisation) carry it through.
            msg["value"] = msg["value"] * self.mask[msg["name"]].astype(jnp.result_type(msg["value"]))


class masked(masked_part):
    """Prune a program: at each named site the dead elements are exactly zero and leave the log density.

    ``mask`` maps site names to boolean arrays, True = alive; it may be traced, so a changing mask never compiles again.
    Values are multiplied by the mask; the log density is masked elementwise. Works on models and on guides: NumPyro's own
    `AutoNormal` refuses pruned parameters, whose dead weights have scale zero, and takes them as ``masked(guide, mask)``.

    Raises:
        ValueError: when the program has run, of a site in ``mask`` that it does not sample; at a site whose elements share a
            joint density (a multivariate normal; ``to_event`` alone is looked through), or whose shape is not the mask's.

    Example:
        >>> import jax, numpyro, numpyro.distributions as dist
        >>> def model():
        ...     return numpyro.sample("w", dist.Normal(0, 1).expand([3]))
        >>> mask = {"w": jax.numpy.array([True, False, True])}
        >>> with numpyro.handlers.seed(rng_seed=0):
        ...     print(masked(model, mask)()[1] == 0.0)
        True
    """

    def __enter__(self) -> Any:
        self._met: set[str] = set()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if error[0] is None and (unmet := sorted(set(self.mask) - self._met)):
            raise ValueError(
                f"mask has {', '.join(map(repr, unmet))}, and the program samples {', '.join(map(repr, sorted(self._met)))}: "
                "what it names otherwise would stay whole. Give sites by the names of their numpyro.sample."
            )

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample":
            self._met.add(msg["name"])
        super().process_message(msg)


class probed(Messenger):
    """Add ``probe[site]`` to a site's value: a zero probe's gradient is that of every weight, dead ones too.

    It goes inside of `masked`, as ``masked(probed(model, probe), mask)``: handlers change a value from the outermost to the
    innermost, so that the probe comes after the mask.
    """

    def __init__(self, fn: Callable[..., Any] | None = None, probe: dict[str, Any] | None = None) -> None:
        self.probe = {} if probe is None else probe
        super().__init__(fn)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] in self.probe and not msg["is_observed"]:
            msg["value"] = msg["value"] + self.probe[msg["name"]]


class scaled(Messenger):
    """Scale log densities: ``observed`` those of the data (n / batch for a minibatch), ``latent`` all others (a KL weight)."""

    def __init__(self, fn: Callable[..., Any] | None = None, observed: ArrayLike = 1.0, latent: ArrayLike = 1.0) -> None:
        self.observed, self.latent = observed, latent
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample":
            factor = self.observed if msg["is_observed"] else self.latent
            msg["scale"] = factor if msg.get("scale") is None else factor * msg["scale"]


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
