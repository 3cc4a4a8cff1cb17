"""Ordered classes: one output, and cut points that part the line into classes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import check_integer, check_positive
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import without_inputs
from bayesprune.model.likelihoods.protocol import CLASSES, Named, OutputShape
from bayesprune.model.likelihoods.targets import check_labels, check_shape, observe_rows
from bayesprune.posteriors.samples import DRAWS

REFERENCE = "mccullagh1980regression"
GAPS = "cut_gaps"


@dataclass(frozen=True)
class Ordinal:
    """Ordered labels by the cumulative logit, f of shape (rows, ..., 1), y integers in [0, num_classes) of shape (rows, ...).

      P(y <= k) = sigmoid(c_k - f),    c_1 < ... < c_(K-1)                                         (21.7)

    The K - 2 gaps between cut points are learned with the network, each Gamma(gap_shape, gap_rate) a priori. The cut points
    sum to zero: where they lie together is the network's own bias.

    Args:
        num_classes: K, at least 3.
        gap_shape, gap_rate: of the gaps' prior, whose mean is their quotient, 2; five equally likely classes at f = 0 have gaps
            of about 1.

    Raises:
        ValueError: fewer than three classes; a number that is not positive.

    Source: McCullagh (1980), section 2.
    """

    num_classes: int
    gap_shape: float = 2.0
    gap_rate: float = 1.0

    task: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        check_integer(self.num_classes, "num_classes", 3)
        check_positive(self.gap_shape, "gap_shape")
        check_positive(self.gap_rate, "gap_rate")

    def observe(self, outputs: Array, y: Array | None) -> Any:
        return observe_rows(dist.Categorical(logits=log_probabilities(outputs, self._gaps())), y)

    def guide(self, family: Family) -> None:
        family.positive(GAPS, (self.num_classes - 2,))

    def mean(self, outputs: Array) -> Any:
        """The probabilities of the classes, (rows, ..., num_classes)."""
        return jnp.exp(log_probabilities(outputs, self._gaps()))

    def check(self, y: Array, output_shape: OutputShape) -> None:
        if output_shape[-1] != 1:
            raise ValueError(f"Ordinal needs a network of one output, got {output_shape[-1]}: its cut points make the classes.")
        check_shape(y, output_shape, [output_shape[:-1]], "Ordinal")
        check_labels(y, self.num_classes, "Ordinal", f"Ordinal has {self.num_classes} classes", "write Ordinal({})")

    def read_cut_points(self, params: dict[str, Any]) -> np.ndarray:
        """The cut points, (num_classes - 1,), at the posterior medians of their gaps."""
        if GAPS + DRAWS in params:
            gaps = np.median(np.asarray(params[GAPS + DRAWS]), axis=(0, 1))
        else:
            gaps = np.exp(np.asarray(params[f"{GAPS}_log_loc"]))
        return np.asarray(cut_points(jnp.asarray(gaps)))

    def baseline(self, y: Array) -> float | None:
        """-log likelihood of all labels by the frequencies of the classes, nats (21.11): cut points can be any that are wanted.

        None where all labels are of one class.

        >>> print(round(Ordinal(3).baseline(np.array([0, 0, 0, 1])), 4))
        2.2493
        """
        return without_inputs.of_shares(without_inputs.labels(y)) if without_inputs.varies(np.ravel(y)) else None

    def _gaps(self) -> Any:
        return numpyro.sample(GAPS, dist.Gamma(self.gap_shape, self.gap_rate).expand((self.num_classes - 2,)))


NAMED = {"ordinal": Named((CLASSES,), Ordinal, lambda classes: 1)}


def cut_points(gaps: Array) -> Any:
    """Cut points that sum to zero, (classes - 1,).

    >>> print(cut_points(jnp.array([1.0, 4.0])))
    [-2. -1.  3.]
    """
    points = jnp.concatenate([jnp.zeros(1, gaps.dtype), jnp.cumsum(gaps)])
    return points - jnp.mean(points)


def log_probabilities(outputs: Array, gaps: Array) -> Any:
    """log P(y = k) of every class, from (rows, ..., 1) to (rows, ..., classes).

    As sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - e^(a - b)): a difference of numbers next to 1 has no digits.
    """
    points = cut_points(gaps)
    below, above = jax.nn.log_sigmoid(points - outputs), jax.nn.log_sigmoid(outputs - points)
    none = jnp.zeros_like(outputs)
    between = jnp.concatenate([jnp.zeros(1), jnp.log(-jnp.expm1(-gaps)), jnp.zeros(1)])
    return jnp.concatenate([below, none], -1) + jnp.concatenate([none, above], -1) + between
