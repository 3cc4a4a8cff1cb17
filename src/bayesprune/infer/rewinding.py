"""Lottery tickets: train, cut, go back to where the weights once were, and train what is left."""

import dataclasses
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from bayesprune.core.checks import check_integer, check_within, got
from bayesprune.core.given import GivenData, RandomKey
from bayesprune.core.types import Sparsifier
from bayesprune.infer.svi import fit_svi
from bayesprune.model.bnn import BNN
from bayesprune.prune.one_shot import prune_once
from bayesprune.train.result import FitResult

REFERENCE = "frankle2019lottery"


class Rewound(NamedTuple):
    """``fits``: the dense one first, then one for each round; ``densities``: the share of prunable weights alive in each."""

    fits: tuple[FitResult, ...]
    densities: tuple[float, ...]


def fit_rewound(
    rng_key: RandomKey,
    bnn: BNN | Any,
    data: GivenData,
    *,
    method: Callable[[float], Sparsifier] | Any,
    num_steps: int,
    rounds: int = 5,
    keep: float | Any = 0.8,
    rewind_to: int = 0,
    **settings: Any,
) -> Rewound:
    """Iterative pruning with rewinding: after each round the survivors start again from where they were at step k.

      w <- mask * w_k, and optimiser, rate, minibatches and noise go on from step k;  alive after R rounds: keep^R        (15.1)

    Every round has the key of the first: with ``rewind_to=0`` the start is the very first one, and a round is
    ``fit_svi(rng_key, bnn, data, mask=mask, ...)``, bit by bit. All parameters go back: loc and scale of a posterior, biases,
    noise.

    Args:
        rng_key, bnn, data: of `fit_svi`.
        method: density -> sparsifier that cuts to it, such as ``bp.methods.Magnitude`` or ``bp.methods.SNR``.
        num_steps: of a whole training, the k first ones among them.
        rounds: how often is cut and trained again.
        keep: the share of the weights alive that stays, in each round.
        rewind_to: k, 0: the start; with k > 0 give ``optimizer=``, whose rate goes on from there, and ``course=`` of a constant
            divergence, such as `courses.Plain`.
        settings: all else that `fit_svi` takes, but ``sparsifier``, ``mask`` and what a fit starts from. In a ``checkpoint``
            folder each round has a folder of its own, ``round_0`` the whole network's; the first k steps have ``begun``.

    Returns:
        A `Rewound`.

    Raises:
        ValueError: ``keep`` outside (0, 1), ``rewind_to`` not below num_steps, or above 0 without ``optimizer``; settings that
            are this function's own; and as of `fit_svi`.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Gaussian(), posterior="map",
        ...              likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))
        >>> found = bp.fit_rewound(jax.random.key(0), bnn, train, method=bp.methods.Magnitude, num_steps=3, rounds=2,
        ...                        batch_size=64)
        >>> [round(density, 2) for density in found.densities]
        [1.0, 0.8, 0.64]

    Source: Frankle & Carbin (2019); Frankle et al. (2020) for k > 0.
    """
    if not callable(method):
        raise TypeError(f"method must be a function of a density, got {got(method)}: give bp.methods.Magnitude, its class.")
    check_integer(num_steps, "num_steps")
    check_integer(rounds, "rounds")
    check_integer(rewind_to, "rewind_to", minimum=0)
    check_within(keep, "keep", "(0, 1)", "it is the share of the alive that a round leaves")
    if rewind_to >= num_steps or (rewind_to and settings.get("optimizer") is None):
        raise ValueError(
            f"rewind_to={rewind_to} must be below num_steps={num_steps}, and above 0 it needs optimizer=, whose rate goes on "
            "from there."
        )
    if own := sorted({"sparsifier", "mask", "init", "init_params"} & settings.keys()):
        raise ValueError(f"{', '.join(own)} is what fit_rewound gives each round: leave it out, method= says how to cut.")
    _at(method, keep)
    begun = fit_svi(rng_key, bnn, data, num_steps=rewind_to, **_within("begun", settings)) if rewind_to else None
    fits, mask = list[FitResult](), None
    for number in range(rounds + 1):
        if number:
            last = fits[-1]
            mask = prune_once(last.params, _at(method, keep**number), program=bnn, mask=last.mask or None, rng_key=rng_key).mask
        own_settings = _within(f"round_{number}", settings)
        fits.append(fit_svi(rng_key, bnn, data, num_steps=num_steps - rewind_to, init=begun, mask=mask, **own_settings))
    return Rewound(tuple(fits), tuple(_density(fit.mask) for fit in fits))


def _within(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with a folder of a fit's own within that of the checkpoints; what is no folder `fit_svi` refuses."""
    folder = settings.get("checkpoint")
    return settings | {"checkpoint": Path(folder) / name} if isinstance(folder, str | PathLike) else settings


def _at(method: Callable[[float], Sparsifier], density: float) -> Sparsifier:
    """The method for a density. Of a method without one the first knob is something else."""
    if dataclasses.is_dataclass(method) and isinstance(method, type):
        names = [field.name for field in dataclasses.fields(method)]
        if "density" not in names:
            raise ValueError(
                f"{method.__name__} has no density to set, it finds its own: give a method that cuts to a density."
            )
        return method(density=density)
    return method(density)


def _density(mask: dict[str, Any]) -> float:
    size = sum(alive.size for alive in mask.values())
    return sum(int(alive.sum()) for alive in mask.values()) / size if size else 1.0
