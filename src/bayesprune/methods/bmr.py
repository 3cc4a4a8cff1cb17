"""Bayesian model reduction: prune what the model explains the data better without."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_integer, check_name, check_not_negative, check_positive
from bayesprune.core.given import GivenRows, GivenScale, RandomKey
from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, Node, Pruned, PyTree, SparseState
from bayesprune.formulas.gaussian import kl_divergence
from bayesprune.formulas.inclusion import inclusion
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable
from bayesprune.posteriors.params import knows_its_prior
from bayesprune.prune.bookkeeping import first_state, take_step
from bayesprune.prune.one_shot import prune_once
from bayesprune.prune.scores import check_evidence, evidence

REFERENCE = "markovic2024bayesian"

GROUPS = ("layer", "site", "global")
DEAD = ("prior", "forgotten", "excluded")
# Nats within which a finished fit's weights count as being at their prior, by default; `benchmarks/course.md` has the table.
IDLE = 0.05
# Nats by which one cut of a finished fit's weights asks for more evidence than (2.6), by default: the same table's choice.
MARGIN = 0.25


@dataclass(frozen=True)
class BMR:
    """Prune by evidence, with an inclusion rate learned for each layer (2.5), (2.6).

      dF0 = log(s0/scale) - (loc/scale)²/2   (log evidence gained by removing the weight, prior N(0, s0²))
      q = sigmoid(zeta - dF0),  zeta = psi(alpha) - psi(beta),  alpha = alpha0 + sum q,  beta = beta0 + sum (1 - q)

    A weight dies where dF0 > zeta + margin; without a margin, where q < 1/2. The dead stay dead. Of weights that vary together
    (``posterior="full"``) the one whose removal gains most dies first, and the evidence of the others is taken anew, given that
    it is zero, (20.1) and (20.2), until none is left to die; of a matrix normal whole rows and columns go so, (20.4).

    Args:
        alpha0, beta0: the Beta prior of each group's inclusion rate.
        num_iters: rounds of the fixed point.
        group: weights that share a rate: "layer" (kernel and bias together), "site" (each array), or "global".
        dead: what weights that died earlier say about their group's rate. "prior": no data reach a dead weight, so its
            posterior is its prior, dF0 = 0 and q = sigmoid(zeta): next to nothing. "forgotten": nothing at all; the rate is of
            the living, and pruning is the slowest. "excluded": q = 0; the rate falls with every weight that dies, and pruning
            feeds on itself.
        idle: weights whose posterior is within so many nats of their prior, KL(q || p) <= idle, (2.12), die as well: the data
            have said nothing of them, and (2.6) cannot tell, for dF0 = 0 gains nothing and loses nothing. 0: the paper's rule.
            Weights that vary together are judged by (2.6) alone. A fit that starts at its prior is idle at first.
        margin: nats, (2.13). Each dF0 is right for a weight that goes alone; where thousands go at once, those of which it says
            little are worth something together. 0: the paper's rule. It goes with ``idle``: idle weights, whose dF0 is next to
            0, would all stay. Weights that vary together have none, their evidence is that of all that go.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from bayesprune.core.types import Evidence
        >>> from bayesprune.posteriors.mean_field import MeanField
        >>> posterior = {"w": MeanField(jnp.array([0.0, 0.0, 0.0, 3.0]), jnp.array([0.5, 0.5, 0.5, 0.1]))}
        >>> method = BMR()
        >>> state = method.init(jax.random.key(0), posterior)
        >>> state, info = method.step(jax.random.key(0), Evidence(posterior, None), state)
        >>> print(state.mask["w"])  # dF0 = log 2 three times and -448; zeta = 0, for q = 1/3 three times and 1
        [False False False  True]

    Source: Marković, Friston & Kiebel (2024), section II-G and Algorithm 1.
    """

    alpha0: float = 1.0
    beta0: float = 1.0
    num_iters: int = 4
    group: str = "layer"
    dead: str = "prior"
    idle: float = 0.0
    margin: float = 0.0

    def __post_init__(self) -> None:
        check_positive(self.alpha0, "alpha0")
        check_positive(self.beta0, "beta0")
        check_integer(self.num_iters, "num_iters")
        check_not_negative(self.idle, "idle")
        check_not_negative(self.margin, "margin")
        check_name("group", self.group, GROUPS)
        check_name("dead", self.dead, DEAD)

    @property
    def needs(self) -> Needs:
        """Evidence: a Gaussian prior, and a spread. What varies as a matrix it cuts by rows and columns."""
        return Needs(evidence=True, spread=True, whole=True)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Prune every group of the posterior once."""
        posterior = evidence.posterior
        gain, alive = one_by_one(posterior, state.mask, lambda gain: self._thresholds(gain, state.mask, posterior))
        if self.idle:
            alive = {site: alive[site] & ~self._idle(node) for site, node in posterior.items()}
        return take_step(state, alive, posterior, gain)

    def _idle(self, node: Node) -> jax.Array:
        """The weights of which the data have said nothing, (2.12)."""
        if node.together:  # the removal of one moves the others
            return jnp.zeros(jnp.shape(node.loc), bool)
        return kl_divergence(node.loc, node.scale, 0.0, node.prior_scale) <= self.idle

    def _thresholds(self, gain: dict[str, jax.Array], alive: dict[str, jax.Array], posterior: PyTree) -> dict[str, jax.Array]:
        """Of every site: zeta of its group, by the evidence of its weights, and the margin; ``alive``: before this step."""
        found: dict[str, jax.Array] = {}
        for sites in self._groups(gain):
            zeta = self._log_odds([gain[site] for site in sites], [alive[site] for site in sites])
            # The evidence of weights that vary together is that of all that go, and their idle ones fall by zeta alone.
            found |= {site: zeta + self.margin if self.margin and not posterior[site].together else zeta for site in sites}
        return found

    def _log_odds(self, gains: list[jax.Array], alive: list[jax.Array]) -> jax.Array:
        """zeta of one group."""
        gain = jnp.concatenate([g.reshape(-1) for g in gains])
        counts = jnp.concatenate([a.reshape(-1) for a in alive])
        if self.dead == "forgotten":
            return inclusion(gain, self.alpha0, self.beta0, self.num_iters, where=counts)[1]
        gain_of_dead = {"prior": 0.0, "excluded": jnp.inf}[self.dead]
        return inclusion(jnp.where(counts, gain, gain_of_dead), self.alpha0, self.beta0, self.num_iters)[1]

    def _groups(self, posterior: PyTree) -> list[list[str]]:
        """Sites that share an inclusion rate."""
        name = {
            "layer": lambda site: site.rpartition(".")[0] or site,
            "site": lambda site: site,
            "global": lambda site: "",
        }[self.group]
        groups: dict[str, list[str]] = {}
        for site in posterior:
            groups.setdefault(name(site), []).append(site)
        return list(groups.values())


def bmr_prune(
    params: PyTree,
    *,
    program: Trainable | Any = None,
    data: GivenRows | None = None,
    prior_scale: GivenScale = None,
    alpha0: float = 1.0,
    beta0: float = 1.0,
    num_iters: int = 4,
    group: str = "layer",
    dead: str = "prior",
    idle: float | None = None,
    margin: float | None = None,
    prunable: Callable[[str, tuple[int, ...]], bool] | Any = lambda path, shape: True,
    mask: PyTree | None = None,
    rng_key: RandomKey | None = None,
) -> Pruned:
    """Prune a fitted mean-field posterior by its own evidence, once (2.5), (2.6). Pure: ``params`` are left as they are.

    One pass cuts much at once, and the weights that stay are left where they were: of a dense fit it costs the digits' accuracy
    half a point (`benchmarks/course.md`). Most weights of a dense fit are idle, at their prior; they fall as well, see
    ``idle``. Of the others those stay that hardly any evidence speaks against, see ``margin``. Going on from it,
    ``fit_svi(..., init=pruned)``, wins the accuracy back; pruning on the way, ``fit_svi(..., sparsifier=BMR())``, never
    loses it.

    Args:
        params: NumPyro parameters of `fit_svi`, which know their prior; those of an `AutoNormal` guide (of a hand-written
            model, or of a ``random_flax_module``, ``random_nnx_module`` or ``random_eqx_module`` net), which do not, and need
            ``program`` or ``prior_scale``; or a tree of `MeanField`.
        program: the `BNN` or `Program` that the parameters were fitted with: it says the prior of every weight, and which sites
            are weights. A `Program` is asked with ``data``. With a `BNN` the weights fall, too, that no path from the input to
            the output needs.
        data: rows (x, y) of the training data: with ``program`` the cut is verified on them before it is taken, (2.9).
        prior_scale: standard deviation of the weights' Gaussian prior in the posterior's coordinates, in place of what
            ``params`` or ``program`` say: one number, or site -> number or array.
        alpha0, beta0, num_iters, group, dead: see `BMR`.
        idle: see `BMR`. None: .05 nats where ``params`` are those of a `BNN`, which starts far from its prior, or where
            ``program`` is one; otherwise 0.
        margin: see `BMR`. None: .25 nats for the same parameters, if idle weights fall and no ``data`` verify the cut;
            otherwise 0, which also suits who goes on from the cut: it takes more, and going on mends that.
        prunable: predicate on (path, shape). Our own guides already keep what they do not prune out of sight.
        mask: weights that are already dead; those at loc = scale = 0 are taken as dead anyway.
        rng_key: a JAX random key, for the networks that the verification draws; needed with ``data``.

    Returns:
        ``Pruned(params, mask, info)``: dead weights at loc = scale = 0, site -> booleans (True = alive), and an `Info`, whose
        ``evidence_gained`` is in nats and whose ``readiness`` is NaN: one posterior alone does not show whether it still moves.
        NumPyro's autoguides refuse a scale of zero: for `numpyro.infer.Predictive` hand pruned parameters of one of them to
        ``guide=bp.masked(guide, pruned.mask)``.

    Raises:
        ValueError: no mean-field posterior in ``params``, a prior that is not known or not Gaussian, or a setting out of range;
            ``data`` without a ``rng_key``.
        TypeError: a spike-and-slab posterior.

    Example:
        >>> import jax.numpy as jnp
        >>> params = {"w_auto_loc": jnp.array([0.1, 0.0, -0.1, 3.0]), "w_auto_scale": jnp.array([0.5, 0.5, 0.5, 0.1])}
        >>> pruned = bmr_prune(params, prior_scale=1.0)
        >>> print(pruned.params["w_auto_loc"], pruned.mask["w"])
        [0. 0. 0. 3.] [False False False  True]

    Source: Marković, Friston & Kiebel (2024), section II-G.
    """
    ours = isinstance(program, BNN) or knows_its_prior(params)
    idle = (IDLE if ours else 0.0) if idle is None else idle
    margin = (MARGIN if ours and idle and data is None else 0.0) if margin is None else margin
    method = BMR(alpha0, beta0, num_iters, group, dead, idle, margin)
    return prune_once(
        params, method, program=program, data=data, prior_scale=prior_scale, prunable=prunable, mask=mask, rng_key=rng_key
    )


Zetas = Callable[[dict[str, jax.Array]], dict[str, jax.Array]]


def one_by_one(posterior: PyTree, alive: PyTree, zetas: Zetas) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Evidence gained by every weight's removal, and the mask without those where it exceeds zeta.

    ``zetas``: a function of the gains, {site: array}, that returns a threshold for each site, in nats a weight; it is called
    after every removal. The sum of the gains over the cut is the evidence gained, exact if the posterior is. A gain or a
    threshold of NaN cuts nothing.
    """
    check_evidence(posterior)
    joint = {site: node for site, node in posterior.items() if node.together}
    # Weights by themselves: their gains stay, whatever else goes.
    gain = {site: -value for site, value in evidence({s: n for s, n in posterior.items() if s not in joint}).items()}
    left = {site: node.removal(alive[site]) for site, node in joint.items()}

    def gains(left: dict[str, Any]) -> dict[str, jax.Array]:
        found = gain | {site: part.gain for site, part in left.items()}
        return {site: found[site] for site in posterior}

    def remove(carry: tuple[dict[str, Any], jax.Array]) -> tuple[dict[str, Any], jax.Array]:
        zeta = zetas(gains(carry[0]))
        done = {site: part.without_best(zeta[site]) for site, part in carry[0].items()}
        return {site: part for site, (part, _) in done.items()}, jnp.any(jnp.stack([moved for _, moved in done.values()]))

    if left:
        left, _ = jax.lax.while_loop(lambda carry: carry[1], remove, (left, jnp.array(True)))
    gain = gains(left)
    zeta = zetas(gain)
    kept = {site: alive[site] & ~(gain[site] > zeta[site]) for site in posterior if site not in joint}
    kept |= {site: alive[site] & part.alive for site, part in left.items()}
    return gain, {site: kept[site] for site in posterior}
