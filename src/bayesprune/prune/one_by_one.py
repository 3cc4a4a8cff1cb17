"""Removal by evidence: of independent weights at once, of those that vary together one after the other, exactly.

How a node of weights that vary together is cut says `posteriors.joint`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.types import PyTree
from bayesprune.prune.scores import check_evidence, evidence

Zetas = Callable[[dict[str, jax.Array]], dict[str, jax.Array]]


def one_by_one(posterior: PyTree, alive: PyTree, zetas: Zetas) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Evidence gained by every weight's removal, and the mask without those where it exceeds zeta.

    ``zetas``: a function of the gains, {site: array}, that returns a threshold for each site, in nats a weight; it is called
    after every removal. The sum of the gains over the cut is the evidence gained, exact if the posterior is. A gain or a
    threshold of NaN cuts nothing.
    """
    check_evidence(posterior)
    joint = {site: node for site, node in posterior.items() if node.together}
    # Weights by themselves: their gains stay, whatever else goes.
    gain = {site: -value for site, value in evidence({s: n for s, n in posterior.items() if s not in joint}).items()}
    left = {site: node.removal(alive[site]) for site, node in joint.items()}

    def gains(left: dict[str, Any]) -> dict[str, jax.Array]:
        found = gain | {site: part.gain for site, part in left.items()}
        return {site: found[site] for site in posterior}

    def remove(carry: tuple[dict[str, Any], jax.Array]) -> tuple[dict[str, Any], jax.Array]:
        zeta = zetas(gains(carry[0]))
        done = {site: part.without_best(zeta[site]) for site, part in carry[0].items()}
        return {site: part for site, (part, _) in done.items()}, jnp.any(jnp.stack([moved for _, moved in done.values()]))

    if left:
        left, _ = jax.lax.while_loop(lambda carry: carry[1], remove, (left, jnp.array(True)))
    gain = gains(left)
    zeta = zetas(gain)
    kept = {site: alive[site] & ~(gain[site] > zeta[site]) for site in posterior if site not in joint}
    kept |= {site: alive[site] & part.alive for site, part in left.items()}
    return gain, {site: kept[site] for site in posterior}
