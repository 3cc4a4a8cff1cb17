"""Class labels, with weights of the classes and smoothing of the labels where the loss is to have them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.checks import check_not_negative, check_within
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import without_inputs
from bayesprune.model.likelihoods.protocol import CLASSES, Named, OutputShape
from bayesprune.model.likelihoods.targets import check_labels, check_shape, observe_rows

REFERENCE = "szegedy2016rethinking"


@dataclass(frozen=True)
class Categorical:
    """Class labels: y ~ Categorical(softmax(f)), f of shape (rows, classes), y integers of shape (rows,).

    Or one label for each token of a row, f (rows, tokens, classes) with y (rows, tokens), or for anything else that a row
    has many of: the classes are the last axis, and the log density of a row is the sum of its labels'.

    Args:
        class_weights: how much a label of each class counts; None: once. `balanced` makes them of labels.
        label_smoothing: the share epsilon of every label that is spread evenly over all K classes.

    With either, what is trained is no log density of y but the loss that is usual (21.2),

      log p(y) = sum_c w_c ((1 - epsilon) [c = y] + epsilon / K) log softmax(f)_c

    and the posterior that of evidence which is counted so. Predictions and figures are of softmax(f), each row counting once.

    Raises:
        ValueError: weights that are negative or not finite, or all zero; ``label_smoothing`` outside [0, 1).

    Example:
        >>> Categorical.balanced(np.array([0, 0, 0, 1])).class_weights
        (0.6666666666666666, 2.0)

    Source: Szegedy et al. (2016), Rethinking the Inception architecture, section 7, for the smoothing.
    """

    class_weights: Sequence[float] | Any = None
    label_smoothing: float = 0.0

    task: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        if isinstance(self.class_weights, str):
            raise ValueError(f"class_weights must be numbers, got {self.class_weights!r}: write Categorical.balanced(y).")
        if self.class_weights is not None:
            weights = np.asarray(self.class_weights)
            numbers = weights if np.iscomplexobj(weights) else weights.astype(np.float64)
            check_not_negative(numbers, "class_weights", several=True)
            if not weights.any():
                raise ValueError("class_weights are all 0, and no label would count: leave them out, or weigh one class.")
            object.__setattr__(self, "class_weights", tuple(map(float, np.ravel(weights))))
        check_within(self.label_smoothing, "label_smoothing", "[0, 1)", "0.1 is usual")

    @classmethod
    def balanced(cls, y: Array, label_smoothing: float = 0.0) -> "Categorical":
        """Every class counts the same in sum: w_c = rows / (classes rows_c), and all rows together as many as there are."""
        rows = np.bincount(np.ravel(np.asarray(y)))
        if (rows == 0).any():
            raise ValueError(f"y holds no label of class {int(np.argmin(rows))}, which has no weight: renumber the classes.")
        return cls(rows.sum() / (len(rows) * rows), label_smoothing)

    def observe(self, outputs: Array, y: Array | None) -> Any:
        if self.class_weights is None and not self.label_smoothing:
            return observe_rows(dist.Categorical(logits=outputs), y)
        classes = outputs.shape[-1]
        weights = jnp.ones(classes) if self.class_weights is None else jnp.asarray(self.class_weights)
        return observe_rows(WeighedLabels(outputs, weights, self.label_smoothing), y)

    def guide(self, family: Family) -> None:
        return None

    def mean(self, outputs: Array) -> Any:
        return jax.nn.softmax(outputs, axis=-1)

    def check(self, y: Array, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, [output_shape[:-1]], "Categorical")
        classes = output_shape[-1]
        check_labels(y, classes, "Categorical", f"the network has {classes} outputs", "give the network {} outputs")
        if self.class_weights is not None and len(self.class_weights) != output_shape[-1]:
            raise ValueError(
                f"class_weights must be as many as the network's outputs, {output_shape[-1]}, got {len(self.class_weights)}."
            )

    def baseline(self, y: Array) -> float | None:
        """-log likelihood of all labels by the frequencies of the classes, nats (21.11); None where all are of one class.

          N H(n_1 / N, ..., n_K / N)

        With weights or smoothing, of the masses m_c = w_c ((1 - epsilon) n_c + epsilon N / K) in the place of n_c: the least of
        (21.2). Classes after the last one that has a label or a weight are taken not to be there.

        >>> print(round(Categorical().baseline(np.array([0, 0, 0, 1])), 4))
        2.2493
        """
        if not without_inputs.varies(np.ravel(y)):
            return None
        weights = np.ones(1) if self.class_weights is None else np.array(self.class_weights)
        counts = without_inputs.labels(y, len(weights))
        spread = self.label_smoothing * counts.sum() / len(counts)
        return without_inputs.of_shares(weights * ((1.0 - self.label_smoothing) * counts + spread))


NAMED = {"categorical": Named((CLASSES,), lambda classes: Categorical(), default_of=(CLASSES,))}


class WeighedLabels(dist.CategoricalLogits):
    """Labels drawn by softmax(logits), and the weighted and smoothed loss in the place of their log density."""

    pytree_data_fields = ("weights",)
    pytree_aux_fields = ("smoothing",)

    def __init__(self, logits: Array, weights: Array | None, smoothing: float) -> None:
        self.weights, self.smoothing = weights, smoothing
        super().__init__(logits)

    def log_prob(self, value: Array) -> Any:
        """(21.2)"""
        classes = self.logits.shape[-1]
        target = (1.0 - self.smoothing) * jax.nn.one_hot(value, classes) + self.smoothing / classes
        return jnp.sum(self.weights * target * jax.nn.log_softmax(self.logits, axis=-1), axis=-1)
