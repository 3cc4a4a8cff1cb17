"""Scores: posterior -> tree of arrays, one number per weight, higher stays.

Each takes a node or a tree of nodes with ``loc`` and ``scale`` (`MeanField`, `SpikeSlab`; a scale of 0 is a MAP weight) and
never makes NaN of finite input. A spike and slab whose spike is at zero is scored as the mixture that it is, not by its slab
alone. Scores that have a unit are of the network's own weights, w = unit w_hat, so that layers of
different scales compare. `snr` (score 2) and `expected_abs_over_std` (score 4) give one and the same ranking, because
the latter is an increasing function of the former; below a ratio of 0.02 float32 tells only snr apart.
`log_expected_exp_over_std` (score 6) with small scales drops the surest weights first.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bayesprune.core import trees
from bayesprune.core.checks import check_positive
from bayesprune.core.types import Node, PyTree
from bayesprune.formulas import folded, folded_exponential
from bayesprune.model.program import Trainable

__all__ = [
    "evidence",
    "expected_abs",
    "expected_abs_over_std",
    "inclusion",
    "log_expected_exp",
    "log_expected_exp_over_std",
    "magnitude",
    "obd",
    "opd",
    "second_moment",
    "snr",
]
__dir__ = __all__.copy  # what completion offers


SURE = 1e18  # a ratio beyond which nothing is told apart behind a gate


def magnitude(posterior: PyTree) -> PyTree:
    """|E w| = |loc| unit, score 1, in units of the network's weights; times the probability that a weight is there.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(magnitude(MeanField(jnp.array([-2.0]), jnp.array([1.0]))))
    [2.]

    Source: Han et al. 2015.
    """
    return _of_nodes(lambda q: _times_present(q, jnp.abs(q.loc * q.unit)), posterior)


def snr(posterior: PyTree) -> PyTree:
    """|E w|/sd w = |loc|/scale, score 2; weights of scale 0 rank by |loc|, above all others.

    Behind a gate of probability p < 1 no weight is surer than sqrt(p / (1 - p)), and scale 0 ranks by p.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(snr(MeanField(jnp.array([-2.0]), jnp.array([0.5]))))
    [4.]

    Source: Graves 2011; Blundell et al. 2015, section 5.1.
    """
    return _of_nodes(lambda q: _of_mixture(q, folded.signal_to_noise(q.loc, q.scale)), posterior)


def expected_abs(posterior: PyTree) -> PyTree:
    """E|w|, score 3, (4.3), in units of the network's weights.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(expected_abs(MeanField(jnp.array([0.0]), jnp.array([1.0]))))
    [0.7978846]

    Source: Li et al. 2024, eq. (6).
    """
    return _of_nodes(lambda q: _times_present(q, folded.expected_abs(q.loc, q.scale) * jnp.abs(q.unit)), posterior)


def expected_abs_over_std(posterior: PyTree) -> PyTree:
    """E|w|/sd|w|, score 4, (4.4); ranks as `snr` does.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(expected_abs_over_std(MeanField(jnp.array([50.0]), jnp.array([1.0]))))
    [50.]

    Source: Li et al. 2024, eq. (7).
    """
    return _of_nodes(lambda q: _of_mixture(q, folded.expected_abs_over_std(q.loc, q.scale)), posterior)


def log_expected_exp(posterior: PyTree, lam: int | float = 1.0) -> PyTree:
    """log E exp(lam |w|), score 5, the logarithm of (4.5), in nats; ``lam`` in one over the posterior's coordinates.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(log_expected_exp(MeanField(jnp.array([3.0]), jnp.array([0.0])), lam=2.0))
    [6.]

    Source: Li et al. 2024, section 3.3.1.
    """

    def of(q: Node) -> Any:
        there = folded_exponential.log_expected_exp(q.loc, q.scale, lam)
        if not _may_be_zero(q):
            return there
        return jnp.logaddexp(jax.nn.log_sigmoid(-q.log_odds()), jax.nn.log_sigmoid(q.log_odds()) + there)

    return _of_nodes(of, posterior)


def log_expected_exp_over_std(posterior: PyTree, lam: int | float = 1.0) -> PyTree:
    """log of E exp(lam |w|) / sd exp(lam |w|), score 6, the logarithm of (4.6), in nats. `TypeError` of a spike at zero.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> unsure, sure = log_expected_exp_over_std(MeanField(jnp.array([0.0, 9e-4]), jnp.array([1e-4, 1e-4])))
    >>> bool(sure < unsure)  # the surest first, as the module says
    True

    Source: Li et al. 2024, eq. (8), whose Phi is misprinted.
    """

    def of(q: Node) -> Any:
        if _may_be_zero(q):
            raise TypeError(
                "log_expected_exp_over_std is of Gaussian weights, and these are zero with a probability: rank them by "
                "'inclusion', 'expected_abs' or 'snr'."
            )
        return folded_exponential.log_expected_exp_over_std(q.loc, q.scale, lam)

    return _of_nodes(of, posterior)


def second_moment(posterior: PyTree) -> PyTree:
    """log E w² = log(unit² (loc² + scale²)), the logarithm of the second moment; ranks as the p* of (6.1) does.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(second_moment(MeanField(jnp.array([0.6]), jnp.array([0.8]))))
    [0.]

    Source: Saha et al. 2024, remark 1.
    """

    def of(q: Node) -> Any:
        there = 2.0 * jnp.log(jnp.hypot(q.loc, q.scale) * jnp.abs(q.unit))
        return there + jax.nn.log_sigmoid(q.log_odds()) if _may_be_zero(q) else there

    return _of_nodes(of, posterior)


def opd(posterior: PyTree) -> PyTree:
    """loc²/scale², Optimal Posterior Damage P w², P the posterior's precision, (25.4); ranks as `snr` does.

    Of weights that vary together P is one over the marginal variance.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(opd(MeanField(jnp.array([-2.0]), jnp.array([0.5]))))
    [16.]

    Source: Dhahri et al. 2024, equation 8, without its factor of a half.
    """
    return _of_nodes(lambda q: jnp.square(_of_mixture(q, folded.signal_to_noise(q.loc, q.scale))), posterior)


def obd(posterior: PyTree) -> PyTree:
    """H w²/2, Optimal Brain Damage, (25.4), nats: what the log likelihood loses.

    H is the posterior's precision less the prior's, 0 where the posterior is wider than the prior. Raises `ValueError` for a
    node that has no Gaussian prior.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(obd(MeanField(jnp.array([-2.0]), jnp.array([0.5]))))
    [6.]

    Source: LeCun, Denker & Solla 1990, equation 4.
    """
    _check_nodes(posterior)
    check_evidence(posterior)
    return trees.map_nodes(_brain_damage, posterior)


def _may_be_zero(node: Node) -> bool:
    """Whether a weight is zero with a probability of its own, 1 - p: a spike and slab with the spike at zero."""
    return bool(node.gated and getattr(node, "at_zero", True))


def _times_present(node: Node, score: jnp.ndarray) -> Any:
    """A mean over the slab as one over the weight: it is zero outside."""
    return jax.nn.sigmoid(node.log_odds()) * score if _may_be_zero(node) else score


def _of_mixture(node: Node, ratio: jnp.ndarray) -> Any:
    """A ratio r of mean and standard deviation of the slab as that of the weight: p m / sqrt(p (s² + (1 - p) m²)), r = m/s.

    That is sqrt(p) r / sqrt(1 + (1 - p) r²).
    """
    if not _may_be_zero(node):
        return ratio
    present, absent = jax.nn.sigmoid(node.log_odds()), jax.nn.sigmoid(-node.log_odds())
    ratio = jnp.minimum(ratio, SURE)  # infinity times an absence of 0 is no number
    return jnp.sqrt(present) * ratio / jnp.hypot(1.0, jnp.sqrt(absent) * ratio)


def _brain_damage(node: Node) -> Any:
    # By shares of the precision, so that nothing is squared that vanishes.
    ratio = jnp.minimum(node.scale / node.prior_scale, 1.0)
    return 0.5 * jnp.square(folded.signal_to_noise(node.loc, node.scale)) * (1.0 - ratio) * (1.0 + ratio)


def inclusion(posterior: PyTree) -> PyTree:
    """Log-odds of a weight's inclusion probability, from `SpikeSlab` nodes: phi of (5.1), or p* of (6.1); 0 is a half.

    Raises `TypeError` for a node that holds no inclusion probability.

    >>> from bayesprune.posteriors.spike_slab import SpikeSlab
    >>> print(inclusion(SpikeSlab(jnp.array([0.0]), jnp.array([1.0]), jnp.array([-3.0]))))
    [-3.]

    Source: Bai et al. 2020, section 3; Saha et al. 2024, equation 3.8.
    """
    return _of_nodes(lambda q: q.log_odds(), posterior)


def evidence(posterior: PyTree, prior_scale: PyTree = None) -> PyTree:
    """-dF0, the log evidence lost by removing the weight, the negative of (2.5), in nats: above 0 the data want it.

    ``prior_scale``: None takes that of each node; or one standard deviation, or a tree with one (scalar or array) per node, in
    the posterior's coordinates. Raises `TypeError` for a `SpikeSlab`, `ValueError` for a node that has no Gaussian prior, or a
    width that is not positive.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> print(evidence(MeanField(jnp.array([0.0]), jnp.array([0.5]))))
    [-0.6931472]

    Source: Marković et al. 2024, section II-G.
    """
    _check_nodes(posterior)
    if prior_scale is not None:
        for value in jax.tree.leaves(prior_scale):
            check_positive(value, "prior_scale", several=True)
        posterior = trees.map_nodes(lambda q, scale: q.under(scale), posterior, trees.broadcast(prior_scale, posterior))
    check_evidence(posterior)
    return trees.map_nodes(lambda q: -q.gain(), posterior)


def check_evidence(posterior: PyTree, program: Trainable | None = None) -> None:
    """Refuse a posterior whose evidence has no closed form: that of a Gaussian prior is needed.

    ``program``: what was asked for the priors, if anything was.
    """
    for site, node in trees.flatten(posterior).items():
        if node.no_gain:
            raise TypeError(node.no_gain)
        if node.prior_scale is None and program is not None:
            prior = getattr(program, "prior", None)
            which = f"priors.{type(prior).__name__}" if prior is not None else "the program's"
            also = "" if prior is not None else _non_centred(site)
            raise ValueError(
                f"the prior of site {site!r}, {which}, is no fixed Gaussian about zero, so its evidence (2.5) has no closed "
                "form: fit with priors.Gaussian, Flat or Horseshoe, keep the site out by prunable=, or prune by methods.SNR or "
                f"methods.Magnitude; one-shot, prior_scale= puts a Gaussian in its place.{also}"
            )
        if node.prior_scale is None:
            raise ValueError(
                f"site {site!r} has no fixed Gaussian prior about zero that anything here says, so its evidence (2.5) is not "
                "known. If it has one, give program= (the model it was fitted with) or prior_scale= (its standard deviation in "
                "the posterior's coordinates); else keep it out by prunable=, or prune by methods.SNR or methods.Magnitude."
                f"{_non_centred(site)}"
            )


def _of_nodes(function: Callable[[Node], Any], posterior: PyTree) -> PyTree:
    _check_nodes(posterior)
    return trees.map_nodes(function, posterior)


def _check_nodes(posterior: PyTree) -> None:
    for leaf in jax.tree.leaves(posterior, is_leaf=trees.is_node):
        if not trees.is_node(leaf) and not hasattr(leaf, "loc"):
            raise TypeError(
                f"a score is of a posterior's nodes, got a tree with {type(leaf).__name__}: read the parameters before, as in "
                "bnn.read(fit.params), or give a tree of bp.MeanField."
            )


def _non_centred(site: str) -> str:
    return (
        " If another site sets its scale, as in w ~ Normal(0, tau), write it non-centred: "
        f"sample {site!r} from dist.Normal(0, 1) and multiply by that scale, w = tau * {site}, or leave the model as "
        f"it is and let NumPyro do so: handlers.reparam(model, config={{{site!r}: LocScaleReparam(0.0)}}), in model and guide."
    )


# By name: scores 1 to 6 of Li et al. (2024), which need a loc and a scale alone, in their order; then the others.
NUMBERED: dict[str, Callable[..., PyTree]] = {
    score.__name__: score
    for score in (magnitude, snr, expected_abs, expected_abs_over_std, log_expected_exp, log_expected_exp_over_std)
}
BY_NAME = NUMBERED | {score.__name__: score for score in (second_moment, evidence, inclusion, opd, obd)}
