"""What every method of a comparison is given: rows, a network, steps; and how it trains on them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.keys import Key
from bayesprune.core.types import Dataset
from bayesprune.infer.svi import fit_svi
from bayesprune.model import select
from bayesprune.model.bnn import BNN
from bayesprune.model.families import Family
from bayesprune.model.likelihoods.categorical import Categorical
from bayesprune.train.result import FitResult


@dataclass(frozen=True, eq=False)
class Task:
    """``train``: rows of classes; ``net``: a module; ``num_steps``: optimiser steps in all, of ``batch_size`` rows each."""

    train: Dataset
    net: Any
    num_steps: int
    batch_size: int

    def bnn(self, prior: Any, posterior: str | Family = "mean_field", **settings: Any) -> BNN:
        """The network under a prior. The same weights may be pruned in every method: all kernels, and no bias."""
        given: dict[str, Any] = {
            "likelihood": Categorical(),
            "input_shape": tuple(self.train.x.shape[1:]),
            "prunable": select.kernels,
        }
        return BNN(self.net, prior=prior, posterior=posterior, **given | settings)

    def fit(self, rng_key: Key, bnn: BNN, share: float = 1.0, **settings: Any) -> FitResult:
        """`fit_svi` for a share of the steps."""
        size = min(self.batch_size, len(np.asarray(self.train.y)))
        return fit_svi(rng_key, bnn, self.train, num_steps=self.steps(share), batch_size=size, progress=False, **settings)

    def steps(self, share: float = 1.0) -> int:
        """A share of the steps, at least one."""
        return max(1, round(share * self.num_steps))
