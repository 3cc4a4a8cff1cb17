"""MC dropout: a network's own dropout left on in prediction, so that draws of it are draws of an approximate posterior."""

import copy
from typing import Any

from bayesprune.core.checks import got
from bayesprune.core.keys import abstract_key
from bayesprune.core.traced import needs_first
from bayesprune.model.bnn import BNN

REFERENCE = "gal2016dropout"


def mc_dropout(bnn: BNN | Any) -> BNN:
    """The network whose dropout stays on in prediction: ``predict``, ``predict_draws``, ``evaluate``, ... then average it.

      p(y | x) = E_z p(y | x, z w),  z_i = 0 with probability p, else 1/(1 - p)                                   (14.1)

    Fit the network itself, with ``posterior="map"`` and its dropout, as always; predict with this one. Weights that have a
    posterior are drawn besides. Each draw has gates of its own; within one, rows that are 125 apart share theirs, which changes
    no mean over draws. There is no evidence in it and nothing to prune by: the divergence of a point mass is infinite
    (Hron et al. 2018).

    Args:
        bnn: a `BNN` whose net drops in training.

    Raises:
        TypeError: ``bnn`` is no `BNN`.
        ValueError: the net has no noise in training; or it has batch statistics, in training those of the rows at hand.

    Example:
        >>> import jax, numpy as np, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10, dropout=0.2), prior=bp.priors.Gaussian(), posterior="map",
        ...              likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=2, batch_size=64)
        >>> bp.predict_draws(jax.random.key(1), bp.mc_dropout(bnn), fit.params, test.x[:5], num_samples=3).std(0).min() > 0
        np.True_

    Source: Gal & Ghahramani (2016).
    """
    if not isinstance(bnn, BNN):
        raise TypeError(f"bnn must be a bp.BNN, got {got(bnn)}.")
    if bnn._net.has_state:
        raise ValueError(
            "this net has batch statistics, which with dropout on would be those of the rows that are predicted: take "
            "norm='group', or an ensemble by bp.fit_replicates."
        )
    outputs = lambda key, params, x: bnn._net.apply(params, {}, x, True, key)[0]  # noqa: E731
    if not needs_first(outputs, abstract_key(), bnn._net.params, bnn.inputs.abstract(2)):
        raise ValueError(
            "this net has no noise in training: give it dropout=, fit it, and predict by that one's bp.mc_dropout."
        )
    other = copy.copy(bnn)
    other.drops, other._rest_of_key = True, (*bnn._rest_of_key, "drops")
    return other.under(bnn.family)  # whose key is made anew
