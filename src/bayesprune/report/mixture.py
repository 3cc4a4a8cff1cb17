"""Predictive distributions of real targets as metrics take them: draws of networks with the noise of each, beside targets."""

import numpy as np
from jaxtyping import Float64

from bayesprune.report.inputs import ArrayLike, finite

Matrix = Float64[np.ndarray, "rows outputs"]
Draws = Float64[np.ndarray, "num_samples rows outputs"]
Targets = Float64[np.ndarray, " targets"]
Centres = Float64[np.ndarray, "num_samples targets"]
Noises = Float64[np.ndarray, "num_samples _"]  # of every target, or one for all


def columns(values: ArrayLike, name: str) -> Matrix:
    """(rows,) or (rows, outputs) to (rows, outputs)."""
    array = finite(values, name)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must have shape (rows,) or (rows, outputs) and hold something, got {array.shape}.")
    return array.reshape(len(array), -1)


def mixture(draws: ArrayLike, noise_scale: float | ArrayLike) -> tuple[Draws, Draws]:
    """Centres and standard deviations of the mixture, both (num_samples, rows, outputs)."""
    centre = finite(draws, "draws")
    if centre.ndim not in (2, 3) or centre.size == 0:
        raise ValueError(
            f"draws must have shape (num_samples, rows) or (num_samples, rows, outputs), got {centre.shape}: "
            "bayesprune.predict_draws gives it; a single prediction needs a leading axis of one."
        )
    noise = finite(noise_scale, "noise_scale")
    if (noise < 0).any():
        raise ValueError(f"noise_scale must not be negative, got {noise.min()}: it is a standard deviation.")
    try:
        noise = np.broadcast_to(noise, centre.shape)
    except ValueError:
        raise ValueError(
            f"noise_scale of shape {noise.shape} does not broadcast against draws of shape {centre.shape}: "
            "give a number, or add axes, as in noise_scale[:, None, None] for one value per draw."
        ) from None
    shape = (*centre.shape[:2], -1)
    return centre.reshape(shape), noise.reshape(shape)


def matching(draws: Draws, y: ArrayLike) -> Matrix:
    """The targets of draws, (rows, outputs)."""
    target = columns(y, "y")
    if target.shape != draws.shape[1:]:
        raise ValueError(f"y must match the rows and outputs of draws, {draws.shape[1:]}, got {np.shape(y)}.")
    return target
