"""The evidence lower bound by local reparameterisation: each layer's outputs are sampled, not its weights."""

from collections.abc import Callable
from typing import Any

import jax

from bayesprune.core.checks import check_name
from bayesprune.core.types import PyTree
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.transforms import noise as noises
from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.local_noise import SHARED, local_noise


class LocalELBO(MeanFieldELBO):
    """A mean-field ELBO whose gradients vary less: every output of a layer has a noise of its own.

    y = loc x + sqrt(scale² x²) eps, one eps per element of y (4.2).

    Args:
        num_particles, noise: as of `MeanFieldELBO`.
        shared: ``"convolutions"`` has noise for every position of a convolution, as is the custom, though positions share their
            kernel's under sampled weights; ``"draw"`` draws kernels once, and the expected loss is exact.

    A Normal site of the guide with at least one axis makes noise where each of its elements reaches one output of each row,
    as in dense layers on a matrix of rows; the expected loss is then that of weight sampling. Any other is drawn once: a weight
    that is used twice (tied, recurrent), that meets several tokens or positions of a row (but for ``shared``), that enters a
    function of its own (a norm), or whose outputs are mixed over rows (batch normalisation). The network's trace decides.
    Rows are counted by the first axis of the program's array arguments; what a program closes over is constant.

    Raises:
        ValueError: ``shared`` is an unknown name.

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

    def __init__(self, num_particles: int = 1, noise: noises.Noise = noises.quantile, shared: str = "convolutions") -> None:
        super().__init__(num_particles, noise)
        check_name("shared", shared, SHARED)
        self.shared = shared

    def lift(self, rng_key: jax.Array, name: str, loc: jax.Array, scale: jax.Array) -> Any:
        """The weight as a `GaussianArray`, except for scalars."""
        if loc.ndim == 0:
            return super().lift(rng_key, name, loc, scale)
        return GaussianArray(loc, scale, rng_key, self.noise_of(name))

    def run(self, fn: Callable[..., Any], values: dict[str, Any], *args: PyTree, **kwargs: PyTree) -> Any:
        """Call ``fn`` on arrays some of which are `GaussianArray`."""
        return local_noise(fn, self.shared)(values, *args, **kwargs)
