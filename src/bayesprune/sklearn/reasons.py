"""Why a row is predicted as it is: Shapley values of the few inputs that the network still reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped
from numpy.typing import ArrayLike

from bayesprune.core.checks import check_integer
from bayesprune.core.numbers import spread_out
from bayesprune.features.shapley import shapley_exact, shapley_of_worlds
from bayesprune.sklearn.coalitions import said_of_mixtures

BACKGROUND = 32  # rows of the training data that stand for what is not known
EXACT = 10  # inputs up to which every coalition is asked
NETWORKS = 25  # drawn for the spread
MOST = 1 << 23  # numbers of mixtures that are made at once

Who = Bool[np.ndarray, "coalitions players"]
Said = Float64[np.ndarray, "coalitions some outputs"]


class Reasons(NamedTuple):
    """What each input adds to a prediction, (rows, features) or (rows, features, outputs); zero of inputs that are not read.

    ``values`` of a row add up to its prediction less ``base``, the mean prediction of the background. ``error``: their standard
    error, of the orders that were drawn and of the networks that did not play; zero where all orders and networks did.
    ``spread``: their standard deviation over networks.
    """

    values: Float64[np.ndarray, "rows features *outputs"]
    base: Float64[np.ndarray, "*outputs"]
    error: Float64[np.ndarray, "rows features *outputs"]
    spread: Float64[np.ndarray, "rows features *outputs"]


@dataclass(frozen=True)
class Mixtures:
    """What networks predict where only some inputs are known: a game of coalitions in worlds, see `features.shapley_of_worlds`.

    ``row``: the numbers that are known; ``others``: of each world those that stand for what is not; ``owned``: of each player
    the places of its numbers; ``played``: of rows (networks, rows, ...).
    """

    row: Shaped[np.ndarray, " numbers"]
    others: Shaped[np.ndarray, "worlds numbers"]
    owned: Sequence[Int64[np.ndarray, " _"]]
    played: Callable[[np.ndarray], np.ndarray]

    def in_worlds(
        self, who: Who, worlds: Int64[np.ndarray, "coalitions some"], said: Said | None = None
    ) -> Float64[np.ndarray, "coalitions some networks *outputs"]:
        """Of each network and, last, of their mean: its error is not the mean of errors.

        ``said``: further numbers of each mixture. So many mixtures are made at once as fit into some memory.
        """
        said = np.zeros((*worlds.shape, 0)) if said is None else said
        parts = -(-worlds.size * len(self.row) // MOST)
        split = [np.array_split(values, parts) for values in (who, worlds, said)]
        by_network = np.concatenate([self._together(*part) for part in zip(*split, strict=True)], axis=1)
        return np.moveaxis(np.concatenate([by_network, by_network.mean(axis=0, keepdims=True)]), 0, 2)

    def _together(self, who: np.ndarray, worlds: np.ndarray, said: np.ndarray) -> np.ndarray:
        rows = self.others[worlds]
        for player, places in enumerate(self.owned):
            rows[np.ix_(who[:, player], np.arange(worlds.shape[1]), places)] = self.row[places]
        rows = np.concatenate([rows, said], axis=2)
        found = self.played(rows.reshape((-1, rows.shape[-1])))
        return found.reshape((len(found), *worlds.shape, *found.shape[2:]))

    def in_all_worlds(self, who: Who, said: Said) -> Float64[np.ndarray, "coalitions networks *outputs"]:
        """The mean over worlds."""
        worlds = np.tile(np.arange(len(self.others)), (len(who), 1))
        return self.in_worlds(who, worlds, said).mean(axis=1)


class WithReasons:
    """The method `explain` of both estimators."""

    def explain(self: Any, X: ArrayLike | Any, num_orders: int | Any = 16, random_state: int | Any = 0) -> Reasons:
        """Shapley values of each row's prediction, of the predictive mean in y's units or of the class probabilities.

          v(S) = mean over background rows b, and over networks w, of f_w(x_S, b_rest)      (6.6)

        Inputs outside S have the values of training rows, 32 of them evenly spaced in their order. Only inputs that the network
        still reads (``used_features_``) play: up to ten of them exactly, (6.4), by all 2^k coalitions; more by orders drawn at
        random, (6.5), each with a quarter of those rows. Coalitions are played by at most 25 of the ``num_samples`` networks;
        of all of them the total is known, f(x) - E_b f(b). What the 25 miss of it goes to the inputs by how their values follow
        their sum from network to network (a control variate),

          phi_j + Cov(phi_j, sum_i phi_i) / Var(sum_i phi_i) (total - sum_i phi_i),

        so that a row's values add up to its prediction.

        Args:
            X: (rows, features).
            num_orders: pairs of an order and its reverse, where there are more than ten.
            random_state: a whole number, for other orders.

        Example:
            >>> import numpy as np, bayesprune as bp
            >>> x = np.random.default_rng(0).standard_normal((60, 2))
            >>> model = bp.BayesianSparseRegressor(hidden=(), num_steps=300, num_samples=10, random_state=0).fit(x, 3 * x[:, 0])
            >>> model.explain(x[:4]).values.shape
            (4, 2)

        Source: Lundberg & Lee (2017); Janzing, Minorics & Blöbaum (2020) for inputs that are set, not conditioned on.
        """
        check_integer(num_orders, "num_orders", minimum=2)
        check_integer(random_state, "random_state", minimum=0)
        x = self._rows(X)
        players = np.flatnonzero(self.used_features_)
        rng = np.random.default_rng(random_state)
        base = self._drawn(self._background, self.num_samples).mean(axis=(0, 1))
        total = self._drawn(x, self.num_samples).mean(axis=0) - base  # (rows, ...)
        shape = (len(x), self.n_features_in_, *base.shape)
        values, error, spread = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for place, row in enumerate(x):
            shares, of_orders = self._shares(rng, row, players, num_orders)
            values[place, players], apart = _of_all(shares, np.asarray(total[place]))
            missing = max(0.0, 1.0 - shares.shape[1] / self.num_samples)  # of a part of the networks that there are
            error[place, players] = np.sqrt(np.square(of_orders) + missing * np.square(apart))
            spread[place, players] = shares.std(axis=1)
        return Reasons(values, base, error, spread)

    def _shares(
        self: Any, rng: np.random.Generator, row: np.ndarray, players: np.ndarray, num_orders: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(players, networks, ...) and the standard errors of their means over networks."""
        if not len(players):
            empty = self._played(row[None])[:, 0]
            return np.zeros((0, *empty.shape)), np.zeros((0, *empty.shape[1:]))

        owned = [np.flatnonzero(self._reading.owner == player) for player in players]
        game = Mixtures(row, self._background, owned, self._played)
        if len(players) <= EXACT:
            said = said_of_mixtures(self._columns, row, self._background, owned)
            found = shapley_exact(lambda who: game.in_all_worlds(who, said), len(players))
        else:
            found = shapley_of_worlds(rng, game.in_worlds, len(players), len(self._background), num_orders)
        return found.values[:, :-1], found.error[:, -1]

    def _played(self: Any, x: np.ndarray) -> np.ndarray:
        """Predictions of a few networks, always the same: (networks, rows, ...)."""
        return self._drawn(x, min(NETWORKS, self.num_samples))


def background(rows: int) -> Int64[np.ndarray, " some"]:
    """Some rows that represent all, spread over the whole table: it may be sorted.

    >>> background(63)[[0, 1, -2, -1]].tolist()
    [0, 2, 60, 62]
    """
    return spread_out(rows, BACKGROUND)


def _of_all(
    shares: Float64[np.ndarray, "players networks *outputs"], total: Float64[np.ndarray, "*outputs"]
) -> tuple[Float64[np.ndarray, "players *outputs"], Float64[np.ndarray, "players *outputs"]]:
    """The mean shares of all networks, whose total is known, by those of some, see `WithReasons.explain`; their errors.

    The errors are those of independent draws: what of a share does not follow the sum, over the root of the number of networks.

    >>> means, errors = _of_all(np.array([[1.0, 3.0], [5.0, 5.0]]), np.array(8.0))
    >>> means.tolist(), errors.tolist()
    ([3.0, 5.0], [0.0, 0.0])
    """
    found, moves = shares.mean(axis=1), shares - shares.mean(axis=1, keepdims=True)
    if not len(shares):
        return found, found
    follow = (moves * moves.sum(axis=0)).mean(axis=1)
    whole = follow.sum(axis=0)
    alike = np.full_like(follow, 1.0 / len(follow))  # of networks whose totals are all the same
    weights = np.divide(follow, whole, out=alike, where=whole > 1e-12 * np.square(shares).sum(axis=(0, 1)))
    rest = moves - weights[:, None] * moves.sum(axis=0)
    return found + weights * (total - found.sum(axis=0)), rest.std(axis=1) / np.sqrt(max(1, shares.shape[1] - 1))
