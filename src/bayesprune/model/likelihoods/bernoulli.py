"""Yes or no: binary labels, one or several of a row."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import without_inputs
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.likelihoods.targets import check_shape, observe_rows, one_for_each, squeeze


@dataclass(frozen=True)
class Bernoulli:
    """Binary labels: y ~ Bernoulli(sigmoid(f)), f of shape (rows, 1) with y (rows,), or both (rows, labels).

    Several labels of a row are independent given the network (multi-label classification). Or both of any shape (rows, ...),
    such as (rows, tokens, labels); a last axis of one output may be left out of y.
    """

    task: ClassVar[str] = "binary"

    def observe(self, outputs: Array, y: Array | None) -> Any:
        return observe_rows(dist.Bernoulli(logits=squeeze(outputs)), y)

    def guide(self, family: Family) -> None:
        return None

    def mean(self, outputs: Array) -> Any:
        return jax.nn.sigmoid(squeeze(outputs))

    def check(self, y: Array, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, one_for_each(output_shape), "Bernoulli")
        if not np.isin(np.unique(y), (0, 1)).all():
            raise ValueError("data.y must hold only 0 and 1 for Bernoulli: use Categorical for more classes, Normal for reals.")

    def baseline(self, y: Array) -> float | None:
        """-log likelihood of all labels by the share of ones of each, sum_j N H(p_j), nats (21.11); None where none varies.

        >>> print(round(Bernoulli().baseline(np.array([[0, 1], [0, 1], [0, 0], [1, 0]])), 4))
        5.0219
        """
        if not without_inputs.varies(y):
            return None
        of_label = without_inputs.columns(y).T
        return sum(without_inputs.of_shares([one.sum(), (1.0 - one).sum()]) for one in of_label)
