"""Whether a likelihood's mean is a function of the outputs alone."""

from typing import Any

import jax
import jax.numpy as jnp
from numpyro.handlers import seed, trace

from bayesprune.core.tracing import by_one_thread
from bayesprune.model.likelihoods.protocol import Likelihood, OutputShape
from bayesprune.model.shapes import filled


@by_one_thread
def sites_of_mean(likelihood: Likelihood | Any, output_shape: OutputShape | Any) -> list[str]:
    """Names of what the mean asks for beside the outputs, drawn with the network; none of most.

    >>> from bayesprune.model.likelihoods import Ordinal, Poisson
    >>> sites_of_mean(Poisson(), (1,)), sites_of_mean(Ordinal(4), (1,))
    ([], ['cut_gaps'])
    """
    names: list[str] = []

    def of_a_row() -> jax.Array:
        sites = trace(seed(likelihood.mean, jax.random.key(0))).get_trace(filled(output_shape, 1, 0.0))
        names.extend(name for name, site in sites.items() if site["type"] in ("sample", "param"))
        return jnp.zeros(())

    jax.eval_shape(of_a_row)
    return names
