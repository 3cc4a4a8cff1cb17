"""Any distribution of NumPyro as a likelihood."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from bayesprune.core.types import Array, ArrayTree, PyTree
from bayesprune.model.families import Family
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.likelihoods.targets import check_shape, elements, observe_rows, one_for_each
from bayesprune.model.shapes import filled

CLASSES = (dist.CategoricalLogits, dist.CategoricalProbs)


@dataclass(frozen=True)
class Custom:
    """Targets of any NumPyro distribution: y ~ fn(outputs), outputs of shape (rows, *output_shape), or a tree of several.

    Args:
        fn: from outputs to a distribution, its first batch axis the rows. It is called on tracers, by JAX.
        learned: name -> prior on positive numbers, of further arguments of ``fn`` that are learned with the network.
        mean_of: from the same arguments to what is predicted; None: the distribution's own mean, or the probabilities of a
            categorical one's classes.

    Networks of one and the same ``fn`` are equal and share what is compiled: write it once, not inside a loop.

    Raises:
        TypeError: ``fn`` or ``mean_of`` is no function of the outputs and the names in ``learned``.
        ValueError: a prior that is none of one positive number.

    Raises (when data come, by ``check``):
        TypeError: ``fn`` gives no distribution.
        ValueError: one whose first batch axis is not the rows, or without a mean and no ``mean_of``; targets of another shape
            or outside the distribution's support.

    Example:
        >>> laplace = Custom(lambda f, scale: dist.Laplace(f[..., 0], scale), learned={"scale": dist.Gamma(2.0, 2.0)})
        >>> laplace.check(np.zeros(5), (1,))
        >>> print(laplace.fn(jnp.ones((5, 1)), 0.5).log_prob(1.0).shape)
        (5,)
    """

    fn: Callable[..., Any]
    learned: Mapping[str, Any] = field(default_factory=dict, hash=False)
    mean_of: Callable[..., Any] | None = None
    heads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.fn) or isinstance(self.fn, dist.Distribution):
            raise TypeError(f"fn must be a function from outputs to a NumPyro distribution, got {type(self.fn).__name__}.")
        for name, prior in self.learned.items():
            if name == "obs" or getattr(prior, "batch_shape", None) != () or prior.support != dist.constraints.positive:
                raise ValueError(
                    f"learned[{name!r}] must be a prior of one positive number under a name other than 'obs', such as "
                    f"dist.Gamma(2.0, 2.0), got {prior!r}."
                )
        _check_call(self.fn, "fn", list(self.learned))
        if self.mean_of is not None:
            _check_call(self.mean_of, "mean_of", list(self.learned))

    def observe(self, outputs: ArrayTree, y: ArrayLike | None) -> Any:
        fn = self.fn(outputs, **self._sampled())
        discrete = y is not None and fn.support.is_discrete
        return observe_rows(fn, jnp.asarray(y, int) if discrete else y)

    def guide(self, family: Family) -> None:
        for name in self.learned:
            family.positive(name)

    def mean(self, outputs: ArrayTree) -> Any:
        return self._mean(outputs, self._sampled())

    def check(self, y: Array, output_shape: OutputShape | Any) -> None:
        zeros, ones = (self._of_two_rows(output_shape, at) for at in (0.0, 1.0))
        shape = tuple(zeros.shape()[1:])
        check_shape(y, output_shape, [shape, *(one_for_each(shape)[:1] if shape else [(1,)])], "Custom")
        limits = jnp.iinfo(jnp.result_type(int))
        if zeros.support.is_discrete and (np.asarray(y, np.float64) > limits.max).any():  # those below have no discrete support
            raise ValueError(
                f"data.y holds {np.max(y):,.0f} for a discrete {type(zeros).__name__}, beyond {limits.dtype}: count in larger "
                "units, or set jax.config.update('jax_enable_x64', True) before anything else."
            )
        if zeros.support.is_discrete and (fractions := np.asarray(y)[np.asarray(y) != np.round(y)]).size:
            raise ValueError(
                f"data.y must hold whole numbers for a discrete {type(zeros).__name__}, got {fractions.flat[0]}: for others "
                "take a distribution of real numbers."
            )
        # What a distribution allows may depend on the outputs; then nobody knows it before the network does.
        if zeros.support == ones.support:
            inside = np.asarray(zeros.support(jnp.asarray(y).reshape((-1, *shape))))
            if not inside.all():
                row = int(np.argwhere(~inside)[0][0])
                raise ValueError(
                    f"data.y is outside the support of {type(zeros).__name__}, {zeros.support}, first in row {row}: "
                    f"{np.asarray(y)[row]}. Repair those rows, or take a distribution that allows them."
                )

    def least_spread(self, num_targets: int) -> float:
        """0: nothing is known of a noise that has a prior."""
        return 0.0

    def event_size(self, output_shape: OutputShape | Any) -> int:
        """How many numbers are drawn together: 1, or of a multivariate law several."""
        return math.prod(elements(self._of_two_rows(output_shape, 0.0)).event_shape)

    def _sampled(self) -> dict[str, Any]:
        return {name: numpyro.sample(name, prior) for name, prior in self.learned.items()}

    def _mean(self, outputs: ArrayTree, values: dict[str, Any]) -> Any:
        if self.mean_of is not None:
            return self.mean_of(outputs, **values)
        fn = self.fn(outputs, **values)
        return fn.probs if isinstance(fn, CLASSES) else fn.mean

    def _of_two_rows(self, output_shape: PyTree, at: float) -> Any:
        """The distribution at outputs that are all the same, if it and its mean are what they must be."""
        outputs, ones = filled(output_shape, 2, at), dict.fromkeys(self.learned, jnp.ones(()))
        fn = self.fn(outputs, **ones)
        if not isinstance(fn, dist.Distribution):
            raise TypeError(f"fn must give a NumPyro distribution, got {type(fn).__name__}.")
        if fn.batch_shape[:1] != (2,):
            raise ValueError(
                f"fn must give a distribution with the rows as its first batch axis, got batch_shape {fn.batch_shape} and "
                f"event_shape {fn.event_shape} for outputs of two rows, {output_shape} each."
            )
        try:
            mean = self._mean(outputs, ones)
        except NotImplementedError:
            mean = jnp.nan
        if jnp.shape(mean)[:1] != (2,) or not bool(jnp.isfinite(mean).all()):
            raise ValueError(f"{type(fn).__name__} has no finite mean of each row: give mean_of=, what is to be predicted.")
        return fn


def _check_call(function: Callable[..., Any], name: str, learned: list[str]) -> None:
    """Refuse a function that cannot be called as ``function(outputs, scale=...)``, by its signature if it has one."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled functions may have none
        return
    wanted = ", ".join(["outputs", *learned])
    try:
        signature.bind(None, **dict.fromkeys(learned))
    except TypeError as error:
        raise TypeError(
            f"{name} must take its arguments by the names in learned=, {name}({wanted}), got {name}{signature}: {error}. "
            f"Write it as lambda {wanted}: ..."
        ) from None
