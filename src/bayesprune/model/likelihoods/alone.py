"""What a likelihood asks for beside the outputs."""

from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.handlers import seed, trace

from bayesprune.core.tracing import by_one_thread
from bayesprune.model.likelihoods.protocol import Likelihood, OutputShape
from bayesprune.model.shapes import filled


def latent_sites(likelihood: Likelihood | Any, output_shape: OutputShape | Any) -> list[str]:
    """Names of what it samples beside the targets, such as the precision of its noise.

    >>> from bayesprune.model.likelihoods import Normal, Poisson
    >>> latent_sites(Poisson(), (1,)), latent_sites(Normal(), (1,))
    ([], ['noise_precision'])
    """
    return [name for name in _sites(likelihood.observe, output_shape, {"sample"}, None) if name != "obs"]


def sites_of_mean(likelihood: Likelihood | Any, output_shape: OutputShape | Any) -> list[str]:
    """Names of what the mean asks for beside the outputs, drawn with the network; none of most.

    >>> from bayesprune.model.likelihoods import Ordinal, Poisson
    >>> sites_of_mean(Poisson(), (1,)), sites_of_mean(Ordinal(4), (1,))
    ([], ['cut_gaps'])
    """
    return _sites(likelihood.mean, output_shape, {"sample", "param"})


@by_one_thread
def _sites(function: Callable[..., Any], output_shape: OutputShape | Any, kinds: Collection[str], *others: object) -> list[str]:
    """Names of the sites of these kinds of a function of outputs."""
    names: list[str] = []

    def of_a_row() -> jax.Array:
        sites = trace(seed(function, jax.random.key(0))).get_trace(filled(output_shape, 1, 0.0), *others)
        names.extend(name for name, site in sites.items() if site["type"] in kinds)
        return jnp.zeros(())

    jax.eval_shape(of_a_row)
    return names
