"""Streams of random numbers: for every purpose a number of its own, which is folded into the key that it is drawn from.

One enumeration for each kind of key, so that no two purposes of one key share a stream. A number counts for ever: another one
draws other numbers.
"""

from enum import IntEnum

import jax
import numpy as np

from bayesprune.core.keys import Key
from bayesprune.core.send import send


class OfAFit(IntEnum):
    """Of the key of a fit, which is also split into three: that gives the same keys as 0, 1 and 2 would."""

    SPARSIFIER = 3


class OfAStep(IntEnum):
    """Of the key of a step of training, and of a chain's key; far from steps and particles, which count up from 0."""

    PRUNING = 2**31
    AUGMENTING = 2**31 + 1
    MOVING = 2**31 + 2  # the kernel
    STARTING = 2**31 + 3  # the network that a chain starts from
    REDRAWING = 2**31 + 4  # dead weights


class OfAnAct(IntEnum):
    """Of the key of one pruning pass, from which the sparsifier itself draws."""

    VERIFYING = 2**31


class OfANetwork(IntEnum):
    """Of the key of one drawn network, from which its weights and gates are drawn; far from blocks of rows, which count up."""

    TARGETS = 2**31


class OfACurvature(IntEnum):
    """Of the key of a posterior from second derivatives; far from rows, which count up."""

    DRAWING = 2**31


class OfAnEstimator(IntEnum):
    """Of the key of a fitted scikit-learn estimator, by which it was trained."""

    PREDICTING = 1
    DISTRIBUTION = 2
    CUTTING = 3
    POSTERIOR = 4
    MEMBERS = 5


def stream(rng_key: Key, purpose: IntEnum) -> jax.Array:
    """The key of a purpose.

    >>> key = jax.random.key(0)
    >>> bool(stream(key, OfAFit.SPARSIFIER) == jax.random.fold_in(key, 3))
    True
    """
    number = np.uint32(purpose)
    # On its way to the device, a number says so; in a compiled function it is a constant.
    return jax.random.fold_in(rng_key, number if isinstance(rng_key, jax.core.Tracer) else send(number))
