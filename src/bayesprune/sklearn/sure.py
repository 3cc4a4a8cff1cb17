"""Weights that are included all but surely: of a cut network they are there in every draw."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.model.bnn import BNN
from bayesprune.posteriors import params as posterior_params
from bayesprune.prune.cutting import log_odds

SURE = 0.9  # of 0, all that the cut leaves, a table of simulated friedman1 is predicted worse by .02 nats a row
OPEN = 40.0  # log-odds of a weight that float32 never leaves out


def keep_sure(bnn: BNN, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with inclusion probabilities phi above 0.9 at 1, (5.4); those of families without gates as they are.

      logit phi* = logit lam - KL(N(loc, scale²) || slab) + E_q[log p(y | w) - log p(y | w, w_i = 0) | g_i = 1]

    is where phi ends under the bound: of a weight that the data need, hundreds or thousands of nats. Training comes to 5 or 8,
    for the slope of a hard gate (5.2) fades as 1 - phi does. With a few dozen such weights every tenth draw then lacks one that
    it cannot do without: the spread of its predictions is far too wide where the noise is small.
    """
    sure = {site: node for site, node in bnn.read(params).items() if node.gated}
    logits = _opened({site: node.log_odds() for site, node in sure.items()})
    nodes = {site: replace(node, logit=logits[site]) for site, node in sure.items()}  # type: ignore[type-var]
    return posterior_params.write(params, nodes) if nodes else params


# In one program: each shape would be compiled for by itself.
@jax.jit
def _opened(logits: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {site: jnp.where(logit > log_odds(SURE), OPEN, logit).astype(logit.dtype) for site, logit in logits.items()}
