"""Sparsity, said in full: how many weights are zero, out of how many, in which tensors."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from bayesprune.core.checks import check_integer
from bayesprune.report.inputs import ArrayLike, truth_values

NOTHING: Mapping[str, int] = MappingProxyType({})


def _counted(alive: int, size: int) -> dict[str, int | float]:
    density = alive / size if size else math.nan
    return {"num_alive": alive, "num_weights": size, "density": density, "sparsity": 1.0 - density}


def sparsity_report(
    mask: Mapping[str, ArrayLike],
    dense_sizes: Mapping[str, int] = NOTHING,
    connected: Mapping[str, ArrayLike] | None = None,
) -> dict[str, Any]:
    """Count alive weights over two denominators: the prunable tensors alone, and the whole network.

    ``mask``: {site: booleans of the tensor's shape, True = alive}, every prunable tensor, pruned or not. ``dense_sizes``:
    {site: number of weights} of the tensors that are never pruned (biases, a last layer, normalisation), to count them in.
    ``connected``: the mask without weights that no living path needs, to count them apart: weights alive by name only.

    The result has ``"prunable"`` and ``"all"``, each with ``num_alive`` (numerator of the density), ``num_weights``
    (denominator), ``density`` and ``sparsity`` = 1 - density; ``"per_site"``, the same for every prunable tensor; and the
    names in ``"prunable_sites"`` and ``"dense_sites"``; with ``connected`` also ``"connected"``, which has ``"prunable"`` and
    ``"per_site"`` of that mask. A weight is counted once, whatever number of parameters describes it.
    Densities are NaN where nothing is counted. Raises ``ValueError`` for masks that are not boolean, sizes that are not
    whole, a site given in both, or ``connected`` weights that are dead.

    >>> import numpy as np
    >>> report = sparsity_report({"Dense_0.kernel": np.array([[True, False]])}, {"Dense_0.bias": 2})
    >>> report["prunable"]["sparsity"], report["all"]["sparsity"], report["dense_sites"]
    (0.5, 0.25, ['Dense_0.bias'])
    """
    twice = sorted(set(mask) & set(dense_sizes))
    if twice:
        raise ValueError(f"sites {twice} are in mask and in dense_sizes: leave in dense_sizes only what is never pruned.")
    for site, size in dense_sizes.items():
        check_integer(size, f"dense_sizes[{site!r}]", minimum=0)
    masks = {site: truth_values(m, f"mask[{site!r}]") for site, m in mask.items()}
    prunable, per_site = _tensors(masks)
    alive, size = int(prunable["num_alive"]), int(prunable["num_weights"])
    dense = int(sum(dense_sizes.values()))
    report = {
        "prunable": prunable,
        "all": _counted(alive + dense, size + dense),
        "per_site": per_site,
        "prunable_sites": sorted(masks),
        "dense_sites": sorted(dense_sizes),
    }
    return report if connected is None else report | {"connected": _connected(connected, masks)}


def _tensors(masks: Mapping[str, np.ndarray]) -> tuple[dict[str, int | float], dict[str, dict[str, int | float]]]:
    """The counts of all tensors together, and of each."""
    per_site = {site: _counted(int(m.sum()), m.size) for site, m in masks.items()}
    alive, size = (int(sum(row[key] for row in per_site.values())) for key in ("num_alive", "num_weights"))
    return _counted(alive, size), per_site


def used_of(connected: Mapping[str, ArrayLike], masks: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is connected of each mask, as booleans; refused where it is of other masks."""
    used = {site: truth_values(values, f"connected[{site!r}]") for site, values in connected.items()}
    wrong = [s for s in {**used, **masks} if s not in used or s not in masks or used[s].shape != masks[s].shape]
    wrong = wrong or [site for site in used if (used[site] & ~masks[site]).any()]
    if wrong:
        site = wrong[0]
        raise ValueError(f"connected[{site!r}] is no part of mask[{site!r}]: give what bayesprune.connected makes of mask.")
    return used


def _connected(connected: Mapping[str, ArrayLike], masks: Mapping[str, np.ndarray]) -> dict[str, Any]:
    prunable, per_site = _tensors(used_of(connected, masks))
    return {"prunable": prunable, "per_site": per_site}
