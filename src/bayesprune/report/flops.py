"""The cost of a network in floating-point operations: those executed, and those that its alive weights alone would need."""

import math
from collections.abc import Mapping
from typing import Any

from bayesprune.core.checks import check_integer, check_mask
from bayesprune.core.given import GivenNetwork
from bayesprune.report.connected import graph_of
from bayesprune.report.inputs import ArrayLike
from bayesprune.structure import check_settled, multiply_adds

Report = dict[str, Any]


def flops(bnn: GivenNetwork, mask: Mapping[str, ArrayLike] | None = None) -> Report:
    """FLOPs of one network draw on one row: ``"executed"`` by the dense network, and ``"theoretical"``, of alive weights alone.

    A multiply-add counts as two FLOPs. Counted are matrix products and convolutions, as the network itself asks for them; what
    goes by element (biases, activations, normalisation, pooling) is not, nor is drawing the weights. For one product

        executed = 2 sum_j uses_j,   theoretical = 2 sum_j alive_j uses_j,

    where weight j takes part in ``uses_j`` multiply-adds. A dense layer has 2 inputs outputs of the first kind, a convolution
    2 (output pixels) (kernel positions) (channels of a group) (features), padding counted as if it were data. Read is
    ``bnn.graph``: an array that it does not follow (``bnn.graph.unfollowed``) counts as whole where others are made of it.

    A masked dense tensor executes all of them: dead weights are multiplied as zeros, and nothing is faster. The theoretical
    ones are saved only by a smaller network or by a sparse kernel; so the two are never added up or taken for one another.

    Args:
        bnn: a `bayesprune.BNN`.
        mask: {site: booleans of its shape, True = alive}; sites that it does not name are whole, and None prunes none.

    Returns:
        ``"executed"`` and ``"theoretical"`` of the whole network, whole numbers; ``"ratio"``, theoretical / executed (NaN
        without products); ``"per_site"``, {site: both} for every weight tensor that is multiplied, in the order of
        ``bnn.layout``; and ``"other"``, both for products that no weight enters directly, such as attention's, which no
        mask lessens. The sites and the others sum to the whole. A product of two weights counts to the larger site.

    Raises:
        TypeError: ``bnn`` is no `bayesprune.BNN`; of any other program it is not known which tensors are a network's weights.
        ValueError: ``mask`` has unknown sites, other shapes, or is not boolean; or the net has products in a loop or a
            branch that is settled only when it runs, or in a long loop over weights that each turn makes anew.

    Example:
        >>> import bayesprune as bp, numpy as np
        >>> bnn = bp.BNN(bp.nets.MLP(hidden=(8,), num_outputs=3), prior=bp.priors.Flat(),
        ...              likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
        >>> report = flops(bnn, {"Dense_0.kernel": np.arange(32).reshape(4, 8) < 8})
        >>> report["executed"], report["theoretical"]
        (112, 64)
        >>> report["per_site"]["Dense_0.kernel"]
        {'executed': 64, 'theoretical': 16}
    """
    graph = graph_of(bnn, "count its FLOPs")
    check_settled(graph)
    shapes = {str(spec.path): spec.shape for spec in bnn.layout}
    counts = {site: _both(0, 0) for site in ("", *shapes)}
    for site, executed, alive in multiply_adds(graph, check_mask({} if mask is None else mask, shapes)):
        counts[site]["executed"] += 2 * executed
        counts[site]["theoretical"] += 2 * alive
    whole = _both(*(sum(count[key] for count in counts.values()) for key in ("executed", "theoretical")))
    ratio = whole["theoretical"] / whole["executed"] if whole["executed"] else math.nan
    other = counts.pop("")
    per_site = {site: count for site, count in counts.items() if count["executed"]}
    return {**whole, "ratio": ratio, "per_site": per_site, "other": other}


def training_flops(flops_report: Mapping[str, Any], every: int) -> dict[str, float]:
    """FLOPs per row of a training step: executed by masked dense tensors, and theoretical, as papers on sparse training count.

    The backward pass costs two forward passes: one for the gradient of the inputs, one for that of the weights. With f_D the
    executed and f_S the theoretical FLOPs of a forward pass, and M = ``every``,

        executed = 3 f_D,   theoretical = (3 f_S M + 2 f_S + f_D) / (M + 1),

    that is M sparse steps, then one that needs the gradient of every weight, dead ones too, in order to regrow.

    ``flops_report``: what `flops` returns, for one draw and one row; multiply by the rows of a batch. ``every``: steps between
    two updates of the mask. A method that regrows nothing by gradient costs 3 f_S alone. Local reparameterisation does every
    product twice, for mean and variance: double both. Neither counts the optimiser or the divergence from the prior.

    Raises ``ValueError`` if ``every`` is no whole number above zero.

    >>> training_flops({"executed": 100, "theoretical": 10}, every=9)
    {'executed': 300.0, 'theoretical': 39.0}

    Source: Evci et al. (2020), "Rigging the Lottery".
    """
    check_integer(every, "every")
    dense, sparse = flops_report["executed"], flops_report["theoretical"]
    return {"executed": 3.0 * dense, "theoretical": (3 * sparse * every + 2 * sparse + dense) / (every + 1)}


def _both(executed: int, theoretical: int) -> dict[str, int]:
    return {"executed": executed, "theoretical": theoretical}
