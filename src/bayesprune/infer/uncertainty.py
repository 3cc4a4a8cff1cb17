"""How unsure a prediction is, taken apart: what more data would tell, and what no data would."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import xlogy

from bayesprune.core.checks import check_key
from bayesprune.core.given import RandomKey
from bayesprune.core.numbers import rows_in
from bayesprune.core.types import Mask, PyTree, Standalone
from bayesprune.infer.observed import draws_of_targets, kind_of
from bayesprune.infer.predict import check_inputs, part_of, predict_draws, standalone
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods.targets import squeeze
from bayesprune.model.shapes import is_shape

NUMBERS = 2**24  # of all networks that are held at once
REFERENCE = "depeweg2018decomposition"


class Uncertainty(NamedTuple):
    """``total = aleatoric + epistemic``, each (rows, ...), of labels in nats, of numbers in the square of y's unit.

    ``aleatoric``: what is left where the network is known, the noise of the targets. ``epistemic``: what comes of not knowing
    the network; more data lessen it.
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def uncertainty(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | Any,
    x: PyTree,
    *,
    mask: dict[str, Any] | Any = None,
    num_samples: int = 100,
) -> Uncertainty:
    """The uncertainty of the prediction of each row, in two parts that add up.

    Of labels, with H the entropy in nats (21.15), epistemic is the mutual information of label and network:

      H(E_w p(y | x, w)) = E_w H(p(y | x, w)) + I(y; w | x)

    Of numbers, the law of total variance (21.16):

      Var[y | x] = E_w Var[y | x, w] + Var_w E[y | x, w]

    Args:
        rng_key, bnn, params, x, mask, num_samples: as of `predict`, a `Compact` with ``params`` None too. Of few networks the
            epistemic part is too small: of S, by a factor of about 1 - 1/S.

    Returns:
        An `Uncertainty` of arrays (rows,); (rows, labels) or (rows, targets) of several; (rows, tokens, ...) of tokens. A
        variance that is infinite, as of Student's t with df <= 2, makes total and aleatoric infinite.

    Raises:
        TypeError: a likelihood that says neither probabilities nor a mean and variance of its targets, such as one whose noise
            is known for the rows of training alone; then see `predict_draws`. A `Compact` that holds no distribution of y.
        ValueError: as of `predict`.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=2, batch_size=64)
        >>> parts = bp.uncertainty(jax.random.key(1), bnn, fit.params, test.x, num_samples=10)
        >>> parts.total.shape == (len(test.x),), bool(np.allclose(parts.total, parts.aleatoric + parts.epistemic))
        (True, True)

    Source: Depeweg et al. (2018), section 3, for both.
    """
    if isinstance(bnn, Standalone):
        return _of_standalone(check_key(rng_key), standalone(bnn, params, mask), x, num_samples)
    rng_key, x, mask = check_inputs(rng_key, bnn, params, x, mask, num_samples)
    kind = kind_of(bnn, params)
    of: dict[str, Any] = {"mask": mask, "num_samples": num_samples}
    numbers = sum(math.prod(shape) for shape in jax.tree.leaves(bnn.output_shape, is_leaf=is_shape))  # of a row's outputs
    rows = max(1, NUMBERS // (num_samples * max(1, numbers)))
    parts = []
    for first in range(0, rows_in(x), rows):
        block = part_of(x, slice(first, first + rows))
        if kind == "classes" or getattr(bnn.likelihood, "task", "other") == "classes":
            parts.append(of_classes(predict_draws(rng_key, bnn, params, block, **of)))
        elif kind == "bits":
            parts.append(of_bits(squeeze(predict_draws(rng_key, bnn, params, block, **of))))
        else:
            parts.append(of_numbers(*_moments(rng_key, bnn, params, block, mask, num_samples, kind)))
    return Uncertainty(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def of_classes(probabilities: np.ndarray) -> Uncertainty:
    """(21.15) of draws (num_samples, rows, ..., classes).

    >>> parts = of_classes(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))  # two networks, each sure of another class
    >>> [round(float(part[0]), 4) for part in parts]
    [0.6931, 0.0, 0.6931]
    """
    draws = np.asarray(probabilities, np.float64)
    sums = draws.sum(axis=-1, keepdims=True)
    if (draws < 0).any() or not np.allclose(sums, 1.0, atol=1e-3):
        raise TypeError("the mean of this likelihood of labels is no probability of each: leave mean_of= out, which says what.")
    draws = draws / sums  # rows of float32 sum to 1 but for their rounding
    total, aleatoric = _entropy(draws.mean(axis=0)), _entropy(draws).mean(axis=0)
    epistemic = np.maximum(total - aleatoric, 0.0)  # rounding may leave a difference of -1e-17 where the networks agree
    return Uncertainty(aleatoric + epistemic, aleatoric, epistemic)


def of_bits(probabilities: np.ndarray) -> Uncertainty:
    """(21.15) of probabilities of a one, (num_samples, rows, ...): of each label by itself."""
    draws = np.asarray(probabilities, np.float64)
    return of_classes(np.stack([draws, 1.0 - draws], axis=-1))


def of_numbers(means: np.ndarray, variances: np.ndarray | np.floating) -> Uncertainty:
    """(21.16) of draws (num_samples, rows, ...), and variances that broadcast to them.

    >>> [float(part[0]) for part in of_numbers(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]))]
    [2.0, 1.0, 1.0]
    """
    draws = np.asarray(means, np.float64)
    epistemic = draws.var(axis=0)
    aleatoric = np.broadcast_to(np.asarray(variances, np.float64), draws.shape).mean(axis=0)
    return Uncertainty(aleatoric + epistemic, aleatoric, epistemic)


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    return -xlogy(probabilities, probabilities).sum(axis=-1)  # type: ignore[no-any-return]


def _moments(
    rng_key: RandomKey, bnn: BNN, params: PyTree, x: PyTree, mask: Mask | None, num_samples: int, kind: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the targets under each network, (num_samples, rows, ...)."""
    name = type(bnn.likelihood).__name__
    remedy = "say how far networks disagree by bp.predict_draws(...).var(0), and add the noise that you know."
    if kind is None:
        raise TypeError(f"{name} does not say the distribution of new targets: {remedy}")
    try:
        found = draws_of_targets(rng_key, bnn, params, x, mask, num_samples, read=("mean", "variance"))
    except NotImplementedError:
        raise TypeError(f"the distribution of {name} has no mean and variance in closed form: {remedy}") from None
    return found["mean"], found["variance"]


def _of_standalone(rng_key: RandomKey, network: Standalone, x: PyTree, num_samples: int) -> Uncertainty:
    draws = network.predict_draws(rng_key, x, num_samples)
    if network.task == "classes":
        return of_classes(draws)
    if network.task == "binary":
        return of_bits(squeeze(draws))
    if network.task == "numbers":
        parts = of_numbers(draws, np.square(network.noise(num_samples)))
        return Uncertainty(*map(squeeze, parts))
    raise TypeError(
        "a compact network holds the mean of y, not its distribution, which the uncertainty of this likelihood is of: give the "
        "BNN with its parameters."
    )
