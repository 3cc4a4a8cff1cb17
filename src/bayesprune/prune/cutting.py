"""Cuts: a score, how much of it is enough, and what competes with what. They multiply."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core import trees
from bayesprune.core.checks import check_density, check_name, check_not_negative, check_number, check_within
from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune import by_group, scores
from bayesprune.prune.bookkeeping import first_state, take_step
from bayesprune.prune.choose import SCOPES, keep_density, threshold

Scheduled = float | Callable[[jax.Array], jax.Array]  # a number, or a function of the number of this step
# Scores that compare a weight with its spread, and say nothing of points.
RATIOS = ("snr", "expected_abs_over_std", "log_expected_exp_over_std", "evidence", "opd", "obd")
PRICED = ("unit", "head")
SEEN = (1, 2, 10, 100)
ROUNDING = 1e-6  # by which a share may come out above 1
GROUPED = ("per_output", *PRICED)
ALL_SCOPES = (*SCOPES, *GROUPED)


def check(score: str, density: Scheduled | None, least: Any, scope: str, price: Scheduled | None = None) -> None:
    """Refuse an unknown score or scope, a density outside (0, 1] unless a schedule makes it, a cut said twice, and a price of
    what has none."""
    check_name("score", score, scores.BY_NAME)
    check_name("scope", scope, ALL_SCOPES)
    if density is not None and least is not None:
        raise ValueError(f"density or threshold says where to cut, not both: got density={density!r}, threshold={least!r}.")
    if least is not None:
        check_number(least, "threshold")
        if math.isnan(least):
            raise ValueError("threshold is NaN: give the lowest score that stays.")
    if callable(density):
        for name, value in _said(density, "density"):
            # Of a share without a value next to nothing would be kept; of one above 1, such as percents, all would be.
            if not (np.isfinite(shares := np.asarray(value)) & (shares <= 1 + ROUNDING)).all():
                raise ValueError(f"{name} must be a share in (0, 1], got {value}.")
    elif density is not None:
        check_density(density)
    for name, value in () if price is None else _said(price, "price"):
        check_not_negative(value, name)
    if price is not None and scope not in PRICED:
        raise ValueError(f"price needs scope 'unit' or 'head', got {scope!r}: by single weights no dense product gets smaller.")


def _said(given: Scheduled, name: str) -> list[tuple[str, Any]]:
    """A number by its name; of a schedule what it says at its first steps, and at some later ones, asked by the host."""
    if not callable(given):
        return [(name, given)]
    with jax.ensure_compile_time_eval(), jax.transfer_guard_host_to_device("allow"):
        return [(f"{name} at step {number} of its schedule", given(jnp.asarray(number))) for number in SEEN]


def log_odds(probability: float) -> float:
    """log(p / (1 - p)) of the cut of an inclusion probability, from the double: next to 1 a float32 has none.

    >>> round(log_odds(0.75), 4)
    1.0986
    """
    check_within(probability, "probability", "(0, 1)", "weights less likely included than this are cut")
    return math.log(probability) - math.log1p(-probability)


def needs(score: str, scope: str = "global") -> Needs:
    """What a cut by ``score`` in ``scope`` cannot do without."""
    plain = Needs(evidence=score in ("evidence", "obd"), spread=score in RATIOS, groups=scope if scope in GROUPED else "")
    return plain._replace(node=SpikeSlab) if score == "inclusion" else plain


def cut(
    score: str,
    density: Scheduled | None,
    least: float | None,
    scope: str,
    evidence: Evidence,
    state: SparseState,
    price: Scheduled | None = None,
) -> tuple[SparseState, Info]:
    """Keep what scores ``least`` or more; with a ``density``, exactly so many of the highest instead. The dead stay dead.

    ``density`` and ``price``, see `by_group.cut`: numbers, or functions of the number of this step (1, 2, ...).
    """
    if score == "evidence":
        _check_apart(evidence.posterior)
    target, cost = (value(state.step + 1) if callable(value) else value for value in (density, price))
    worth = scores.BY_NAME[score](evidence.posterior)
    gain = jax.tree.map(jnp.negative, worth) if score == "evidence" else None
    if scope in GROUPED:
        alive = by_group.cut(score, worth, target, least, scope, evidence, state.mask, cost)
    elif target is None:
        alive = threshold(worth, least, within=state.mask)
    else:
        alive = keep_density(worth, target, scope, within=state.mask)
    if gain is not None and scope in PRICED:
        gain = by_group.shared(gain, evidence.groups, state.mask)
    new, info = take_step(state, alive, evidence.posterior, gain)
    # So many were asked for, or so many nats a FLOP: the bound of the data is not asked.
    return new, info if target is None and price is None else info._replace(gains=None)


def _check_apart(posterior: PyTree) -> None:
    """Refuse weights that vary together: the evidence of several of them is no sum of what each has alone."""
    for site, node in trees.flatten(posterior).items():
        if node.together:
            raise ValueError(
                f"the weights of {site!r} vary together, and their evidence does not add up: cut them one after the other by "
                "bp.bmr_prune, or by a score of single weights, such as 'snr'."
            )


def expected_density(posterior: PyTree, mask: PyTree = True) -> jax.Array:
    """Mean inclusion probability of all weights, the dead ones counted as 0: the papers' sum phi / T, in [0, 1].

    ``posterior``: a tree of `SpikeSlab`; ``mask``: tree of booleans, or True.

    >>> print(expected_density({"w": SpikeSlab(jnp.zeros(2), jnp.ones(2), jnp.array([0.0, -100.0]))}))
    0.25
    """
    alive = trees.broadcast(mask, posterior)
    kept = jax.tree.map(lambda odds, a: jnp.sum(jnp.where(a, jax.nn.sigmoid(odds), 0.0)), scores.inclusion(posterior), alive)
    return sum(jax.tree.leaves(kept), start=jnp.zeros(())) / trees.size(posterior)


class ByScore:
    """For a frozen dataclass with ``density`` and ``scope``, and a ``score``: a cut at every step, see `cut`."""

    score: str
    density: Scheduled | None
    scope: str
    threshold: float | None = None
    price: Scheduled | None = None

    def __post_init__(self) -> None:
        check(self.score, self.density, self.threshold, self.scope, self.price)
        if self.density is None and self.least is None:
            raise ValueError("density is None, and nothing says where to cut: give the share that stays, such as 0.1.")

    @property
    def least(self) -> float | None:
        """The lowest score that stays where no density is given."""
        return self.threshold

    @property
    def needs(self) -> Needs:
        """What the score and the scope need."""
        return needs(self.score, self.scope)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut once, to the density of this step."""
        return cut(self.score, self.density, self.least, self.scope, evidence, state, self.price)


class ByInclusion(ByScore):
    """The same by the inclusion probabilities of a spike and slab; a dataclass with ``probability``, the lowest that stays."""

    score = "inclusion"
    probability: float

    def __post_init__(self) -> None:
        log_odds(self.probability)
        super().__post_init__()

    @property
    def least(self) -> float:
        return log_odds(self.probability)
