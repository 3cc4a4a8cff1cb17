"""Likelihoods: how a network's outputs become a distribution of the targets."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.model.families import Family

OutputShape = tuple[int, ...]  # of one row's outputs, (classes,) or (tokens, classes) say


@runtime_checkable
class Likelihood(Protocol):
    """``observe`` samples "obs" in the model; ``guide`` samples whatever else ``observe`` does; ``mean`` is E[y | outputs].

    Outputs are (rows, *output_shape), and ``check`` refuses targets that cannot be compared with such. A method
    ``metrics(draws, y, params)`` beside these gives the figures of `bayesprune.evaluate`.
    """

    def observe(self, outputs: Any, y: Any) -> Any: ...

    def guide(self, family: Family) -> None: ...

    def mean(self, outputs: Any) -> Any: ...

    def check(self, y: Any, output_shape: OutputShape) -> None: ...


@dataclass(frozen=True)
class Categorical:
    """Class labels: y ~ Categorical(softmax(f)), f of shape (rows, classes), y integers of shape (rows,).

    Or one label for each token of a row, f (rows, tokens, classes) with y (rows, tokens), or for anything else that a row
    has many of: the classes are the last axis, and the log density of a row is the sum of its labels'.
    """

    def observe(self, outputs: Any, y: Any) -> Any:
        return _observe(dist.Categorical(logits=outputs), y)

    def guide(self, family: Family) -> None:
        return None

    def mean(self, outputs: Any) -> Any:
        return jax.nn.softmax(outputs, axis=-1)

    def check(self, y: Any, output_shape: OutputShape) -> None:
        _check_shape(y, output_shape, [output_shape[:-1]], "Categorical")
        if not np.issubdtype(y.dtype, np.integer):
            raise TypeError(
                f"data.y must hold integer class labels for Categorical, got dtype {y.dtype}: cast it, or use Normal."
            )
        low, high, num_outputs = int(y.min()), int(y.max()), output_shape[-1]
        if low < 0 or high >= num_outputs:
            raise ValueError(
                f"data.y holds labels from {low} to {high}, but the network has {num_outputs} outputs: labels must lie in "
                f"[0, {num_outputs}). Renumber the classes, or give the network {high + 1} outputs."
            )


@dataclass(frozen=True)
class Bernoulli:
    """Binary labels: y ~ Bernoulli(sigmoid(f)), f of shape (rows, 1) with y (rows,), or both (rows, outputs).

    Or both of any shape (rows, ...), such as (rows, tokens, outputs); a last axis of one output may be left out of y.
    """

    def observe(self, outputs: Any, y: Any) -> Any:
        return _observe(dist.Bernoulli(logits=_squeeze(outputs)), y)

    def guide(self, family: Family) -> None:
        return None

    def mean(self, outputs: Any) -> Any:
        return jax.nn.sigmoid(_squeeze(outputs))

    def check(self, y: Any, output_shape: OutputShape) -> None:
        _check_shape(y, output_shape, _one_for_each(output_shape), "Bernoulli")
        if not np.isin(np.unique(y), (0, 1)).all():
            raise ValueError("data.y must hold only 0 and 1 for Bernoulli: use Categorical for more classes, Normal for reals.")


@dataclass(frozen=True)
class Normal:
    """Real targets: y ~ N(f, scale²), f of shape (rows, 1) with y (rows,), or both (rows, outputs).

    Or both of any shape (rows, ...), such as (rows, tokens, outputs); a last axis of one output may be left out of y.

    Args:
        scale: the noise's standard deviation in the units of y; None learns it.
        noise_shape, noise_rate: of the learned noise's precision, scale^-2 ~ Gamma(noise_shape, noise_rate); (6, 6) is that of
            Hernández-Lobato & Adams (2015), for standardised targets. It keeps the scale above about sqrt(12 / rows): where
            the noise may be far below one tenth of the target's spread, give a vaguer one, such as (1, 1e-3).
    """

    scale: float | None = None
    noise_shape: float = 6.0
    noise_rate: float = 6.0

    def __post_init__(self) -> None:
        if self.scale is not None and not self.scale > 0:
            raise ValueError(f"scale must be positive (the noise's standard deviation), or None to learn it; got {self.scale}.")
        check_positive(self.noise_shape, "noise_shape")
        check_positive(self.noise_rate, "noise_rate")

    def observe(self, outputs: Any, y: Any) -> Any:
        return _observe(dist.Normal(_squeeze(outputs), self.noise_scale()), y)

    def noise_scale(self) -> Any:
        """The noise's standard deviation, sampled as "noise_precision" where it is learned."""
        if self.scale is not None:
            return self.scale
        return numpyro.sample("noise_precision", dist.Gamma(self.noise_shape, self.noise_rate)) ** -0.5

    def guide(self, family: Family) -> None:
        if self.scale is None:
            family.positive("noise_precision")

    def read_noise_scale(self, params: dict[str, Any]) -> Any:
        """The noise's standard deviation: ``scale``, or the posterior median of the learned one.

        Of networks, "noise_precision" (num_samples,): that of each, (num_samples, 1, 1).
        """
        if self.scale is not None:
            return self.scale
        if "noise_precision" in params:
            return np.asarray(params["noise_precision"])[:, None, None] ** -0.5
        return float(np.exp(-0.5 * np.asarray(params["noise_precision_log_loc"])))

    def mean(self, outputs: Any) -> Any:
        return _squeeze(outputs)

    def check(self, y: Any, output_shape: OutputShape) -> None:
        _check_shape(y, output_shape, _one_for_each(output_shape), "Normal")


def _squeeze(outputs: Any) -> Any:
    """One output per row, or per token, needs no axis."""
    return outputs[..., 0] if outputs.shape[-1] == 1 else outputs


def _observe(fn: Any, y: Any) -> Any:
    """Sample "obs" row by row: several outputs, or tokens, of one row are one event of it, and their log densities a sum."""
    shape = fn.batch_shape
    with numpyro.plate("rows", shape[0]):
        # Reshaped, because y of shape (rows, 1) would broadcast with (rows,) to every pair of rows.
        y = None if y is None else jnp.reshape(y, shape)
        return numpyro.sample("obs", fn.to_event(len(shape) - 1), obs=y)


def _check_shape(y: Any, output_shape: OutputShape, wanted: list[OutputShape], name: str) -> None:
    """Refuse targets whose rows are of none of the shapes ``wanted``."""
    if tuple(y.shape[1:]) not in wanted:
        shapes = " or ".join(_of_rows(shape) for shape in wanted)
        raise ValueError(
            f"data.y has shape {tuple(y.shape)}, but the network's outputs are {_of_rows(output_shape)}, which {name} compares "
            f"with y of shape {shapes}: reshape y, or give the network outputs that fit it."
        )


def _of_rows(shape: OutputShape) -> str:
    return f"({', '.join(map(str, ('rows', *shape)))}{'' if shape else ','})"


def _one_for_each(output_shape: OutputShape) -> list[OutputShape]:
    """Shapes of a row of targets, one for each output."""
    return [output_shape[:-1], output_shape] if output_shape[-1] == 1 else [output_shape]
