"""Sparsity, said in full: how many weights are zero, out of how many, in which tensors."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bayesprune.core.checks import check_integer
from bayesprune.report.inputs import ArrayLike, truth_values

NOTHING: Mapping[str, int] = MappingProxyType({})


def _counted(alive: int, size: int) -> dict[str, int | float]:
    density = alive / size if size else math.nan
    return {"num_alive": alive, "num_weights": size, "density": density, "sparsity": 1.0 - density}


def sparsity_report(mask: Mapping[str, ArrayLike], dense_sizes: Mapping[str, int] = NOTHING) -> dict[str, Any]:
    """Count alive weights over two denominators: the prunable tensors alone, and the whole network.

    ``mask``: {site: booleans of the tensor's shape, True = alive}, every prunable tensor, pruned or not. ``dense_sizes``:
    {site: number of weights} of the tensors that are never pruned (biases, a last layer, normalisation), to count them in.

    The result has ``"prunable"`` and ``"all"``, each with ``num_alive`` (numerator of the density), ``num_weights``
    (denominator), ``density`` and ``sparsity`` = 1 - density; ``"per_site"``, the same for every prunable tensor; and the
    names in ``"prunable_sites"`` and ``"dense_sites"``. A weight is counted once, whatever number of parameters describes it.
    Densities are NaN where nothing is counted. Raises ``ValueError`` for masks that are not boolean, sizes that are not
    whole, or a site given in both.

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
    per_site = {site: _counted(int(m.sum()), m.size) for site, m in masks.items()}
    alive, size = (int(sum(row[key] for row in per_site.values())) for key in ("num_alive", "num_weights"))
    dense = int(sum(dense_sizes.values()))
    return {
        "prunable": _counted(alive, size),
        "all": _counted(alive + dense, size + dense),
        "per_site": per_site,
        "prunable_sites": sorted(masks),
        "dense_sites": sorted(dense_sizes),
    }
