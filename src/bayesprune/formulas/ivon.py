"""A Gaussian posterior N(m, 1/(lam (h + delta))) by Newton steps whose curvature h is an optimiser's second moment."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real


def curvature_of_draw(
    gradient: Real[ArrayLike, "..."],
    deviation: Real[ArrayLike, "..."],
    curvature: Real[ArrayLike, "..."],
    num_rows: ArrayLike,
    decay: ArrayLike,
) -> Float[Array, "..."]:
    """What one draw w says of the curvature of the mean loss, by Stein's identity; (24.1).

      hh = g (w - m) lam (h + delta)

    Args: ``gradient``: g, of the mean loss without its prior, at w. ``deviation``: w - m. ``curvature``: h. ``num_rows``: lam.
    ``decay``: delta. Over draws of N(m, 1/(lam (h + delta))) the mean is that of the second derivative.

    >>> print(curvature_of_draw(2.0, 0.1, 0.3, 50.0, 0.1))
    4.0

    Source: Shen et al. 2024, section 3.2.
    """
    return jnp.asarray(gradient) * deviation * num_rows * (jnp.asarray(curvature) + decay)


def curvature_of_spread(
    slope: Real[ArrayLike, "..."], scale: Real[ArrayLike, "..."], num_rows: ArrayLike, decay: ArrayLike
) -> Float[Array, "..."]:
    """The same from the slope of the whole bound per row in the posterior's scale s, whatever its noise; (24.1).

      hh = (slope + 1/(lam s)) / s - delta

    Since the slope of E loss in s is E g eps, and that of the divergence, s / prior² - 1 / s, is divided by lam. With sampled
    weights it is g (w - m) lam (h + delta) to the bit of rounding; with a noise of outputs it varies less.

    >>> print(curvature_of_spread(0.0, 0.5, 4.0, 0.25))
    0.75
    """
    return (jnp.asarray(slope) + 1.0 / (num_rows * jnp.asarray(scale))) / scale - decay


def curvature_after(
    curvature: Real[ArrayLike, "..."], estimate: Real[ArrayLike, "..."], decay: ArrayLike, b2: ArrayLike
) -> Float[Array, "..."]:
    """The curvature after one estimate of it; h + delta stays positive, and falls to no less than half; (24.2).

      h + delta <- (h + delta) (1 + x + x²/2),  x = (1 - b2) (hh - h) / (h + delta)

    which is h <- b2 h + (1 - b2) hh + (1 - b2)² (h - hh)² / (2 (h + delta)).

    >>> print(curvature_after(0.0, -3.0, 1.0, 0.5))  # 1 - 1.5 + 1.125, less delta
    -0.375

    Source: Lin, Schmidt & Khan 2020 for the step that keeps it positive; Shen et al. 2024, algorithm 1.
    """
    precision = jnp.asarray(curvature) + decay
    x = (1.0 - b2) * (jnp.asarray(estimate) - curvature) / precision
    return precision * (1.0 + x + 0.5 * x * x) - decay


def newton_step(
    mean: Real[ArrayLike, "..."],
    momentum: Real[ArrayLike, "..."],
    curvature: Real[ArrayLike, "..."],
    decay: ArrayLike,
    correction: ArrayLike,
) -> Float[Array, "..."]:
    """Which way the mean goes, per unit of the learning rate; (24.3).

      u = (gm / (1 - b1^t) + delta m) / (h + delta),   m <- m - rate u

    ``correction``: 1 - b1^t, which the momentum's start at zero makes necessary.

    >>> print(newton_step(1.0, 0.2, 0.4, 0.1, 0.5))
    1.0

    Source: Shen et al. 2024, algorithm 1.
    """
    return (jnp.asarray(momentum) / correction + decay * jnp.asarray(mean)) / (jnp.asarray(curvature) + decay)
