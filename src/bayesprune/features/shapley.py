"""Shapley values of a game: how a total is shared out among its players, exactly, or by orders that are drawn."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from bayesprune.core.checks import check_integer

Game = Callable[[Bool[np.ndarray, "coalitions players"]], Float64[np.ndarray, "coalitions *shape"]]


class Shared(NamedTuple):
    """``values``: (players, ...), which add up to the value of all less that of none. ``error``: their standard error."""

    values: Float64[np.ndarray, "players *shape"]
    error: Float64[np.ndarray, "players *shape"]


def shapley_exact(game: Game, num_players: int) -> Shared:
    """The worth of all coalitions, each evaluated once.

      phi_i = sum_{S without i}  |S|! (k - |S| - 1)! / k!  (v(S + i) - v(S))      (6.4)

    Args:
        game: v, of many coalitions at once: (coalitions, players) booleans -> (coalitions, ...).
        num_players: k; v is asked 2^k times.

    Raises:
        ValueError: ``num_players`` is no positive whole number.

    Example:
        >>> shapley_exact(lambda who: 1.0 * who.all(axis=1), 2).values.tolist()
        [0.5, 0.5]

    Source: Shapley (1953); Lundberg & Lee (2017), eq. 4.
    """
    check_integer(num_players, "num_players")
    numbers = np.arange(2**num_players)
    who = (numbers[:, None] >> np.arange(num_players)) & 1 == 1
    worth = np.asarray(game(who), np.float64)
    sizes = np.arange(num_players)
    weight = np.array([math.factorial(s) * math.factorial(num_players - s - 1) / math.factorial(num_players) for s in sizes])
    shares = []
    for player in range(num_players):
        without = numbers[~who[:, player]]
        gains = worth[without + 2**player] - worth[without]
        shares.append(np.tensordot(weight[who[without].sum(axis=1)], gains, axes=1))
    values = np.stack(shares)
    return Shared(values, np.zeros_like(values))


def shapley_sampled(rng: np.random.Generator, game: Game, num_players: int, num_orders: int = 32) -> Shared:
    """Players come one by one in orders drawn at random, each order read backwards too; a share is its player's mean gain.

      phi_i = E_order[v(those before i, and i) - v(those before i)]      (6.5)

    Args:
        rng: a NumPy generator.
        game, num_players: as of `shapley_exact`.
        num_orders: m >= 2 pairs of an order and its reverse; v is asked 2 m (k + 1) times.

    Shares add up exactly. ``error`` is s / sqrt(m), with s the standard deviation over pairs.

    Raises:
        ValueError: fewer than two pairs, or no player.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> shapley_sampled(rng, lambda who: who @ np.array([1.0, 2.0]), 2).values.tolist()
        [1.0, 2.0]

    Source: Castro, Gómez & Tejada (2009); Mitchell et al. (2022) for the pairs.
    """
    check_integer(num_players, "num_players")
    check_integer(num_orders, "num_orders", minimum=2)
    each = []
    for _ in range(num_orders):
        order = rng.permutation(num_players)
        each.append(0.5 * (_gains(game, order) + _gains(game, order[::-1])))
    pairs = np.stack(each)
    return Shared(pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / math.sqrt(num_orders))


def _gains(game: Game, order: np.ndarray) -> np.ndarray:
    """What each player adds to those before."""
    place = np.argsort(order)
    worth = np.asarray(game(np.arange(len(order) + 1)[:, None] > place), np.float64)
    return np.diff(worth, axis=0)[place]
