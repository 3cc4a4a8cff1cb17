"""Training points while the evidence chooses their prior: fit, Laplace, new prior precisions, on from there.

What SpaM (Dhahri et al. 2024) does every few epochs of its training, in rounds of `fit_svi` and `laplace`; a precision for each
output of a layer. Weights that no data ask for have a narrow prior then, and are near zero when they are cut.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayesprune as bp
from bayesprune.model.prior import guide_each


@dataclass(frozen=True, eq=False)
class Apart:
    """w ~ N(0, scale²), ``scale``: site -> an array that broadcasts to the weights'."""

    scale: Mapping[str, np.ndarray]

    def model(self, layout: Any) -> dict[str, Any]:
        specs = [spec for spec in layout if spec.bayesian]
        of = lambda spec: jnp.broadcast_to(self.scale[str(spec.path)], spec.shape)  # noqa: E731
        return {str(spec.path): numpyro.sample(str(spec.path), dist.Normal(0.0, of(spec))) for spec in specs}

    def guide(self, layout: Any, family: Any) -> None:
        guide_each(layout, family)

    def factor(self, spec: Any) -> tuple[float, str, float]:
        return 1.0, "", 0.0

    def node(self, node: Any, spec: Any, moment: Any) -> Any:
        return replace(node, prior_scale=jnp.asarray(self.scale[str(spec.path)], float), unit=1.0)


def ascend(
    rng_key: jax.Array, under: Callable[[Any], bp.BNN], train: bp.Dataset, rounds: int, **settings: Any
) -> tuple[bp.BNN, Any]:
    """The network under its last prior, and its fit. ``under``: of a prior, the network; ``settings``: of each fit."""
    bnn, init = under(bp.priors.Gaussian()), {}
    for number, key in enumerate(jax.random.split(rng_key, rounds)):
        fit = bp.fit_svi(key, bnn, train, **settings, **init)
        if number < rounds - 1:
            around = bp.laplace(key, bnn, fit, train, prior_precision="unit", num_draws=1)
            nodes = bnn.posterior(around.params)
            prior = Apart({site: np.asarray(node.prior_scale) * np.asarray(node.unit) for site, node in nodes.items()})
            variables, bnn = fit.net_params(bnn), under(prior)
            init = {"init_params": bp.from_trained(bnn, variables)}
    return bnn, fit
