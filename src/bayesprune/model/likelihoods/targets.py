"""Targets: their shapes, their rows as events, and the errors for those that a likelihood cannot take."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, Independent

from bayesprune.core.types import Array
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.shapes import is_shape

LARGEST = 2**24  # up to which single precision has every whole number


def squeeze(outputs: Array) -> Any:
    """One output per row, or per token, needs no axis."""
    return outputs[..., 0] if outputs.shape[-1] == 1 else outputs


def halves(columns: Array) -> tuple[Any, Any]:
    """The first half of the columns and the second, such as targets and what is known of each."""
    count = columns.shape[-1] // 2
    return squeeze(columns[..., :count]), squeeze(columns[..., count:])


def elements(fn: Distribution) -> Any:
    """The distribution of the single targets, below those that one row makes an event of."""
    return elements(fn.base_dist) if isinstance(fn, Independent) else fn


def observe_rows(fn: Distribution, y: ArrayLike | None) -> Any:
    """Sample "obs" row by row: several outputs, or tokens, of one row are one event of it, and their log densities a sum."""
    shape = fn.batch_shape
    with numpyro.plate("rows", shape[0]):
        # Reshaped, because y of shape (rows, 1) would broadcast with (rows,) to every pair of rows.
        y = None if y is None else jnp.reshape(y, (*shape, *fn.event_shape))
        return numpyro.sample("obs", fn.to_event(len(shape) - 1), obs=y)


def check_shape(y: Array, output_shape: OutputShape | Any, wanted: list[OutputShape], name: str) -> None:
    """Refuse targets whose rows are of none of the shapes ``wanted``."""
    if tuple(y.shape[1:]) not in wanted:
        shapes = " or ".join(_of_rows(shape) for shape in wanted)
        raise ValueError(
            f"data.y has shape {tuple(y.shape)}, but the network's outputs are {_of_rows(output_shape)}, which {name} compares "
            f"with y of shape {shapes}: reshape y, or give the network outputs that fit it."
        )


def one_for_each(output_shape: OutputShape) -> list[OutputShape]:
    """Shapes of a row of targets, one for each output."""
    return [output_shape[:-1], output_shape] if output_shape[-1] == 1 else [output_shape]


def check_labels(y: Array, num_classes: int, name: str, whose: str, remedy: str) -> None:
    """Refuse what is no integer label in [0, num_classes). ``whose`` are the classes; ``remedy``: {} is how many are needed."""
    if not np.issubdtype(y.dtype, np.integer):
        raise TypeError(
            f"data.y must hold integer class labels for {name}, got dtype {y.dtype}: cast it, or use Normal for real targets."
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"data.y holds labels from {low} to {high}, but {whose}: labels must lie in "
            f"[0, {num_classes}). Renumber the classes, or {remedy.format(high + 1)}."
        )


def check_counts(y: Array, name: str) -> None:
    """Refuse what is no whole number from 0."""
    values = np.asarray(y)
    wrong = (values < 0) | (values != np.round(values))
    if values.size and values.max() > LARGEST and not jax.config.values["jax_enable_x64"]:
        raise ValueError(
            f"data.y holds a count of {values.max():,.0f} for {name}, and single precision does not have all whole numbers "
            f"above {LARGEST:,}: model the logarithms of the counts by Normal, or set "
            "jax.config.update('jax_enable_x64', True) before anything else."
        )
    if wrong.any():
        raise ValueError(
            f"data.y must hold counts, whole numbers from 0, for {name}, got {values[wrong].flat[0]}: do not standardise "
            "counts; for other numbers use Normal or StudentT."
        )


def _of_rows(shape: OutputShape | Any) -> str:
    if not is_shape(shape):
        return f"several, of shapes {shape} for each row"
    return f"({', '.join(map(str, ('rows', *shape)))}{'' if shape else ','})"
