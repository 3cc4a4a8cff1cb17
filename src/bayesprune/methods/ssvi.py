"""Sparse subspace variational inference: a fixed number of weights, exchanged on the way, is all that is ever trained."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core import trees
from bayesprune.core.checks import check_density, check_integer, check_name, check_positive, check_share
from bayesprune.core.keys import Key
from bayesprune.core.schedules import CosineReplacement
from bayesprune.core.send import send, send_all
from bayesprune.core.types import Evidence, Gradient, Info, Needs, PyTree, SparseState
from bayesprune.prune import regrowth, scores
from bayesprune.prune.bookkeeping import make_info
from bayesprune.prune.choose import DISTRIBUTIONS, FIRST, allocate
from bayesprune.prune.regrowth import check_new_scale, exchange, renew

REFERENCE = "li2024training"

REMOVALS = tuple(scores.NUMBERED)
ADDITIONS = ("gradient", "gradient_at_mean", "mean_gradient", "random")

_at_random = jax.jit(regrowth.random)  # in one program: each shape would be compiled for by itself


@dataclass(frozen=True)
class SSVI:
    """Train a random subset of exactly ``density`` of the weights, and exchange its worst for better ones on the way.

    At each of `fit_svi`'s mask updates the share r_t = (replace/2) (1 + cos(pi t/until)) of the alive weights falls, those of
    lowest ``removal`` score, and as many dead weights of the highest ``addition`` score are reactivated, array by array; t is
    the share of the training that is done, and after ``until`` the mask stays. A reactivated weight starts at loc 0 with clean
    optimiser state. The objective is (4.1), the estimator of its authors is "local", (4.2).

    Args:
        density: fraction of the prunable weights that is alive, at every moment, in (0, 1].
        removal: score of `prune.scores` by which weights stay: "magnitude" (1), "snr" (2), "expected_abs" (3),
            "expected_abs_over_std" (4), "log_expected_exp" (5), "log_expected_exp_over_std" (6).
        addition: by which weights are reactivated, |gradient of the loss|: "gradient" (1), at one draw of one batch;
            "gradient_at_mean" (2), at w = loc; "mean_gradient" (3), over ``num_draws`` draws and batches; or "random",
            as SET has it.
        distribution: "uniform", "erdos_renyi" or "global"; see `prune.choose`. "global" also exchanges between arrays.
        first: whether the first array stays dense: "auto", "dense" or "sparse"; see `prune.choose`.
        replace: share of the alive weights exchanged at first, the 0.3 of the paper's r_t.
        until: share of the training after which nothing is exchanged any more, in (0, 1].
        new_scale: a reactivated weight's scale: "mean" of its array's, "mean_raw" (of the scales before softplus, as in the
            authors' code), or a number in the posterior's coordinates.
        growth: "likelihood" leaves the divergence out of the gradient; "loss" has it in, as in the authors' code, which favours
            weights that have just fallen.
        num_draws: draws and batches of "mean_gradient".
        lam: the lam of scores 5 and 6, in units of one over the posterior's coordinates.

    "snr" and "expected_abs_over_std" rank alike and give the same masks, but for near ties that rounding breaks, and weights of
    |loc|/scale below 0.02, whose order the latter loses. Counts are exact, array by array, ties included. With
    ``posterior="map"`` the default is RigL, for scores 1 to 4 are then |loc|; ``addition="random"`` beside it is SET.

    Example:
        >>> SSVI(density=0.05).removal
        'expected_abs_over_std'

    Source: Li et al. (2024), algorithm 1; Evci et al. (2020) for RigL, Mocanu et al. (2018) for SET.
    """

    density: float = 0.1
    removal: str = "expected_abs_over_std"
    addition: str = "gradient"
    distribution: str = "uniform"
    first: str = "auto"
    replace: float = 0.3
    until: float = 0.75
    new_scale: str | float = "mean"
    growth: str = "likelihood"
    num_draws: int = 5
    lam: float = 1.0

    def __post_init__(self) -> None:
        check_density(self.density)
        check_share(self.replace, "replace", "it is the share of the alive weights that is exchanged at first")
        check_share(self.until, "until", "it is the share of the training in which weights are exchanged")
        known = {
            "removal": REMOVALS, "addition": ADDITIONS, "distribution": DISTRIBUTIONS, "first": FIRST,
            "growth": ("likelihood", "loss"),
        }  # fmt: skip
        for name, names in known.items():
            check_name(name, getattr(self, name), names)
        check_new_scale(self.new_scale)
        check_integer(self.num_draws, "num_draws")
        check_positive(self.lam, "lam")

    @property
    def needs(self) -> Needs:
        """A gradient, and, unless arrays exchange with one another, as many alive weights in each throughout."""
        draws = self.num_draws if self.addition == "mean_gradient" else 1
        gradient = Gradient(self.addition == "gradient_at_mean", draws, self.growth == "loss")
        return Needs(gradient=gradient, first_counts=True, constant_counts=self.distribution != "global")

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """A random mask of exact counts."""
        counts = allocate(
            {site: trees.shape(node) for site, node in posterior.items()}, self.density, self.distribution, self.first
        )
        none = {site: send(np.zeros(trees.shape(node), bool)) for site, node in posterior.items()}
        mask = _at_random(rng_key, none, send_all(counts))
        return SparseState(mask, (), send(0, np.int32))

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """One exchange."""
        growth = jax.tree.map(jnp.abs, evidence.gradient)
        if self.addition == "random":
            growth = regrowth.noise(rng_key, state.mask)
        rate = CosineReplacement(end=self.until, initial=self.replace)(evidence.progress)
        mask = exchange(self._worth(evidence.posterior), growth, state.mask, rate, self.distribution == "global")
        new = state._replace(mask=mask, step=state.step + 1)
        return new, make_info(state.mask, new)

    def renew(self, posterior: PyTree, old: PyTree, new: PyTree) -> PyTree:
        """The posterior with the reactivated weights at their start; `fit_svi` calls it after each `step`."""
        return renew(posterior, old, new, self.new_scale)

    def _worth(self, posterior: PyTree) -> PyTree:
        score = scores.NUMBERED[self.removal]
        return score(posterior, self.lam) if self.removal.startswith("log_expected_exp") else score(posterior)
