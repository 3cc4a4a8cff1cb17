"""New running statistics for a pruned network: a batch norm's averages belong to the weights that it saw in training."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import trace

from bayesprune.core.checks import check_integer, check_key
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.numbers import rows_in
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import PyTree
from bayesprune.infer.data import check_batch, check_program_data
from bayesprune.infer.predict import check_bnn, check_sites, draw
from bayesprune.model.bnn import BNN, STATE
from bayesprune.posteriors.samples import draws_of
from bayesprune.train import batches as batching


def recalibrate(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | Any,
    data: GivenRows,
    *,
    mask: dict[str, Any] | Any = None,
    batch_size: int = 128,
    num_batches: int | None = None,
) -> dict[str, Any]:
    """Replace running statistics by their plain average over minibatches, each through a network of its own draw.

    A batch norm predicts with the averages that it kept in training, of networks with weights that have since been pruned.

    Args:
        rng_key: a JAX random key, for the order of rows, the draws of the weights, and dropout, which is on as in training.
        bnn: the network that was fitted.
        params: its parameters, as in ``fit.params`` or ``pruned.params``.
        data: training data, with fields x (rows, *input_shape) and y.
        mask: site -> booleans, True = alive; None prunes nothing beyond what ``params`` hold.
        batch_size: rows of a minibatch; best that of the fit.
        num_batches: minibatches to average over; None takes as many as the data fill.

    Returns:
        ``params`` with a new entry "net$state"; all else is shared. Variances are means of the variances within minibatches.

    Raises:
        ValueError: the network keeps no running statistics, or more than those; data, mask or params are not this network's.
        TypeError: ``bnn`` is no `BNN`.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.ResNet(10, stage_sizes=(), features=4), prior=bp.priors.Gaussian(0.1),
        ...              likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=2, batch_size=64)
        >>> params = bp.recalibrate(jax.random.key(1), bnn, fit.params, train, num_batches=2)
        >>> [name for name in params if params[name] is not fit.params[name]]
        ['net$state']

    Source: Wu & Johnson (2021), Rethinking "Batch" in BatchNorm, section 3 (precise BatchNorm).
    """
    rng_key = check_key(rng_key)
    check_bnn(bnn)
    mask = check_sites(bnn, params, {} if mask is None else mask)
    if draws_of(params):
        raise ValueError(
            "params are stored samples, each with running statistics of its own from when it was taken: predict with them as "
            "they are."
        )
    if STATE not in params:
        raise ValueError(
            f"params hold no running statistics ({STATE!r}): the network keeps none, so that there is nothing to recalibrate; "
            "predict with these params as they are."
        )
    data = check_program_data(bnn, data, "data")
    batch_size = check_batch(batch_size, len(data.y))
    num_batches = len(data.y) // batch_size if num_batches is None else num_batches
    check_integer(num_batches, "num_batches")
    old, updates = params[STATE], _updates(bnn, rng_key, params, mask, data.x, batch_size, num_batches)
    first = next(updates)
    moved = first(old)
    start = jax.tree.map(_start, old, moved)
    total = first(start)
    inertia = jax.tree.map(_inertia, start, total, first(total))
    jax.tree.map(_check_average, old, moved, start, total)
    for update in updates:
        total = jax.tree.map(jnp.add, total, update(start))
    return params | {STATE: jax.tree.map(lambda s, t, m: _mean(s, t / num_batches, m), start, total, inertia)}


Update = Callable[[Any], Any]  # of all statistics by one minibatch, as a step of training does it


def _updates(
    bnn: BNN, rng_key: jax.Array, params: dict[str, Any], mask: dict[str, Any], x: PyTree, batch_size: int, num_batches: int
) -> Iterator[Update]:
    """The updates by minibatches in a random order, each through a network drawn for it."""
    order_key, run_key = jax.random.split(rng_key)
    reading, take = batching.start(order_key, rows_in(x)), jax.jit(batching.take, static_argnums=1)
    for number in range(num_batches):
        reading, rows = take(reading, batch_size)
        yield functools.partial(_run(bnn), params, mask, run_key, number, x, rows)


@functools.lru_cache(maxsize=32)
def _run(bnn: BNN) -> Callable[..., Any]:
    def update(params, mask, rng_key, number, x, rows, state):  # type: ignore[no-untyped-def]
        # A copy: the network updates the dict that it is given in place.
        (network,) = draw(bnn, rng_key, number, params | {STATE: dict(state)}, mask, bnn.network)
        return trace(network).get_trace(jax.tree.map(lambda leaf: leaf[rows], x), train=True)[STATE]["value"]

    return jax.jit(by_one_thread(update))


def _start(old: PyTree, new: PyTree) -> jax.Array:
    """Zero for what a batch moves, so that an update leaves (1 - m) batch without the rounding of a difference: the variance
    of a channel with no weights left is then zero, not a little below. What does not move, or counts, stays."""
    moves = jnp.issubdtype(new.dtype, jnp.floating) and bool(jnp.any(new != old))
    return jnp.zeros_like(new) if moves else jnp.asarray(old)


def _inertia(start: PyTree, first: PyTree, second: PyTree) -> float:
    """The weight m of the old average in new = m old + (1 - m) batch, for any module, whatever its name for it.

    ``first`` is an update of zero, ``second`` the same update of ``first``: it adds m first. 1: nothing moved.
    """
    zero, one, two = (np.asarray(value, np.float64).ravel() for value in (start, first, second))
    moved = one - zero
    return float(moved @ (two - one) / (moved @ moved)) if moved.any() else 1.0


def _check_average(old: PyTree, moved: PyTree, start: jax.Array, total: jax.Array) -> None:
    """Refuse what moves and is no running average: updates of two states differ by a part m < 1 of the states' difference."""
    states = [np.asarray(one, np.float64).ravel() for one in (old, moved, start, total)]
    was, change = states[0] - states[2], states[1] - states[3]
    if not was.any():
        return
    share = float(was @ change / (was @ was))
    near = 16 * float(jnp.finfo(start.dtype).eps) * sum(float(np.abs(one).max()) for one in states)
    if not (share < 1.0 - 1e-5 and np.allclose(change, share * was, rtol=0.0, atol=near)):
        raise ValueError(
            "the network's state holds more than running averages of batches, as nn.SpectralNorm's does, and a mean over "
            "minibatches is none of that: predict with these params as they are."
        )


def _mean(start: jax.Array, mean_update: jax.Array, inertia: float) -> jax.Array:
    return (mean_update / (1.0 - inertia)).astype(start.dtype) if inertia < 1.0 else start
