"""What `bayesprune.evaluate` asks of a compact network's likelihood."""

import math
from typing import Any

import numpy as np

from bayesprune.deploy.program.weights import Draws, Law
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Normal
from bayesprune.posteriors.samples import count, draws_of, spread_out

TASKS = ("classes", "binary", "numbers")  # of a likelihood, whose figures come from E[y | x, w] and one noise


def task_of(bnn: BNN) -> str:
    """Which figures a compact network has: of classes, of binary targets, of numbers with one noise, or "other": none."""
    task = getattr(bnn.likelihood, "task", "other")
    return task if task in TASKS and not hasattr(bnn.likelihood, "metrics") else "other"


def noise_scale_of(bnn: BNN, params: dict[str, Any], law: Law) -> Any:
    """Of Gaussian noise: one number, or (1, 1, outputs); of stored networks (networks, 1, 1 or outputs), in the law's order."""
    if not isinstance(bnn.likelihood, Normal) or task_of(bnn) != "numbers":
        return None
    if not draws_of(params):
        found = np.asarray(bnn.likelihood.read_noise_scale(params))
        return found.reshape((1, 1, -1)) if found.ndim else float(found)
    number = law.num_draws if isinstance(law, Draws) else math.prod(count(params))
    scale = bnn.likelihood.read_noise_scale(spread_out(params, number))
    if isinstance(law, Draws) or np.ndim(scale) == 0:
        return scale
    median = np.median(scale, axis=0, keepdims=True)
    return median if median.size > 1 else float(median.item())
