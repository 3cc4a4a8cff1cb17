"""Targets that are missing here and there: what is not observed counts for nothing."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.primitives import Messenger

from bayesprune.core.checks import check_number, check_object
from bayesprune.core.types import Array, ArrayTree
from bayesprune.model.families import Family
from bayesprune.model.likelihoods.learned import guide_of
from bayesprune.model.likelihoods.protocol import Likelihood, OutputShape
from bayesprune.model.likelihoods.targets import elements

NAN = "nan"  # as a name: a number that is not equal to itself would make no two such likelihoods equal


@dataclass(frozen=True)
class Masked:
    """Another likelihood, of targets some of which are missing: padded tokens, outputs that were not measured in every row.

      log p(y | f) = sum over what is observed of log p(y_ij | f_ij)

    The bound of a fit, the noise that is learned or refitted, and the figures of `bayesprune.evaluate` are of what is observed.
    Predictions are made everywhere.

    Args:
        likelihood: of what is observed. Of one whose targets are events of several numbers, such as a multivariate normal, an
            event counts where all of it is observed.
        missing: what y holds where nothing was observed: NaN, or a number such as -1 or -100. Labels may be real numbers
            where NaN is among them.

    Raises:
        ValueError: ``likelihood`` is masked already.
        TypeError: ``likelihood`` is none, or ``missing`` no number.

    Example:
        >>> from bayesprune.model.likelihoods import Categorical, Normal
        >>> Masked(Categorical(), missing=-1).check(np.array([[0, 2, -1], [1, -1, -1]]), (3, 3))
        >>> masked = Masked(Normal())
        >>> masked, masked.observed(np.array([[1.0, np.nan], [2.0, 3.0]])).tolist()
        (Masked(likelihood=Normal(...), missing='nan'), [1.0, 2.0, 3.0])
    """

    likelihood: Any
    missing: float | int | str = NAN

    task = "other"  # code that does not know of missing targets has no figures of them

    def __post_init__(self) -> None:
        check_object(self.likelihood, "likelihood", ("observe", "guide", "mean", "check"), "bp.likelihoods.Categorical()")
        if isinstance(self.likelihood, Masked):
            raise ValueError("likelihood is masked already: write Masked once, and one number for all that is missing.")
        if not (isinstance(self.missing, str) and self.missing == NAN):
            check_number(self.missing, "missing")
            # A number of Python's: NumPy's are of a precision, in which those of single precision are others.
            number = np.asarray(self.missing).item()
            object.__setattr__(self, "missing", NAN if math.isnan(number) else number)

    @property
    def heads(self) -> bool:
        """Whether outputs may be a tree of several arrays."""
        return bool(getattr(self.likelihood, "heads", False))

    @property
    def takes_nan(self) -> bool:
        """Whether NaN in y has a meaning."""
        return self.missing == NAN

    def present(self, y: Array) -> Any:
        """Which entries of y, known noise and exposures left out, are observed: booleans of their shape."""
        targets = self._targets(y if hasattr(y, "dtype") else np.asarray(y))
        if self.missing != NAN:
            return targets != self.missing
        return targets == targets  # NaN alone is not equal to itself; whole numbers all are

    def observed(self, y: Array) -> np.ndarray:
        """The targets that are observed, one after another."""
        y = np.asarray(y)
        return self._targets(y)[self.present(y)]  # type: ignore[no-any-return]

    def counted(self, y: Array, output_shape: OutputShape | Any) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of y count, booleans, and their targets one after another.

        Those that are observed; of an event of several numbers all, where all of it is observed, and else none.
        """
        y = np.asarray(y)
        targets, present = self._targets(y), np.asarray(self.present(y))
        if hasattr(self.likelihood, "event_size"):
            size = self.likelihood.event_size(output_shape)
            present = np.repeat(present.reshape((-1, size)).all(axis=1), size).reshape(present.shape)
        return present, targets[present]

    def observe(self, outputs: ArrayTree, y: Array | None) -> Any:
        if y is None:
            return self.likelihood.observe(outputs, None)
        with _Only(self.present(y)):
            return self.likelihood.observe(outputs, self.filled(y))

    def guide(self, family: Family, output_shape: OutputShape = (1,)) -> None:
        guide_of(self.likelihood, family, output_shape)

    def mean(self, outputs: ArrayTree) -> Any:
        return self.likelihood.mean(outputs)

    def check(self, y: Array, output_shape: OutputShape) -> None:
        y = np.asarray(y)
        if not self.observed(y).size:
            raise ValueError(f"data.y holds no target at all: every entry is missing, {self.missing}. Look at the selection.")
        self.likelihood.check(self.filled(y), output_shape)

    def baseline(self, y: Array) -> float | None:
        """That of what is observed, of labels and of single columns; None of several outputs, observed in other rows each."""
        of_observed = getattr(self.likelihood, "baseline", None)
        pooled = self._labels or np.ndim(y) == 1 or np.shape(y)[-1] == 1
        return of_observed(self._typed(self.observed(y))) if callable(of_observed) and pooled and not self._apart else None

    def filled(self, y: Array) -> Any:
        """y with a target that the likelihood takes in the place of every missing one; all that is computed is finite."""
        entries = y == y if self.missing == NAN else y != self.missing
        xp = np if isinstance(y, np.ndarray) else jnp
        if self._apart and y.shape[-1] % 2 == 0:  # beside a target that is observed its noise, or exposure, is what it says
            present, others = xp.split(entries, 2, axis=-1)
            entries = xp.concatenate([present, present | others], axis=-1)
        flat = xp.ravel(entries)
        # Beside noise or exposures 1 is a target, a scale and an exposure; else an observed one, of whatever support.
        one = xp.asarray(1, y.dtype) if self._apart else xp.ravel(y)[xp.argmax(flat)]
        floats = jnp.issubdtype(y.dtype, jnp.floating)
        fallback = xp.asarray(0.5 if floats and not self._apart else self._apart, y.dtype)
        return self._typed(xp.where(entries, y, xp.where(flat.any(), one, fallback)))

    @property
    def _apart(self) -> bool:
        """Whether y has further columns, of known noise or exposures."""
        return bool(getattr(self.likelihood, "known", False)) or getattr(self.likelihood, "exposure", None) is not None

    def _targets(self, y: Array) -> Any:
        """What of y are targets."""
        return self.likelihood.apart(y)[0] if self._apart else y

    @property
    def _labels(self) -> bool:
        return getattr(self.likelihood, "task", "other") == "classes"

    def _typed(self, y: Array) -> Any:
        """Labels are whole numbers, also where NaN among them made them real; fractions stay, and are refused as such."""
        if not self._labels or not jnp.issubdtype(y.dtype, jnp.floating):
            return y
        if isinstance(y, np.ndarray) and (y != np.round(y)).any():
            return y
        return y.astype(np.int32)


def of_observed(likelihood: Likelihood) -> Any:
    """The likelihood of what is observed.

    >>> from bayesprune.model.likelihoods import Poisson
    >>> of_observed(Masked(Poisson())) == of_observed(Poisson()) == Poisson()
    True
    """
    return likelihood.likelihood if isinstance(likelihood, Masked) else likelihood


class _Only(Messenger):  # type: ignore[misc]
    """Takes the log density of "obs" where ``present`` says so, entry by entry, before those of a row are added up."""

    def __init__(self, present: Array) -> None:
        self.present = present
        super().__init__()

    def process_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] != "sample" or msg["name"] != "obs":
            return
        fn = elements(msg["fn"])
        shape = fn.batch_shape
        of_events = jnp.reshape(self.present, (*shape, -1)).all(-1)
        msg["fn"] = fn.mask(of_events).to_event(len(shape) - 1)
