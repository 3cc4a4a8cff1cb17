"""What likelihoods of counts have in common: the mean that outputs of zero stand for, and exposures."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.checks import check_positive, unknown_name
from bayesprune.core.given import GivenArray
from bayesprune.core.types import Array
from bayesprune.model.likelihoods.links import rate, softplus_rate
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.likelihoods.targets import check_counts, check_shape, halves, observe_rows, one_for_each, squeeze

KNOWN = "known"
LINKS = {"exp": rate, "softplus": softplus_rate}


def read_start(start: GivenArray | None) -> Any:
    """The mean at outputs of zero, as a number, a tuple of one for each output, or None for 1; others are refused."""
    if start is None:
        return None
    check_positive(start, "start", several=True)
    means = tuple(map(float, np.ravel(np.asarray(start))))
    return means[0] if len(means) == 1 else means


class Counts:
    """Poisson and the negative binomial: frozen dataclasses with the fields below, which add a ``_law`` of the mean."""

    start: Any
    exposure: str | None
    link: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", read_start(self.start))
        if not (self.exposure is None or (isinstance(self.exposure, str) and self.exposure == KNOWN)):
            raise ValueError(
                "exposure must be None, or 'known' where y has a column of exposures beside each of counts, got "
                f"{self.exposure!r}: a number that is the same for all rows belongs to start=."
            )
        if not isinstance(self.link, str) or self.link not in LINKS:
            raise unknown_name("link", str(self.link), LINKS)

    def _law(self, mean: Array, num_outputs: int) -> Any:
        """The distribution of counts with this mean."""
        raise NotImplementedError

    def observe(self, outputs: Array, y: Array | None) -> Any:
        mean = self.mean(outputs)
        if self.exposure is not None and y is not None:
            y, exposure = self.apart(y)
            mean = exposure * mean
        return observe_rows(self._law(mean, outputs.shape[-1]), y)

    def mean(self, outputs: Array) -> Any:
        """start exp f, with exp as (21.1) has it, or start log(1 + exp f) / log 2, (21.34)."""
        means = LINKS[self.link](squeeze(outputs))
        return means if self.start is None else jnp.asarray(self.start, means.dtype) * means

    def apart(self, y: Array) -> tuple[Any, Any]:
        """Counts and known exposures, from y of both."""
        return halves(y)

    def check(self, y: Array, output_shape: OutputShape) -> None:
        name = type(self).__name__
        if isinstance(self.start, tuple) and len(self.start) != output_shape[-1]:
            raise ValueError(f"start must be one number, or one for each of {output_shape[-1]} outputs, got {len(self.start)}.")
        if self.exposure is None:
            check_shape(y, output_shape, one_for_each(output_shape), name)
            return check_counts(y, name)
        check_shape(y, output_shape, [(*output_shape[:-1], 2 * output_shape[-1])], f"{name}(exposure='known')")
        counts, exposures = self.apart(np.asarray(y))
        if not (exposures > 0).all():
            raise ValueError(
                f"the last columns of data.y must hold exposures for {name}(exposure='known'), all positive, got "
                f"{exposures[~(exposures > 0)].flat[0]}: leave out rows in which nothing could be counted."
            )
        return check_counts(counts, name)


def starting_at(likelihood: Any, means: ArrayLike | None) -> Any:
    """A likelihood of counts whose outputs of zero mean about ``means``, where it says nothing; any other as it is.

    >>> from bayesprune.model.likelihoods import Normal, Poisson
    >>> starting_at(Poisson(), 1000.0).start, starting_at(Poisson(start=3.0), 1000.0).start, starting_at(Normal(), 1000.0)
    (1024.0, 3.0, Normal(...))
    """
    if means is None or not hasattr(likelihood, "exposure") or likelihood.start is not None:
        return likelihood
    return replace(likelihood, start=power_of_two(means))


def power_of_two(means: ArrayLike | Sequence[float | int]) -> Any:
    """Means of counts, each as the power of two next to it: nearly the same data then have the same network; 1 of zeros.

    >>> power_of_two([1000.0]), power_of_two([0.0, 3.0])
    (1024.0, (1.0, 4.0))
    """
    means = np.asarray(means, np.float64)
    return read_start(2.0 ** np.round(np.log2(np.where(means > 0, means, 1.0))))
