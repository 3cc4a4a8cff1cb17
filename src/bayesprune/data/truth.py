"""What every simulation hands back, and the few steps they share."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from bayesprune.core import checks
from bayesprune.core.types import Dataset

Array = np.ndarray


@dataclass(frozen=True)
class Simulation:
    """A simulated set and its truth.

    ``train``, ``test``: float32 inputs (rows, features); targets float32, or int32 classes 0 and 1 in E3.
    ``relevant``: bool (features,), True where the input has a part in the target.
    ``weights``: float32 (features,), the effect sizes of a truth that is a weighted sum, of the inputs or of one function of
    each; empty (0,) for the others.
    """

    train: Dataset
    test: Dataset
    relevant: Bool[np.ndarray, " features"]
    weights: Float32[np.ndarray, " weights"]


def generator(seed: int) -> np.random.Generator:
    """The random numbers of a seed. Raises `ValueError` for what is no whole number of at least 0."""
    checks.check_integer(seed, "seed", minimum=0)
    return np.random.default_rng(seed)


def check_counts(**counts: int) -> None:
    """Refuse counts, by their argument's name, that are not whole numbers of at least 1."""
    for argument, value in counts.items():
        checks.check_integer(value, argument)


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Float32[np.ndarray, "rows features"]:
    """Independent inputs, uniform on (-1, 1)."""
    return 2 * rng.random(shape, dtype=np.float32) - 1


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Float32[np.ndarray, "rows features"]:
    """Independent standard normal inputs."""
    return rng.standard_normal(shape, dtype=np.float32)


def add_noise(rng: np.random.Generator, mean: Array, noise_scale: float) -> Float32[np.ndarray, " rows"]:
    """Targets: the mean plus normal noise, which is drawn at ``noise_scale=0`` too, so that the inputs stay the same."""
    return (mean + noise_scale * rng.standard_normal(len(mean))).astype(np.float32)


def parts(x: Array, y: Array, num_train: int, relevant: Array, weights: Array) -> Simulation:
    """The first ``num_train`` rows to train on, the others to test on."""
    train, test = Dataset(x[:num_train], y[:num_train]), Dataset(x[num_train:], y[num_train:])
    return Simulation(train, test, np.asarray(relevant, bool), np.asarray(weights, np.float32))
