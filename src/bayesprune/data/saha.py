"""Regressions with graded effects: experiments 1, 2 and 3 of Saha, Liu & Liang (2024), on feature importance and selection.

Inputs and noise are standard normal and independent. The effect of feature j is proportional to j, so the later a feature,
the more it matters, and a good importance rises from the first to the last.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32

from bayesprune.core import checks
from bayesprune.data.truth import Simulation, add_noise, check_counts, generator, normal, parts

Array = np.ndarray


def _nonlinear(x: Array) -> Array:
    return np.exp(np.abs(x)) - 2 * x + np.sin(2 * np.pi * x)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {"linear": lambda x: x, "nonlinear": _nonlinear}


def saha_1(
    *, seed: int, alpha: float = 0.5, num_train: int = 2000, num_test: int = 500, noise_scale: float = 1.0
) -> Simulation:
    """Two inputs that trade places, y = (1 - alpha) x1 + alpha x2 + noise; `saha_influence` is the truth to compare with.

    Args:
        seed: a whole number of at least 0; the same seed gives the same rows.
        alpha: weight of the second input, in [0, 1]; the paper steps from 0 to 1 by 0.05.
        num_train, num_test: rows; the paper has 2000 and no test rows.
        noise_scale: standard deviation of the noise, in the target's units; 1 in the paper.

    Returns:
        A `Simulation` whose ``weights`` are (1 - alpha, alpha).

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> from bayesprune import data
        >>> data.saha_1(seed=0, alpha=0.25).weights.tolist()
        [0.75, 0.25]

    Source: Saha, Liu & Liang (2024), section 4.1, experiment 1.
    """
    checks.check_within(alpha, "alpha", "[0, 1]")
    return _weighted_sum(seed, np.array([1.0 - alpha, alpha]), "linear", (num_train, num_test), noise_scale)


def saha_influence(simulation: Simulation) -> float:
    """The second input's share I = 1 - Σ (y - alpha x2)² / Σ y² of a set made by `saha_1`, over its training rows.

    It is the explained share of the squared target, without unit; in expectation alpha² / ((1 - alpha)² + alpha² + noise²).

    Raises:
        ValueError: the simulation does not have two inputs, and weights of sum 1.

    Example:
        >>> from bayesprune import data
        >>> [round(data.saha_influence(data.saha_1(seed=0, alpha=a, noise_scale=0.0)), 3) for a in (0.0, 1.0)]
        [0.0, 1.0]

    Source: Saha, Liu & Liang (2024), section 4.1, experiment 1.
    """
    if simulation.weights.shape != (2,):
        raise ValueError(f"simulation must be one of saha_1, with two weights, got {len(simulation.weights)}: make it anew.")
    if abs(float(simulation.weights.sum()) - 1.0) > 1e-6:
        raise ValueError(f"simulation must be one of saha_1, with weights of sum 1, got {simulation.weights}: make it anew.")
    x2, y = simulation.train.x[:, 1].astype(np.float64), simulation.train.y.astype(np.float64)
    return float(1.0 - np.sum((y - float(simulation.weights[1]) * x2) ** 2) / np.sum(y**2))


def saha_2(
    *,
    seed: int,
    alpha: float = 2.0,
    num_features: int = 100,
    function: str = "nonlinear",
    num_train: int = 2000,
    num_test: int = 500,
    noise_scale: float = 1.0,
) -> Simulation:
    """Every input matters, the later the more: y = Σ_j f(x_j) j / alpha + noise, with f(x) = x or exp|x| - 2x + sin(2πx).

    Args:
        seed: a whole number of at least 0; the same seed gives the same rows.
        alpha: divisor of the effect sizes, above 0; the paper takes 1 to 10, and a larger one leaves less signal.
        num_features: D; 100 here (the paper does not fix it).
        function: "linear" or "nonlinear".
        num_train, num_test: rows; the paper has 2000 and no test rows.
        noise_scale: standard deviation of the noise, in the target's units; 1 in the paper.

    Returns:
        A `Simulation` whose ``weights`` are the effect sizes j / alpha.

    Raises:
        ValueError: the function is unknown, or a number is out of range.

    Example:
        >>> from bayesprune import data
        >>> data.saha_2(seed=0, alpha=2.0, num_features=4).weights.tolist()
        [0.5, 1.0, 1.5, 2.0]

    Source: Saha, Liu & Liang (2024), section 4.1, experiment 2.
    """
    return _weighted_sum(seed, _effects(alpha, num_features), function, (num_train, num_test), noise_scale)


def saha_3(
    *,
    seed: int,
    alpha: float = 2.0,
    num_features: int = 100,
    function: str = "nonlinear",
    active: float = 0.2,
    num_train: int = 1600,
    num_test: int = 400,
    noise_scale: float = 1.0,
) -> Simulation:
    """A random part of the inputs matters: y = Σ_j f(x_j) (j / alpha) Z_j + noise, with Z_j ~ Bernoulli(active).

    Args:
        seed: a whole number of at least 0; the same seed gives the same indicators Z and rows.
        alpha, num_features, function: as in `saha_2`; 2, 100 and "nonlinear" are the paper's where another one varies.
        active: π, the probability that an input has a part, in [0, 1]; the share in one set scatters around it.
        num_train, num_test: rows; the paper's 2000, cut 80 : 20.
        noise_scale: standard deviation of the noise, in the target's units; 1 in the paper.

    Returns:
        A `Simulation` whose ``relevant`` is Z and whose ``weights`` are the effect sizes (j / alpha) Z_j.

    Raises:
        ValueError: the function is unknown, or a number is out of range.

    Example:
        >>> from bayesprune import data
        >>> made = data.saha_3(seed=0, num_features=10, active=0.5)
        >>> bool(((made.weights != 0) == made.relevant).all()), made.train.x.shape
        (True, (1600, 10))

    Source: Saha, Liu & Liang (2024), section 4.1, experiment 3, eq. 4.1.
    """
    checks.check_within(active, "active", "[0, 1]")
    return _weighted_sum(seed, _effects(alpha, num_features), function, (num_train, num_test), noise_scale, active)


def _effects(alpha: float, num_features: int) -> Array:
    checks.check_positive(alpha, "alpha")
    checks.check_integer(num_features, "num_features")
    return np.arange(1, num_features + 1) / alpha


def _weighted_sum(
    seed: int, effects: Array, function: str, rows: tuple[int, int], noise_scale: float, active: float = 1.0
) -> Simulation:
    checks.check_name("function", function, FUNCTIONS)
    check_counts(num_train=rows[0], num_test=rows[1])
    checks.check_not_negative(noise_scale, "noise_scale")
    rng = generator(seed)
    drawn = rng.random(len(effects)) < active  # uniform on [0, 1): nothing at 0, everything at 1
    weights: Float32[Array, " features"] = (effects * drawn).astype(np.float32)
    x = normal(rng, (sum(rows), len(effects)))
    mean = FUNCTIONS[function](x.astype(np.float64)) @ weights.astype(np.float64)
    return parts(x, add_noise(rng, mean, noise_scale), rows[0], weights != 0, weights)
