"""Standard deviations of weights under another noise than that they were trained under."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprune.core.types import Node
from bayesprune.infer import refit_concentration, refit_noise
from bayesprune.model.bnn import BNN
from bayesprune.posteriors import params as posterior_params


def rescaled(bnn: BNN, params: dict[str, Any], ratio: float) -> dict[str, Any]:
    """The parameters with each weight's precision for data that tell ``ratio`` times as much of it,

      1 / s'² = 1 / p² + ratio (1 / s² - 1 / p²)                                                          (21.19)

    with p the prior's standard deviation: coordinate ascent of a linear network, where the precision that comes of the data
    goes with the noise's. A weight that the data leave no surer than its prior stays as it is, and so do the dead, and weights
    of other families, or whose prior is no Gaussian and no spike and slab.
    """
    nodes = {site: _rescaled(node, ratio) for site, node in bnn.posterior(params).items()}
    return posterior_params.write(params, {site: node for site, node in nodes.items() if node is not None})


def _rescaled(node: Node, ratio: float) -> Node | None:
    prior = 1.0 if node.gated else node.prior_scale  # a slab's, in units of the node
    if node.together or prior is None:
        return None
    scale = np.asarray(node.scale, np.float64)
    least = np.broadcast_to(np.asarray(prior, np.float64) ** -2.0, scale.shape)
    known = np.where(scale > 0, scale, 1.0) ** -2.0
    informed = (scale > 0) & (known > least)
    changed = np.where(informed, (least + ratio * np.where(informed, known - least, 0.0)) ** -0.5, scale)
    return replace(node, scale=changed.astype(np.asarray(node.scale).dtype))  # type: ignore[type-var]


def information(params: dict[str, Any], means: Float[np.ndarray, " rows"]) -> float | None:
    """What a target tells of the function on average: a Gaussian noise's precision, or that of log counts of these means.

    1 / (1 / m + 1 / r), the Fisher information of log m under (21.5). None where outputs have noises of their own.
    """
    name = refit_noise.LOC if refit_noise.LOC in params else refit_concentration.LOC
    if name not in params or np.ndim(params[name]):
        return None
    value = float(np.exp(np.float64(params[name])))
    return value if name == refit_noise.LOC else float(np.mean(means / (1.0 + means / value)))
