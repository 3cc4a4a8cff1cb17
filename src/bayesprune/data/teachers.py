"""Teacher networks whose targets a student of the same shape can learn exactly: Simulation I of Bai, Song & Cheng (2020).

A is dense, 20-6-6-1 with the logistic function, every kernel and bias uniform on (0, 1), a new teacher for every seed. All
its weights are positive, so it hardly bends: over 200 seeds the signal's variance is 0.007 to 0.13 (mean 0.05) against a
noise of 1, and predicting the mean already achieves a root mean squared error of about 1.02.

B is sparse, 100-6-6-1 with tanh. The paper draws its edges in a figure and prints no weights; the ones below are this
project's own: 12 of 642 kernel entries, no biases, five relevant inputs, one of them (x3) through two units of the second
layer. Its signal has variance 13.4 against a noise of 1; 83 % of it is linear in x, and would lose at least 1.0 of it
with any one of the five (x4; half the mean square of what shuffling it changes), so a student has reason to find them all.
Figures for the paper's own B compare in kind, not in digits.

The students of the paper have their teacher's widths and activation, ``hidden=(6, 6)``; so do both of these.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from bayesprune.core import checks
from bayesprune.data import catalogue
from bayesprune.data.truth import Simulation, add_noise, check_counts, generator, parts, uniform

Array = np.ndarray
WIDTHS = {"teacher_a": (20, 6, 6, 1), "teacher_b": (100, 6, 6, 1)}
ROWS = {"teacher_a": 3000, "teacher_b": 500}

# (from, to, weight), counted from 0: the inputs x1 to x5, three hidden units, two above them, the output.
EDGES_B = (
    ((0, 0, 3.0), (1, 0, -2.0), (1, 1, 2.0), (2, 1, 3.0), (3, 2, 2.0), (4, 2, -3.0)),
    ((0, 0, 1.5), (1, 0, 1.5), (1, 1, 1.5), (2, 1, -1.5)),
    ((0, 0, 3.0), (1, 0, 3.0)),
)


class Layer(NamedTuple):
    """One layer of a teacher, h -> h @ kernel + bias: ``kernel`` (in, out), ``bias`` (out,)."""

    kernel: Float64[np.ndarray, "inputs outputs"]
    bias: Float64[np.ndarray, " outputs"]


def teacher(name: str, *, seed: int) -> tuple[Layer, Layer, Layer]:
    """The layers of a teacher, input side first, as `teacher_student` uses them with the same seed.

    Args:
        name: "teacher_a" or "teacher_b".
        seed: a whole number of at least 0; B is the same for all seeds.

    Raises:
        ValueError: the name is unknown, or the seed out of range.

    Example:
        >>> from bayesprune import data
        >>> [layer.kernel.shape for layer in data.teacher("teacher_b", seed=0)]
        [(100, 6), (6, 6), (6, 1)]

    Source: Bai, Song & Cheng (2020), section 6, Simulation I; B's numbers are ours.
    """
    return _layers(_teacher_name(name), generator(seed))


def teacher_student(
    name: str, *, seed: int, num_train: int = 0, num_test: int = 10_000, noise_scale: float = 1.0
) -> Simulation:
    """Targets of a teacher network plus noise, y = W3 σ(W2 σ(W1 x + b1) + b2) + b3 + noise, with x uniform on (-1, 1).

    A: dense, 20-6-6-1, σ logistic. B: sparse, 100-6-6-1, σ = tanh, the first five inputs relevant. The module says more.

    Args:
        name: "teacher_a" or "teacher_b".
        seed: a whole number of at least 0; the same seed gives the same teacher and rows.
        num_train: rows to train on; 0 takes the paper's, 3000 for A and 500 for B.
        num_test: rows to test on.
        noise_scale: standard deviation of the noise, in the target's units; 1 in the paper.

    Raises:
        ValueError: the name is unknown, or a number is out of range.

    Example:
        >>> from bayesprune import data
        >>> sparse = data.teacher_student("teacher_b", seed=0)
        >>> sparse.train.x.shape, sparse.relevant.nonzero()[0].tolist()
        ((500, 100), [0, 1, 2, 3, 4])

    Source: Bai, Song & Cheng (2020), section 6, Simulation I; B's weights are ours.
    """
    name = _teacher_name(name)
    rng = generator(seed)
    num_train = num_train or ROWS[name]
    check_counts(num_train=num_train, num_test=num_test)
    checks.check_not_negative(noise_scale, "noise_scale")
    layers = _layers(name, rng)
    x = uniform(rng, (num_train + num_test, WIDTHS[name][0]))
    y = add_noise(rng, _forward(layers, x.astype(np.float64), np.tanh if name == "teacher_b" else _logistic), noise_scale)
    return parts(x, y, num_train, (layers[0].kernel != 0).sum(axis=1) > 0, np.zeros(0))


def _teacher_name(name: str) -> str:
    known = catalogue.canonical(name)
    checks.check_name("teacher", known, WIDTHS)
    return known


def _layers(name: str, rng: np.random.Generator) -> tuple[Layer, Layer, Layer]:
    shapes = tuple(zip(WIDTHS[name], WIDTHS[name][1:], strict=False))
    if name == "teacher_a":
        first, second, third = (Layer(rng.uniform(size=shape), rng.uniform(size=shape[1])) for shape in shapes)
    else:
        first, second, third = (_sparse(shape, edges) for shape, edges in zip(shapes, EDGES_B, strict=True))
    return first, second, third


def _sparse(shape: tuple[int, int], edges: tuple[tuple[int, int, float], ...]) -> Layer:
    kernel = np.zeros(shape)
    for source, target, weight in edges:
        kernel[source, target] = weight
    return Layer(kernel, np.zeros(shape[1]))


def _forward(layers: tuple[Layer, ...], h: Array, activation: Callable[[Array], Array]) -> Float64[np.ndarray, " rows"]:
    *hidden, last = layers
    for kernel, bias in hidden:
        h = activation(h @ kernel + bias)
    return (h @ last.kernel + last.bias)[:, 0]


def _logistic(z: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-z))
