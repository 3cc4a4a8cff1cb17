"""The papers' simulations, where it is known which inputs matter.

E1 to E3 have equally correlated inputs, x_j = (r_0 + r_j) / √2 with r standard normal, so any two correlate by 1/2 (the
paper cuts the normals at ±10, which those of single precision never reach). Source: Sun, Song & Liang (2022); Ke & Fan (2022).
"simulation_svbnn" and "simulation_svbnn_normal" are Simulation II, equation 11, of Bai, Song & Cheng (2020), with the
uniform inputs of the released code and with the normal ones of the paper's text.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32

from bayesprune.core import checks
from bayesprune.data import catalogue
from bayesprune.data.truth import Simulation, add_noise, check_counts, generator, normal, parts, uniform

Array = np.ndarray
SVBNN = ("simulation_svbnn", "simulation_svbnn_normal")
RELEVANT = {"simulation_e1": 5, "simulation_e2": 5, "simulation_e3": 4, **dict.fromkeys(SVBNN, 5)}
OTHERS = "The others have functions of their own: linear_regression, teacher_student, saha_1, saha_2, saha_3."


def _e1(x1: Array, x2: Array, x3: Array, x4: Array, x5: Array) -> Array:
    return np.tanh(2 * np.tanh(2 * x1 - x2)) + 2 * np.tanh(np.tanh(x3 - 2 * x4)) - np.tanh(2 * x5)


def _e2(x1: Array, x2: Array, x3: Array, x4: Array, x5: Array) -> Array:
    return 5 * x2 / (1 + x1**2) + 5 * np.sin(x3 * x4) + 2 * x5


def _e3(x1: Array, x2: Array, x3: Array, x4: Array) -> Array:
    return np.exp(x1) + x2**2 + 5 * np.sin(x3 * x4) - 3


def _svbnn(x1: Array, x2: Array, x3: Array, x4: Array, x5: Array) -> Array:
    return 7 * x2 / (1 + x1**2) + 5 * np.sin(x3 * x4) + 2 * x5


def simulate(
    name: str, *, seed: int, num_train: int = 0, num_test: int = 0, num_features: int = 0, noise_scale: float = 1.0
) -> Simulation:
    """One of the papers' simulations, drawn anew from ``seed``.

    E1: y = tanh(2 tanh(2 x1 - x2)) + 2 tanh(tanh(x3 - 2 x4)) - tanh(2 x5) + noise, 1000 features.
    E2: y = 5 x2 / (1 + x1²) + 5 sin(x3 x4) + 2 x5 + noise, 2000 features.
    E3: y = 1 if exp(x1) + x2² + 5 sin(x3 x4) > 3 else 0, 1000 features, no noise.
    SVBNN: y = 7 x2 / (1 + x1²) + 5 sin(x3 x4) + 2 x5 + noise, 200 features, independent, uniform on (-1, 1), or standard
    normal in "simulation_svbnn_normal".

    Args:
        name: "simulation_e1", "simulation_e2", "simulation_e3", "simulation_svbnn" or "simulation_svbnn_normal".
        seed: a whole number of at least 0; the same seed gives the same rows.
        num_train, num_test, num_features: 0 takes the paper's: 10240 and 1024 rows (SVBNN: 3000 and 10000).
        noise_scale: standard deviation of the noise, in the target's units; 1 in the papers. Not for E3.

    Raises:
        ValueError: the name is unknown, or a number is out of range.

    Example:
        >>> from bayesprune import data
        >>> e1 = data.simulate("simulation_e1", seed=0, num_train=50, num_test=10, num_features=20)
        >>> e1.train.x.shape, int(e1.relevant.sum())
        ((50, 20), 5)
    """
    name = catalogue.canonical(name)
    checks.check_name("simulation", name, RELEVANT, OTHERS)
    rng = generator(seed)
    independent = name in SVBNN
    num_train = num_train or (3000 if independent else 10240)
    num_test = num_test or (10000 if independent else 1024)
    num_features = num_features or (200 if independent else 2000 if name == "simulation_e2" else 1000)
    check_counts(num_train=num_train, num_test=num_test)
    checks.check_integer(num_features, "num_features", minimum=RELEVANT[name])
    checks.check_not_negative(noise_scale, "noise_scale")
    if name == "simulation_e3" and noise_scale not in (0.0, 1.0):
        raise ValueError(
            f"noise_scale={noise_scale} means nothing for 'simulation_e3', whose classes have no noise: leave it out."
        )

    truths: dict[str, Callable[..., Array]] = {"simulation_e1": _e1, "simulation_e2": _e2, "simulation_e3": _e3}
    inputs: dict[str, Callable[..., Array]] = {"simulation_svbnn": uniform, "simulation_svbnn_normal": normal}
    x = inputs.get(name, _correlated)(rng, (num_train + num_test, num_features))
    mean = truths.get(name, _svbnn)(*x[:, : RELEVANT[name]].astype(np.float64).T)
    noisy = add_noise(rng, mean, noise_scale)
    y = (mean > 0).astype(np.int32) if name == "simulation_e3" else noisy
    return parts(x, y, num_train, np.arange(num_features) < RELEVANT[name], np.zeros(0))


def linear_regression(
    *,
    seed: int,
    num_train: int = 1000,
    num_test: int = 1000,
    num_features: int = 100,
    num_relevant: int = 10,
    noise_scale: float = 1.0,
) -> Simulation:
    """A sparse linear truth, y = x·w + noise, with independent standard normal inputs.

    ``num_relevant`` weights in random places are ±1, ±2 or anything between (uniform size, random sign), the others 0.

    Args:
        seed: a whole number of at least 0; the same seed gives the same rows and weights.
        num_train, num_test, num_features, num_relevant: counts; num_relevant is at most num_features.
        noise_scale: standard deviation of the noise, in the target's units.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> from bayesprune import data
        >>> simulated = data.linear_regression(seed=0, num_features=20, num_relevant=3)
        >>> int((simulated.weights != 0).sum())
        3
    """
    check_counts(num_train=num_train, num_test=num_test, num_features=num_features)
    checks.check_integer(num_relevant, "num_relevant", minimum=0)
    if num_relevant > num_features:
        raise ValueError(f"num_relevant must be at most num_features = {num_features}, got {num_relevant}.")
    checks.check_not_negative(noise_scale, "noise_scale")
    rng = generator(seed)
    weights = np.zeros(num_features, np.float32)
    places = rng.choice(num_features, num_relevant, replace=False)
    weights[places] = rng.uniform(1.0, 2.0, num_relevant) * rng.choice([-1.0, 1.0], num_relevant)
    x = normal(rng, (num_train + num_test, num_features))
    y = add_noise(rng, x.astype(np.float64) @ weights, noise_scale)
    return parts(x, y, num_train, weights != 0, weights)


def _correlated(rng: np.random.Generator, shape: tuple[int, int]) -> Float32[np.ndarray, "rows features"]:
    x = normal(rng, shape)
    x += normal(rng, (shape[0], 1))
    x *= np.float32(np.sqrt(0.5))
    return x
