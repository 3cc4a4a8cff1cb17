"""Shapley values of a game: how a total is shared out among its players, exactly, or by orders that are drawn."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from bayesprune.core.checks import check_integer

Who = Bool[np.ndarray, "coalitions players"]
Game = Callable[[Who], Float64[np.ndarray, "coalitions *shape"]]
GameInWorlds = Callable[[Who, Int64[np.ndarray, "coalitions worlds"]], Float64[np.ndarray, "coalitions worlds *shape"]]


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
        ValueError: ``num_players`` is no positive whole number, or the game gives another number of values.

    Example:
        >>> shapley_exact(lambda who: 1.0 * who.all(axis=1), 2).values.tolist()
        [0.5, 0.5]

    Source: Shapley (1953); Lundberg & Lee (2017), eq. 4.
    """
    check_integer(num_players, "num_players")
    numbers = np.arange(2**num_players)
    who = (numbers[:, None] >> np.arange(num_players)) & 1 == 1
    worth = _worth(game, who)
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
        ValueError: fewer than two pairs, no player, or the game gives another number of values.

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


def shapley_of_worlds(
    rng: np.random.Generator, game: GameInWorlds, num_players: int, num_worlds: int, num_orders: int = 16
) -> Shared:
    """As `shapley_sampled`, of a game that is the mean over worlds: each pair of orders plays in a quarter of them.

      phi_i = 1/m sum_pairs  mean_{w in W_pair} [v_w(those before i, and i) - v_w(those before i)]      (6.5)

    All worlds are played in equally often. So shares add up exactly, and what a world adds to a player's share in all orders
    alike is as in the mean. For the same number of games four times as many orders are heard.

    Args:
        rng, num_players: as of `shapley_sampled`.
        game: v of coalitions, (coalitions, players) booleans, each in some worlds, (coalitions, worlds) numbers of these:
            -> (coalitions, worlds, ...). Asked once, of 2 m (k + 1) coalitions.
        num_worlds: how many there are.
        num_orders: m >= 2 pairs of an order and its reverse; few pairs play in more worlds, so that each is played in twice.

    ``error`` is that of pairs and of what is left of gains that are a pair's part plus a world's, in an analysis of variance:
    what a world adds in all orders is no error.

    Raises:
        ValueError: fewer than two pairs, no player, or no world.

    Example:
        >>> heavy = np.array([1.0, 5.0])  # what the first player adds in each of two worlds
        >>> game = lambda who, worlds: who[:, :1] * heavy[worlds] + who[:, 1:]
        >>> found = shapley_of_worlds(np.random.default_rng(0), game, num_players=2, num_worlds=2)
        >>> found.values.tolist(), bool(found.error.max() < 1e-6)
        ([3.0, 1.0], True)

    Source: as of `shapley_sampled`; Scheffé (1959), section 5.2, for the analysis of variance.
    """
    check_integer(num_players, "num_players")
    check_integer(num_worlds, "num_worlds")
    check_integer(num_orders, "num_orders", minimum=2)
    worlds = _dealt(rng, num_worlds, num_orders)
    orders = np.stack([rng.permutation(num_players) for _ in worlds])
    place = np.argsort(np.stack([orders, orders[:, ::-1]], axis=1), axis=2)  # (pairs, 2, players)
    before = np.arange(num_players + 1)[:, None] > place[:, :, None]
    who = before.reshape((-1, num_players))
    worth = np.asarray(game(who, np.repeat(worlds, len(who) // num_orders, axis=0)), np.float64)
    steps = np.diff(worth.reshape((*before.shape[:3], *worth.shape[1:])), axis=2)
    gains = np.take_along_axis(steps, place.reshape((*place.shape, *[1] * (worth.ndim - 1))), axis=2)
    gains = np.moveaxis(gains.mean(axis=1), 2, 1)  # (pairs, worlds of a pair, players, ...)
    return Shared(gains.mean(axis=(0, 1)), np.sqrt(_variance(gains, worlds, num_worlds) / num_orders))


def _dealt(rng: np.random.Generator, num_worlds: int, num_orders: int) -> Int64[np.ndarray, "pairs some"]:
    """Worlds for each pair of orders: a quarter of them or a few more, so that each of them is dealt equally often, and twice.

    >>> _dealt(np.random.default_rng(0), num_worlds=32, num_orders=16).shape
    (16, 8)
    """
    least = max(-(-num_worlds // 4), -(-2 * num_worlds // num_orders), min(2, num_worlds))
    some = next(number for number in range(least, num_worlds + 1) if num_orders * number % num_worlds == 0)
    rounds = [rng.permutation(num_worlds) for _ in range(num_orders * some // num_worlds)]
    return np.concatenate(rounds).reshape((num_orders, some))


def _variance(
    gains: Float64[np.ndarray, "pairs some players *shape"], worlds: Int64[np.ndarray, "pairs some"], num_worlds: int
) -> Float64[np.ndarray, "players *shape"]:
    """Of a pair's mean, if what a world adds to all pairs is taken off: s_pair² + s_rest² / some, see `shapley_of_worlds`.

    Least squares gives each pair's part, which has in it some of the rest: how much, its covariance says.
    """
    pairs, some = worlds.shape
    pair = np.repeat(np.arange(pairs), some)
    parts = np.concatenate([np.eye(pairs)[pair], np.eye(num_worlds)[worlds.ravel()]], axis=1)
    seen, inverse = gains.reshape((len(pair), -1)), np.linalg.pinv(parts.T @ parts)
    found = inverse @ parts.T @ seen
    free = len(pair) - np.linalg.matrix_rank(parts)
    rest = np.square(seen - parts @ found).sum(axis=0) / max(1, free)
    covariance = inverse[:pairs, :pairs]
    too_much = (np.trace(covariance) - covariance.sum() / pairs) / (pairs - 1)
    of_pairs = np.maximum(0.0, found[:pairs].var(axis=0, ddof=1) - too_much * rest)
    return (of_pairs + rest / some).reshape(gains.shape[2:])


def _gains(game: Game, order: np.ndarray) -> np.ndarray:
    """What each player adds to those before."""
    place = np.argsort(order)
    return np.diff(_worth(game, np.arange(len(order) + 1)[:, None] > place), axis=0)[place]


def _worth(game: Game, who: Who) -> np.ndarray:
    worth = np.asarray(game(who), np.float64)
    if len(worth) != len(who):
        raise ValueError(f"game must give one value for each of {len(who)} coalitions, got shape {worth.shape}.")
    return worth
