"""The evidence lower bound by local reparameterisation: each layer's outputs are sampled, not its weights."""

from collections.abc import Callable
from typing import Any

import jax

from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.gaussian_array import Gaussian, local_noise


class LocalELBO(MeanFieldELBO):
    """A mean-field ELBO whose gradients vary less: every output of a layer has a noise of its own.

    y = loc x + sqrt(scale² x²) eps, one eps per element of y (4.2). Args and errors as for `MeanFieldELBO`.

    Every Normal site of the guide with at least one axis is handed to the model as a `Gaussian` array; scalars are drawn.
    The expected loss is that of weight sampling where each weight reaches one output of each row, as in dense layers on a
    matrix of rows; where it reaches several (convolutions, tokens, recurrence), their noises are taken to be independent,
    as is common practice. A weight that meets a loop or a function of its own (a norm, an embedding's rows) is drawn once.

    Example:
        >>> from numpyro.infer import SVI, autoguide
        >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist, optax
        >>> def model(x, y):
        ...     w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 1.0))
        ...     numpyro.sample("obs", dist.Normal(x @ w, 1.0), obs=y)
        >>> svi = SVI(model, autoguide.AutoNormal(model), optax.adam(1e-2), LocalELBO())
        >>> result = svi.run(jax.random.key(0), 10, jnp.ones((5, 3)), jnp.ones(5), progress_bar=False)
        >>> sorted(result.params)
        ['w_auto_loc', 'w_auto_scale']

    Source: Kingma, Salimans and Welling (2015), Variational dropout and the local reparameterization trick, eq. 6.
    """

    def lift(self, rng_key: jax.Array, name: str, loc: jax.Array, scale: jax.Array) -> Any:
        """The weight as a `Gaussian`, except for scalars."""
        if loc.ndim == 0:
            return super().lift(rng_key, name, loc, scale)
        return Gaussian(loc, scale, rng_key, self.noise)

    def run(self, fn: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> Any:
        """Call ``fn`` on arrays some of which are `Gaussian`."""
        return local_noise(fn)(values)
