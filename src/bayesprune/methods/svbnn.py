"""Sparse variational networks: cut by the posterior inclusion probability of a spike at zero."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesprune.prune.cutting import ByInclusion

REFERENCE = "bai2020efficient"


@dataclass(frozen=True)
class SVBNN(ByInclusion):
    """Keep the weights that a `priors.DiracSlab` posterior includes with phi >= 1/2: the median probability model.

    Args:
        probability: the cut, in (0, 1).
        density: instead of the cut, the fraction of the prunable weights that stays alive, by largest phi: in (0, 1], or a
            schedule, a function of the number of the pruning step (1, 2, ...).
        scope: what competes, any scope of `Cut`.

    Counts by density are exact, ties included. The dead stay dead. Use it once after the fit, as `prune_once(fit.params,
    SVBNN())`, or on the way, as a sparsifier of `fit_svi`. What the fit itself calls its sparsity, the mean of phi, is
    `prune.cutting.expected_density`.

    Raises:
        TypeError: the posterior holds no inclusion probabilities.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from bayesprune.core.types import Evidence
        >>> from bayesprune.posteriors.spike_slab import SpikeSlab
        >>> posterior = {"w": SpikeSlab(jnp.zeros(3), jnp.ones(3), jnp.array([-2.0, 0.1, 5.0]))}
        >>> state = SVBNN().init(jax.random.key(0), posterior)
        >>> print(SVBNN().step(jax.random.key(0), Evidence(posterior, None), state)[0].mask["w"])
        [False  True  True]

    Source: Bai, Song & Cheng (2020), section 6; Barbieri & Berger (2004) for the median probability model.
    """

    probability: float = 0.5
    density: float | Callable[[Any], Any] | None = None
    scope: str = "global"
