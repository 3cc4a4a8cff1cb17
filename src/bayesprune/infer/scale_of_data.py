"""A warning before the fit of data far from unit scale: starts, learning rates and priors are made for numbers of about 1."""

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.numbers import is_constant
from bayesprune.core.types import PyTree
from bayesprune.infer.end_of_fit import is_held_back
from bayesprune.model.bnn import BNN
from bayesprune.model.inputs import Inputs
from bayesprune.model.likelihoods import Custom, Masked, NegativeBinomial, Poisson
from bayesprune.model.program import Trainable
from bayesprune.structure.untouched import untouched
from bayesprune.train.sources.by_row import shared_mapping

# Measured by fits of 1,000 steps under the default course, of an MLP to digits and to diabetes. With x at root mean square 60
# the bound of digits is about that of predicting without inputs (3,225 nats of 3,311; 1,427 with x at 1), that of diabetes
# worse; at 1,000 predictions suffer, too. 60 also parts bytes from tables: MNIST has 75 in frames of 32 x 32 and CIFAR-10 136,
# percentages spread evenly from 0 to 100 have 58, ages about 40. At 1e-3 nothing is learnt, at 1e-2 most is.
LARGE_X, SMALL_X = 60.0, 3e-3
# Of digits standardised by one number 98 % are right after 1,500 steps, where each has 3 added 85 and 69 % (two keys),
# with 10 none. Of diabetes the bound is 84 nats above that of predicting without inputs, with 3 added 72, with 10 it is 13.
# Bytes and percentages, spread evenly from 0 up, have 1.7. Between 1.7 and 3 nothing was measured: 2.5 is a choice.
OFFSET_X = 2.5
# Of 2,000 steps: noise that starts at 1 does not reach 30 (nll 1.1 nats a row above the best), nor an output a mean of 30
# (0.7).
LARGE_Y, SMALL_Y = 30.0, 1e-3

FEWEST_ROWS = 8  # of which columns have means and standard deviations
MOST_ROWS, MOST_NUMBERS, MOST_BYTES = 1_000, 1 << 17, 1 << 26


class _Far(NamedTuple):
    """An array far from unit scale: its name, the figure that says so, and the call that mends it."""

    name: str
    figure: str
    remedy: str


def warn_of_scale(program: Trainable, data: object) -> None:
    """Warn, once, where x or y is far from unit scale and the program does nothing about it.

    Of x, or of any array of a tree: sqrt(mean x²) above 60, or below 3e-3 over the entries that are not 0, so that one-hot rows
    are not small; or a mean more than 2.5 standard deviations from zero. Of y: max(|mean|, standard deviation) above 30, or a
    standard deviation below 1e-3, or below (21.14) where the noise is learned; that of a constant y is 0 whatever it is divided
    by, and not small. Of counts: a mean above 30, or the mean of rates, where the likelihood has no ``start``. Figures are
    those of at most 1,000 rows, evenly spaced; a number of x that makes the first one by itself is found in any row.

    Nothing is said of whole numbers and booleans, of bytes with ``scaling=``, or of rows that the net divides, shifts or
    normalises before a weight meets them; nor of targets whose likelihood has no ``least_spread``, such as labels and
    shares, or of whole ones under `Custom`. Of a hand-written program the floats in x are looked at, and nothing else is known.
    Data without fields x and y, and arrays of more than 64 MiB on an accelerator, are not looked at.

    >>> import bayesprune as bp
    >>> bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(2,))
    >>> x = np.tile([[-1.0, 1.0], [1.0, -1.0]], (25, 1))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_scale(bnn, bp.Dataset(x, x[:, 0]))
    ...     warn_of_scale(bnn, bp.Dataset(1e4 * x, x[:, 0]))
    >>> print(*(one.message for one in caught))
    data.x has root mean square 1e+04: ... bp.data.fit_scaling(data.x).apply(data.x).
    """
    if not is_held_back() and (said := far_from_unit_scale(program, data)):
        warnings.warn(said, UserWarning, stacklevel=3)


def far_from_unit_scale(program: Trainable, data: object) -> str:
    """What `warn_of_scale` says; "" where there is nothing to say."""
    if isinstance(data, type) or not (hasattr(data, "x") and hasattr(data, "y")):
        return ""
    if not (far := [*_far_inputs(program, data.x), *_far_targets(program, data.y)]):
        return ""
    return (
        f"{' and '.join(f'{one.name} has {one.figure}' for one in far)}: starts, learning rates and priors are made for "
        "numbers of about 1, either side of zero, and fits of others are slow, fail, or have a poor bound. Standardise, "
        f"training and test rows alike: {'; '.join(one.remedy for one in far)}."
    )


def _far_inputs(program: Trainable, x: PyTree) -> list[_Far]:
    inputs = getattr(program, "inputs", None)
    if getattr(inputs, "scaling", None) is not None:
        return []
    leaves = jax.tree_util.tree_leaves_with_path(x, is_leaf=lambda node: isinstance(node, list))
    far: dict[int, _Far] = {}
    for place, (path, leaf) in enumerate(leaves):
        values = _looked_at(leaf)
        whole = values is not None and not jnp.issubdtype(values.dtype, jnp.floating)
        if values is None or (whole if inputs is None else _takes_whole(inputs, place)):
            continue
        squares = np.square(values.astype(np.float64))
        size = max(math.sqrt(squares.mean()), _of_the_largest(leaf))
        of_nonzero = math.sqrt(squares.sum() / max(1, np.count_nonzero(squares)))
        name = f"data.x{jax.tree_util.keystr(path)}"
        if size > LARGE_X or 0.0 < of_nonzero < SMALL_X:
            far[place] = _Far(name, f"root mean square {size:.2g}", _remedy(name, values, program))
        elif (offset := _offset(values)) > OFFSET_X:
            figure = f"a mean that is {offset:.2g} standard deviations from zero"
            far[place] = _Far(name, figure, _remedy(name, values, program))
    if far and inputs is not None:
        # Only now: to trace the net takes longer than to look at the data.
        network = cast(BNN, program)
        met = untouched(network.jaxpr(), len(network.layout))
        far = {place: one for place, one in far.items() if place < len(met) and met[place]}
    return list(far.values())


def _offset(values: np.ndarray) -> float:
    """How far means are from zero in standard deviations: of a table by root mean squares over columns that vary, of all else
    of all numbers together, as they are scaled."""
    columns = values.reshape((len(values), -1) if values.ndim < 3 else (-1, 1))
    columns = columns[:, ~is_constant(columns)].astype(np.float64)
    if len(columns) < FEWEST_ROWS or not columns.size:
        return 0.0
    return float(np.linalg.norm(columns.mean(0)) / np.linalg.norm(columns.std(0)))


def _takes_whole(inputs: Inputs, place: int) -> bool:
    """Whether the network takes whole numbers or booleans there, which have no scale."""
    return place >= len(inputs.leaves) or inputs.leaves[place][1] != "float32"


def _remedy(name: str, values: np.ndarray, program: Trainable) -> str:
    if values.dtype == np.uint8 and getattr(getattr(program, "inputs", None), "is_array", False):
        return "BNN(..., scaling=bp.data.Scaling(0.0, 255.0))"
    if values.ndim > 2:  # one scale for all pixels: those that are nearly constant have none of their own
        return f"bp.data.Scaling({name}.mean(), {name}.std()).apply({name})"
    return f"bp.data.fit_scaling({name}).apply({name})"


def _far_targets(program: Trainable, y: PyTree) -> Iterator[_Far]:
    likelihood = getattr(program, "likelihood", None)
    if isinstance(likelihood, Masked):
        if (looked := _looked_at(y)) is None or looked.shape != likelihood.present(looked).shape:
            return
        likelihood, y = likelihood.likelihood, likelihood.observed(looked)
    if isinstance(likelihood, Poisson | NegativeBinomial):
        yield from _far_counts(likelihood, y)
    least_spread = getattr(likelihood, "least_spread", None)
    if least_spread is None or (found := _looked_at(y)) is None:
        return
    known = getattr(likelihood, "known", False)
    found = likelihood.apart(found)[0] if known else found  # type: ignore[union-attr]
    values = found.astype(np.float64)
    if isinstance(likelihood, Custom) and bool((values == np.round(values)).all()):  # perhaps labels or counts
        return
    mean, spread = float(values.mean()), 0.0 if is_constant(found.ravel()) else float(values.std())
    if abs(mean) > max(LARGE_Y, spread):
        figure = f"mean {mean:.2g}"
    elif spread > LARGE_Y or 0.0 < spread < max(SMALL_Y, least_spread(math.prod(np.shape(y)))):
        figure = f"standard deviation {spread:.2g}"
    else:
        return
    if known:
        yield _Far("data.y", figure, "shift and divide the targets, and divide the scales of their noise by the same number")
        return
    yield _Far("data.y", figure, "bp.data.fit_scaling(data.y).apply(data.y), whose undo takes predictions back")


def _far_counts(likelihood: Poisson | NegativeBinomial, y: PyTree) -> Iterator[_Far]:
    """Counts, or their rates under known exposures, far from what outputs of zero mean."""
    if likelihood.start is not None or (found := _looked_at(y)) is None:
        return
    counts, exposure = likelihood.apart(found) if likelihood.exposure is not None else (found, np.ones(1))
    mean = float(counts.astype(np.float64).mean() / exposure.astype(np.float64).mean())
    if mean > LARGE_Y:
        kind = type(likelihood).__name__
        yield _Far("data.y", f"counts of mean {mean:.2g}", f"counts stay what they are: likelihoods.{kind}(start={mean:.2g})")


def _looked_at(array: PyTree) -> np.ndarray | None:
    """Evenly spaced rows of an array of finite real numbers, on the host; None of anything else. Files are not read whole."""
    if isinstance(array, jax.Array):
        if (array := _on_host(array)) is None:
            return None
    elif not isinstance(array, list) and not (hasattr(array, "shape") and hasattr(array, "__getitem__")):
        return None
    shape = (len(array),) if isinstance(array, list) else tuple(array.shape)
    if 0 in shape or not shape:
        return None
    most = min(MOST_ROWS, max(8, MOST_NUMBERS // math.prod(shape[1:])))
    values = np.asarray(array[:: -(-shape[0] // most)])
    real = jnp.issubdtype(values.dtype, jnp.floating) or jnp.issubdtype(values.dtype, jnp.integer)
    return values if real and values.size else None


def _of_the_largest(array: PyTree) -> float:
    """What the largest number alone makes of the root mean square: the rows that are looked at may miss a lone one.

    Of arrays that the host holds in memory; files are not read whole.
    """
    array = _on_host(array) if isinstance(array, jax.Array) else array
    if type(array) is not np.ndarray or shared_mapping(array) is not None or not array.size or array.dtype.kind != "f":
        return 0.0
    return max(float(array.max()), -float(array.min())) / math.sqrt(array.size)


def _on_host(array: jax.Array) -> np.ndarray | None:
    """The array itself where the host holds it, a copy where that is small; a slice would be compiled."""
    if not array.is_fully_addressable:
        return None
    here = len(array.devices()) == 1 and next(iter(array.devices())).platform == "cpu"
    return np.asarray(array) if here or array.nbytes <= MOST_BYTES else None
