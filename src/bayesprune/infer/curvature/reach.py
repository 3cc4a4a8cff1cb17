"""How far draws of a posterior may go: what they do to the likelihood, beside what its second derivatives say that they do."""

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import logsumexp

from bayesprune.core.numbers import rows_in, spread_out
from bayesprune.core.send import send, send_all
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, Dataset, Node
from bayesprune.infer.curvature.gaussians import Asked, FoundGaussian
from bayesprune.infer.curvature.over_rows import Arrays, LogDensity, Trained, outputs_of_rows
from bayesprune.model.bnn import BNN

MOST = 2.0**24  # the factor at which a search ends: its weights are as good as points
PAIRS = 8  # of networks: a draw and its mirror image about the means, between which odd terms cancel
ROWS = 500  # of the training data, over which the rise is taken
AT_ONCE = 256  # rows whose outputs are taken at once
SLIGHT = 0.01  # nats a row: draws that cost no more are let be
SINCE_BEST = 3  # doublings without a better score of held-out rows, after which the search ends


class Rise(NamedTuple):
    """Of -log p(y | x, w) by draws, nats a row: as second derivatives have it, tr(H S) / 2, and as it is."""

    expected: float
    found: float

    def holds(self, excess: float) -> bool:
        """Whether (25.9) does."""
        return self.found <= max(excess * self.expected, SLIGHT)


class Draws:
    """log p(y | x, w) of a trained network and of networks drawn around it, by the same noise at every call.

    ``units``: site -> what one unit of a node's weights is in the network.
    """

    def __init__(
        self, rng_key: jax.Array, bnn: BNN, trained: Trained, density: LogDensity, units: Mapping[str, jax.Array]
    ) -> None:
        self._rng_key, self._trained, self._units = rng_key, trained, dict(units)

        # All arrays are arguments: as constants of a program they would be kept twice.
        @jax.jit
        @by_one_thread
        def nats(trained: Trained, weights: Arrays, x: ArrayTree, y: ArrayTree) -> jax.Array:
            return jax.vmap(density)(outputs_of_rows(bnn, trained, weights, x), y)

        @jax.jit
        def pair(key: jax.Array, nodes: dict[str, Node], means: Arrays, units: Arrays) -> tuple[Arrays, Arrays]:
            keys = dict(zip(nodes, jax.random.split(key, len(nodes)), strict=True))
            drawn = {site: node.draw(keys[site]) * units[site] for site, node in nodes.items()}
            return drawn, {site: 2 * means[site] - weights for site, weights in drawn.items()}

        self._nats, self._pair = nats, pair

    def at_the_means(self, data: Dataset) -> np.ndarray:
        """Of the trained network, (rows,)."""
        return self._of(self._trained.weights, data)

    def of(self, nodes: dict[str, Node], data: Dataset) -> np.ndarray:
        """Of the networks drawn, (2 * PAIRS, rows)."""
        found, nodes = [], send_all(nodes)  # a unit may be a number of Python's
        for index in range(PAIRS):
            key = jax.random.fold_in(self._rng_key, send(index, np.uint32))
            found += [self._of(weights, data) for weights in self._pair(key, nodes, self._trained.weights, self._units)]
        return np.stack(found)

    def _of(self, weights: Arrays, data: Dataset) -> np.ndarray:
        parts = []
        for first in range(0, rows_in(data.x), AT_ONCE):
            x, y = jax.tree.map(lambda leaf, at=first: send(leaf[at : at + AT_ONCE]), (data.x, data.y))
            parts.append(np.asarray(self._nats(self._trained, weights, x, y), np.float64))
        return np.concatenate(parts)


def in_reach(
    first: FoundGaussian,
    posterior: Callable[[Asked], FoundGaussian],
    asked: Asked,
    draws: Draws,
    nodes: Callable[[FoundGaussian], dict[str, Node]],
    data: Dataset,
    held_out: Dataset | None,
    excess: float | None,
) -> tuple[FoundGaussian, dict[str, np.ndarray]]:
    """The posterior whose draws keep to (25.9), or foresee held-out rows best, and what the history says of it.

    ``first``: that of the evidence's precisions, or of those that are given, where it stays; ``posterior``: of any.
    """
    if excess is None and held_out is None:
        return first, {}
    rows = _some(data)
    at_the_means = draws.at_the_means(rows).mean()

    def at(factor: float) -> FoundGaussian:
        return first if factor == 1.0 else posterior(asked._replace(start=first.delta * factor, chosen=False))

    @cache
    def rise_at(factor: float) -> Rise:
        found = at(factor)
        return Rise(found.trace / 2.0 / rows_in(data.x), float(at_the_means - np.mean(draws.of(nodes(found), rows))))

    if held_out is not None:
        factor = _best_of_held_out(lambda factor: draws.of(nodes(at(factor)), held_out))
    else:
        factor = _least_that_holds(rise_at, excess) if excess is not None and asked.chosen else 1.0
    rise = rise_at(factor)
    if excess is not None and held_out is None and not rise.holds(excess):
        _warn_of(rise)
    notes = {"factor": factor, "expected_rise": rise.expected, "rise": rise.found}
    return at(factor), {f"laplace/{name}": np.asarray([value]) for name, value in notes.items()}


def _some(data: Dataset) -> Dataset:
    """Up to ``ROWS`` of the rows."""
    rows = spread_out(rows_in(data.x), ROWS)
    return Dataset(*jax.tree.map(lambda leaf: np.asarray(leaf)[rows], (data.x, data.y)))


def _least_that_holds(rise_at: Callable[[float], Rise], excess: float) -> float:
    """The least factor, a power of two, at which (25.9) holds; ``MOST`` if none does."""
    factor = 1.0
    while factor < MOST and not rise_at(factor).holds(excess):
        factor *= 2.0
    return factor


def _best_of_held_out(drawn_at: Callable[[float], np.ndarray]) -> float:
    """The factor, a power of two, of the highest mean of log p(y | x), by log p(y | x, w) of drawn networks, (draws, rows)."""
    best, highest, factor = 1.0, -np.inf, 1.0
    while factor <= MOST and not (np.isfinite(highest) and factor > best * 2.0**SINCE_BEST):
        score = float(np.mean(logsumexp(drawn_at(factor), axis=0)))
        if score > highest:
            best, highest = factor, score
        factor *= 2.0
    return best


def _warn_of(rise: Rise) -> None:
    """Say by how much draws go beyond what second derivatives say."""
    warnings.warn(
        f"networks drawn from this posterior have -log p(y | x, w) higher by {rise.found:.2g} nats a row, where second "
        f"derivatives say {rise.expected:.2g}: the precision is too low. Let it be chosen, prior_precision='layer', or "
        "give a greater number.",
        stacklevel=5,
    )
