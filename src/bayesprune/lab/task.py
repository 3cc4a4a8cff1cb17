"""What every method of a comparison is given: rows, a network by its name, steps; and how it trains on them."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune import nets
from bayesprune.core.keys import Key
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue
from bayesprune.infer.svi import fit_svi
from bayesprune.model import select
from bayesprune.model.bnn import BNN
from bayesprune.model.families import Family
from bayesprune.model.likelihoods.categorical import Categorical
from bayesprune.model.prior import Prior
from bayesprune.train.result import FitResult


@dataclass(frozen=True)
class NamedNet:
    """``kind``: "mlp" or "lenet5"; ``hidden``: units of the hidden layers of an MLP."""

    kind: str
    hidden: tuple[int, ...] = ()

    def make(self, num_outputs: int) -> Any:
        """The module."""
        return nets.LeNet5(num_outputs=num_outputs) if self.kind == "lenet5" else nets.MLP(self.hidden, num_outputs)

    def pad(self, data: str) -> int:
        """The side that images are padded to, 0: they stay as they are."""
        return 32 * (self.kind == "lenet5" and data in catalogue.IMAGE_SETS)


def net_of(text: str) -> NamedNet:
    """The network that a text names. Raises `ValueError` for another.

    >>> net_of("mlp-300-100").hidden
    (300, 100)
    """
    if text == "lenet5":
        return NamedNet(text)
    if re.fullmatch(r"mlp(-[1-9]\d*)+", text):
        return NamedNet("mlp", tuple(int(units) for units in text.split("-")[1:]))
    raise ValueError(f'net must be "lenet5", or "mlp" with the units of its hidden layers, "mlp-100-100"; got {text!r}.')


@dataclass(frozen=True, eq=False)
class Task:
    """``train``: rows of classes; ``net``: a module; ``num_steps``: optimiser steps in all, of ``batch_size`` rows each."""

    train: Dataset
    net: Any
    num_steps: int
    batch_size: int

    def bnn(self, prior: Prior | Any, posterior: str | Family = "mean_field", **settings: Any) -> BNN:
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
