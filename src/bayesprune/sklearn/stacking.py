"""Weights of several forms' predictive laws, by the rows that none of them has seen."""

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp

from bayesprune.sklearn.forms import TREES
from bayesprune.sklearn.measures import is_behind

PSEUDO = 2.0  # rows a form is given beside the held-out ones: eighty of those are few, and one form's luck is not all the law
LEAST = 0.05  # of a weight: one below it moves no prediction, and its fit to all rows costs as much as any other's
WORTH_OF_TREES = 0.005  # that a mixture must be ahead by with trees in it, which are many times a network's size
ROUNDS = 200  # of EM; the weights of four forms move by less than .001 from there on
REFERENCE = "yao2018stacking"


def stacked(nats: dict[str, Float64[np.ndarray, " rows"]]) -> dict[str, float]:
    """The weights of the mixture that predicts held-out rows best, the heaviest form first; those below .05 are left out.

      max_w sum_i log sum_f w_f p_f(y_i | x_i)  +  2 sum_f log w_f,     sum_f w_f = 1                       (21.32)

    for ``nats``, log p_f of each row. The second term is a Dirichlet prior: no form is ruled out by a few rows. By EM.

    >>> weights = stacked({"plain": np.array([0.0, -0.1, -3.0]), "steps": np.array([-3.0, -0.1, 0.0])})
    >>> {form: round(weight, 2) for form, weight in weights.items()}
    {'plain': 0.5, 'steps': 0.5}

    Source: Yao, Vehtari, Simpson & Gelman (2018), equation 4.
    """
    logs = np.stack(list(nats.values()))
    likely = np.exp(logs - logs.max(axis=0))
    weights = np.full(len(logs), 1.0 / len(logs))
    for _ in range(ROUNDS):
        shares = weights[:, None] * likely
        counts = (shares / shares.sum(axis=0)).sum(axis=1) + PSEUDO
        weights = counts / counts.sum()
    kept = {form: float(weight) for form, weight in zip(nats, weights, strict=True) if weight >= LEAST}
    total = sum(kept.values())
    return {form: kept[form] / total for form in sorted(kept, key=lambda form: -kept[form])}


def mixed(nats: dict[str, Float64[np.ndarray, " rows"]], weights: dict[str, float]) -> Float64[np.ndarray, " rows"]:
    """Log density of each row under the mixture.

    >>> mixed({"plain": np.zeros(2), "steps": np.log([0.5, 2.0])}, {"plain": 0.5, "steps": 0.5}).round(3).tolist()
    [-0.288, 0.405]
    """
    return logsumexp([nats[form] + np.log(weight) for form, weight in weights.items()], axis=0)  # type: ignore[no-any-return]


def may_gain(missed: Float64[np.ndarray, "rows outputs"], ahead: Float64[np.ndarray, "rows outputs"]) -> bool:
    """Whether what trees say may save 2 % of the squared errors of m, what is foreseen without them.

    The best step from m towards the trees' f saves the squared correlation r^2 of what m missed and what f is ahead by:

      r = sum_i (y_i - m_i)' (f_i - m_i) / sqrt(sum_i |y_i - m_i|^2 sum_i |f_i - m_i|^2)                   (21.35)

    for ``missed``, y - m, and ``ahead``, f - m. It may where r > 0, and not below the root of .02 by more than one standard
    error, that of the sum above. 2 % are .01 nats a row, of which a mixture has about half.

    >>> missed = np.array([[1.0], [-1.0], [2.0]])
    >>> may_gain(missed, 0.1 * missed), may_gain(missed, -missed), may_gain(missed, np.zeros((3, 1)))
    (True, False, False)
    """
    both = (missed * ahead).sum(axis=1)
    enough = np.sqrt(4.0 * WORTH_OF_TREES * np.square(missed).sum() * np.square(ahead).sum())
    return bool(both.sum() > 0.0) and not is_behind(both - enough / len(both))


def weights_of(nats: dict[str, Float64[np.ndarray, " rows"]]) -> dict[str, float]:
    """Weights as of `stacked`, of a network that reads trees 0 unless the others foresee rows worse without it.

    Worse is by one standard error, and by .005 nats a row: trees read nearly every column, and are no small network.

    >>> near, far = np.linspace(-1.0, 0.0, 50), np.linspace(-2.0, 0.0, 50)
    >>> sorted(weights_of({"plain": near, "trees": near})), sorted(weights_of({"plain": far, "trees": near}))
    (['plain'], ['plain', 'trees'])
    """
    weights, others = stacked(nats), {form: one for form, one in nats.items() if form != TREES}
    if not others or len(others) == len(nats):
        return weights
    without = stacked(others)
    lead = mixed(nats, weights) - mixed(others, without)
    return weights if lead.mean() >= WORTH_OF_TREES and is_behind(-lead) else without
