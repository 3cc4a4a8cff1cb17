"""Any score, any amount, anything that competes: the cut that the named one-score methods are cases of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesprune.prune.cutting import ByScore

REFERENCE = "blalock2020state"


@dataclass(frozen=True)
class Cut(ByScore):
    """Keep what scores highest: a score, a density or a threshold, and a scope, in any combination.

    Args:
        score: a score of `bayesprune.scores`: "magnitude", "snr", "expected_abs", "expected_abs_over_std", "log_expected_exp",
            "log_expected_exp_over_std", "second_moment", "opd", "obd" (of a Gaussian prior), "evidence" (the same, of
            weights that do not vary together), or "inclusion" (log-odds of a spike and slab).
        density: fraction that stays alive, in (0, 1]; or a schedule: a function of the number of the pruning step (1, 2, ...),
            such as `schedules.Cubic`. Counts are exact, ties included. Without it, and without a threshold, a tenth stays.
        threshold: in place of a density, the lowest score that stays: 0 nats of "evidence", say.
        scope: what competes with what. "global": all weights; "layer": those of each array; "per_output": those of each output
            of an array, so that every output has as many. "unit": whole units of the network (neurons, channels), each with
            its bias and its entries of a norm. "head": whole heads of attention, each with what makes its queries, keys and
            values; other weights stay. ``density`` is then a share of the units or heads. The score of one is the sum of its
            alive weights' scores where these are logarithms or squares (evidence, inclusion, log_expected_exp, second_moment,
            opd, obd), else the root of the sum of their squares.
        price: of scope "unit" and "head": what each FLOP a row must be worth, in units of the score, which is less by
            price x FLOPs; (2.8). With "evidence" it is in nats: a unit stays where what it explains pays for it. A number,
            or a schedule as of ``density``: let it rise, as `schedules.LinearWarmup` does, so that the network makes up for
            what falls.

    With a density or a price every array keeps its best weight, unit or head. The outputs of the network are no units. The dead
    stay dead.
    "per_output", "unit" and "head" ask the network, so they need `fit_svi` of a `BNN`, or ``prune_once(..., program=bnn)``.

    Raises:
        ValueError: an unknown score or scope; a density outside (0, 1]; both a density and a threshold; a price, or one of the
            first of a schedule, below 0 or not finite, or of another scope; "evidence" of weights that vary together; scope
            "head" of a network in which no head is seen (a warning where some are, and some are not).

    Example:
        >>> import jax.numpy as jnp
        >>> from bayesprune.posteriors.mean_field import MeanField
        >>> from bayesprune.prune.one_shot import prune_once
        >>> posterior = {"w": MeanField(jnp.array([3.0, 0.1]), jnp.array([0.1, 0.9]))}
        >>> print(prune_once(posterior, Cut(score="evidence", threshold=0.0)).mask["w"])
        [ True False]

    Source: Blalock et al. (2020), section 2, for the three axes; each score has its own.
    """

    score: str = "snr"
    density: float | Callable[[Any], Any] | None = None
    threshold: float | None = None
    scope: str = "global"
    price: float | Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.density is None and self.threshold is None:
            object.__setattr__(self, "density", 0.1)
        super().__post_init__()
