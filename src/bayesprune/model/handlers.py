"""NumPyro effect handlers: what a program means is changed from outside, its text never."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import MaskedDistribution
from numpyro.primitives import Messenger


class _Pruned(MaskedDistribution):
    """A masked distribution whose draws, too, are zero where the mask is False."""

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        draw = self.base_dist.sample(key, sample_shape)
        return draw * self._mask.astype(draw.dtype)


class masked(Messenger):  # noqa: N801 (handlers are lower case in NumPyro)
    """Prune a program: at each named site the dead elements are exactly zero and leave the log density.

    ``mask`` maps site names to boolean arrays, True = alive; it may be traced, so a changing mask never compiles again.
    Values are multiplied by the mask; the log density is masked elementwise. Works on models and on guides.

    Raises:
        ValueError: at a site whose distribution has event dimensions, or whose shape is not the mask's: masking elementwise
            after ``to_event`` would broadcast the joint density and count it once per element.

    Example:
        >>> import jax, numpyro, numpyro.distributions as dist
        >>> def model():
        ...     return numpyro.sample("w", dist.Normal(0, 1).expand([3]))
        >>> mask = {"w": jax.numpy.array([True, False, True])}
        >>> with numpyro.handlers.seed(rng_seed=0):
        ...     print(masked(model, mask)()[1])
        0.0
    """

    def __init__(self, fn: Callable[..., Any] | None = None, mask: dict[str, Any] | None = None) -> None:
        self.mask = {} if mask is None else mask
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["name"] not in self.mask or msg["is_observed"]:
            return
        mask, fn = self.mask[msg["name"]], msg["fn"]
        if fn.event_shape or tuple(fn.batch_shape) != tuple(mask.shape):
            raise ValueError(
                f"site {msg['name']!r} has batch shape {tuple(fn.batch_shape)} and event shape {tuple(fn.event_shape)}, its "
                f"mask {tuple(mask.shape)}: a mask needs a site of its own shape without event dimensions; sample it as "
                "dist.Normal(0, 1).expand(shape), without to_event."
            )
        msg["fn"] = _Pruned(fn, mask)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] in self.mask and not msg["is_observed"]:
            # A product, not a `where`: array values that stand for distributions (local reparameterisation) carry it through.
            msg["value"] = msg["value"] * self.mask[msg["name"]].astype(jnp.result_type(msg["value"]))


class probed(Messenger):  # noqa: N801
    """Add ``probe[site]`` to a site's value, after pruning: the gradient in a zero probe is the one of every weight, dead ones too."""

    def __init__(self, fn: Callable[..., Any] | None = None, probe: dict[str, Any] | None = None) -> None:
        self.probe = {} if probe is None else probe
        super().__init__(fn)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample" and msg["name"] in self.probe and not msg["is_observed"]:
            msg["value"] = msg["value"] + self.probe[msg["name"]]


class scaled(Messenger):  # noqa: N801
    """Scale log densities: ``observed`` those of the data (n / batch for a minibatch), ``latent`` all others (a KL weight)."""

    def __init__(self, fn: Callable[..., Any] | None = None, observed: Any = 1.0, latent: Any = 1.0) -> None:
        self.observed, self.latent = observed, latent
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "sample":
            factor = self.observed if msg["is_observed"] else self.latent
            msg["scale"] = factor if msg.get("scale") is None else factor * msg["scale"]
