"""How much may go? The sparsest pruning whose held-out loss is still good enough."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesprune.core.checks import check_density, is_number
from bayesprune.core.types import Pruned

DENSITIES = (1.0, 0.75, 0.5, 0.35, 0.25, 0.2, 0.15, 0.1, 0.075, 0.05, 0.035, 0.025, 0.02, 0.015, 0.01)


class ToleranceChoice(NamedTuple):
    """The pruning that was chosen, its density, and the losses at all densities tried (NaN where not tried)."""

    pruned: Pruned
    density: float
    densities: np.ndarray
    losses: np.ndarray


def prune_to_tolerance(
    prune: Callable[[float], Pruned],
    loss: Callable[[Pruned], float],
    *,
    tolerance: float = 0.05,
    densities: Sequence[float] = DENSITIES,
) -> ToleranceChoice:
    """Prune to the lowest density whose held-out loss is at most (1 + tolerance) times that of the densest.

    Densities are tried from the densest on, and the search ends at the first whose loss is too high: a lower one that
    happened to do well on this held-out set would be luck.

    Args:
        prune: density -> `Pruned`, such as ``lambda d: prune_once(fit.params, SBNN(density=d), read=bnn.read)``.
        loss: of a `Pruned` on held-out rows, smaller is better, at least 0 (RMSE, error rate): not the test set.
        tolerance: accepted growth of the loss, at least 0; 0.05 is 5 %.
        densities: to try, in (0, 1].

    Returns:
        A `ToleranceChoice`.

    Raises:
        ValueError: a density outside (0, 1], none at all, a negative tolerance, or a first loss that is negative or not finite.

    Example:
        >>> from bayesprune.posteriors.mean_field import MeanField
        >>> import jax.numpy as jnp
        >>> from bayesprune.methods.magnitude import Magnitude
        >>> from bayesprune.prune.one_shot import prune_once
        >>> posterior = {"w": MeanField(jnp.arange(1.0, 11.0), jnp.ones(10))}
        >>> cut = lambda density: prune_once(posterior, Magnitude(density=density))
        >>> lost = lambda pruned: 100.0 - float(pruned.params["w"].loc.sum())  # 45 with all, 51 without 1, 2 and 3
        >>> float(prune_to_tolerance(cut, lost, tolerance=0.2, densities=(1.0, 0.7, 0.5)).density)
        0.7

    Source: Saha, Liu & Liang (2024), experiment 4.
    """
    if not len(densities):
        raise ValueError("densities is empty: give at least one, such as (1.0, 0.5, 0.1).")
    for density in densities:
        check_density(density, "densities")
    if not (is_number(tolerance) and tolerance >= 0):
        raise ValueError(f"tolerance must be at least 0, got {tolerance}: 0.05 accepts a loss 5 % higher.")
    order = np.array(sorted(set(map(float, densities)), reverse=True))
    losses = np.full(len(order), np.nan)
    best = prune(float(order[0]))
    losses[0] = loss(best)
    if not (np.isfinite(losses[0]) and losses[0] >= 0):
        raise ValueError(f"loss must be finite and at least 0, got {losses[0]}: give an RMSE or an error rate.")
    chosen = 0
    for at in range(1, len(order)):
        pruned = prune(float(order[at]))
        losses[at] = loss(pruned)
        if not losses[at] <= (1.0 + tolerance) * losses[0]:
            break
        best, chosen = pruned, at
    return ToleranceChoice(best, float(order[chosen]), order, losses)
