"""Whether the networks that a chain has kept have learnt anything."""

import warnings

import jax
import numpy as np

from bayesprune.core.keys import Key
from bayesprune.core.types import Dataset
from bayesprune.infer.end_of_fit import baseline, in_memory
from bayesprune.infer.evaluate import evaluate
from bayesprune.model.bnn import BNN
from bayesprune.report.end_of_losses import FEWEST_STEPS
from bayesprune.train.result import FitResult

ROWS = 1_000  # of the data, spread evenly, that are predicted
LEAST = 5.0  # nats of the whole data: who gains less has learnt nothing that could be told from chance
SHARE = 0.1  # of the baseline: a potential that has fallen by more has learnt


def warn_of_no_learning(rng_key: Key, fit: FitResult, bnn: BNN, data: object, acted: bool) -> None:
    """Warn where the kept networks predict the data no better than a prediction without inputs does.

    The potential alone cannot tell: a chain that begins near zero gains prior energy as it spreads, and one that is pruned
    loses what its dead weights had. So rows are predicted, where the potential has not clearly fallen, or a sparsifier has
    ``acted``; of data in memory, and likelihoods with a `baseline`.
    """
    y, steps = getattr(data, "y", None), fit.losses.shape[-1]
    if fit.interrupted or steps < FEWEST_STEPS or not in_memory(y):
        return
    with jax.transfer_guard("allow"):  # rows at a stride, for one message
        rows = np.linspace(0, len(y) - 1, min(ROWS, len(y))).astype(int)
        shown = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], Dataset(data.x, y))  # type: ignore[attr-defined]
        blind = baseline(bnn.likelihood, shown.y)
        if blind is None:
            return
        losses, twentieth = np.asarray(fit.losses).reshape(-1, steps), max(1, steps // 20)
        fell = (losses[:, :twentieth].mean(1) - losses[:, -twentieth:].mean(1)).min()
        if fell > SHARE * abs(blind) * len(y) / len(rows) and not acted:
            return
        nll = float(evaluate(rng_key, bnn, fit.params, shown, mask=fit.mask or None)["nll"])
    if (blind / len(rows) - nll) * len(y) < LEAST:
        warnings.warn(
            f"The networks that were kept predict the data with {nll:.4g} nats a row, no better than predicting without the "
            f"inputs, {blind / len(rows):.4g}: the chain has not learnt, or has died. Give the kernel a larger step_size=, or "
            "start from a trained network, init=fit_svi(...) with posterior='map'; cut later or less, or take a wider prior.",
            UserWarning,
            stacklevel=3,
        )
