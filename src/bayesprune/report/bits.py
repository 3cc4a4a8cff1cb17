"""Bits that a posterior leaves to each weight: the count of Bayesian compression, and one that its rounding pays for."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import check_mask, check_positive
from bayesprune.core.types import Node
from bayesprune.formulas import rounding
from bayesprune.report.inputs import ArrayLike


def bits_per_weight(
    posterior: Mapping[str, Any], mask: Mapping[str, ArrayLike] | None = None, nats: float = 0.5
) -> dict[str, Any]:
    """How many bits each living weight needs, by the paper and by what rounding costs.

    ``"paper"`` (16.6): one bit of sign, the exponent bits of the array's largest weight, and in the mean
    #{t <= 23: 2 Var < 2^-t} of mantissa. It takes the variance for the round-off, so that a standard deviation of .01 has 12
    bits. ``"ours"``: the array on a grid of one step D, at which rounding costs ``nats`` for each weight in the mean (16.5);
    log2 of the number of grid points from -max|w| to max|w|, rounded up. A half is the cost of D = sqrt 12 scale. One scale for
    a whole layer, such as that of `priors.Flat`, counts as known.

    Args:
        posterior: {site: node}, such as `BNN.posterior` gives: every node with a spread.
        mask: {site: booleans, True = alive}; sites that it does not name are alive.
        nats: what a weight's rounding may cost, in the mean.

    Returns:
        ``{"per_site": {site: {"paper", "ours", "step", "num_alive"}}, "paper", "ours"}``, the latter two means over living
        weights; NaN where nothing lives.

    Raises:
        ValueError: a node has no spread, is a spike and slab, or shares scales that its law fixes too closely (the slab of
            `priors.Horseshoe` bounds them); ``nats`` is not positive; ``mask`` has unknown sites, or other shapes.

    Example:
        >>> from bayesprune import MeanField
        >>> node = MeanField(jnp.array([0.5, -1.0]), jnp.array([0.01, 0.01]))
        >>> found = bits_per_weight({"w": node})["per_site"]["w"]
        >>> found["paper"], found["ours"], round(found["step"], 4)
        (15.0, 6.0, 0.0346)

    Source: Louizos, Ullrich & Welling 2017, section 5, and the authors' code.
    """
    check_positive(nats, "nats")
    chosen = check_mask(mask or {}, {site: np.shape(node.loc) for site, node in posterior.items()})
    per_site = {}
    for site, node in posterior.items():
        mean, variance = _moments(site, node)
        alive = np.asarray(chosen.get(site, np.ones(mean.shape, bool)))
        per_site[site] = _of_array(np.abs(mean[alive]), variance[alive], nats, site)
    counts = np.array([row["num_alive"] for row in per_site.values()])
    total = {
        name: float(np.dot(counts, [row[name] if row["num_alive"] else 0.0 for row in per_site.values()]) / counts.sum())
        if counts.sum()
        else math.nan
        for name in ("paper", "ours")
    }
    return {"per_site": per_site} | total


def _moments(site: str, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the network's weights, a shared scale's spread included (16.2)."""
    if getattr(node, "gated", True):
        raise ValueError(f"site {site!r} is a {type(node).__name__}, which is partly a point: bits are of Gaussian posteriors.")
    if node.together:
        raise ValueError(
            f"site {site!r} has weights that vary together, which single numbers do not code: fit with posterior='mean_field'."
        )
    law = getattr(node, "law", None)
    if law is not None and not np.allclose(law.mean(), node.unit, rtol=1e-3):
        raise ValueError(
            f"site {site!r} has weights bounded by a slab, and the spread of such a scale is not known here: take "
            "priors.Horseshoe(slab=None), or priors.GroupHorseshoe."
        )
    unit, spread = (node.unit, 0.0) if law is None else (law.mean(), law.variance())
    mean, variance = rounding.moments(unit, spread, node.loc, node.scale)
    return np.asarray(mean), np.asarray(variance)


def _of_array(size: np.ndarray, variance: np.ndarray, nats: float, site: str) -> dict[str, float | int]:
    if not size.size:
        return {"paper": math.nan, "ours": math.nan, "step": math.nan, "num_alive": 0}
    if not np.all(variance > 0):
        raise ValueError(f"site {site!r} has living weights without spread, and no number of bits is enough for a point.")
    largest = float(size.max())
    step = float(rounding.shared_step(nats, jnp.sqrt(variance)))
    paper = 1.0 + float(rounding.exponent_bits(largest)) + float(rounding.mantissa_bits(variance).mean())
    levels = 2.0 * math.floor(largest / step + 0.5) + 1.0
    return {"paper": paper, "ours": float(math.ceil(math.log2(levels))), "step": step, "num_alive": int(size.size)}
