"""Shapley values, exact (6.4) and of orders drawn (6.5), against all orders one by one."""

import itertools

import numpy as np
import pytest

from bayesprune.features.shapley import shapley_exact, shapley_sampled


def table_game(players: int, seed: int = 0):
    """A game whose every coalition has a value of its own, two outputs each."""
    worth = np.random.default_rng(seed).normal(size=(2**players, 2))
    return lambda who: worth[who @ 2 ** np.arange(players)]


def by_all_orders(game, players: int) -> np.ndarray:
    total = np.zeros((players, 2))
    orders = list(itertools.permutations(range(players)))
    for order in orders:
        who = np.zeros((1, players), bool)
        for player in order:
            before = game(who)[0]
            who[0, player] = True
            total[player] += game(who)[0] - before
    return total / len(orders)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("players", [4, 1, 5])
def test_eq_6_4_is_the_mean_over_all_orders(players: int) -> None:
    game = table_game(players)
    found = shapley_exact(game, players)
    np.testing.assert_allclose(found.values, by_all_orders(game, players), atol=1e-12)
    assert not found.error.any()


def test_eq_6_5_comes_near_within_its_error_and_adds_up() -> None:
    """Five players, two outputs, 2,000 pairs: ten z-scores; one beyond 5 is a chance of 6e-6."""
    game = table_game(5)
    found = shapley_sampled(np.random.default_rng(1), game, 5, num_orders=2000)
    wanted = by_all_orders(game, 5)
    assert (np.abs(found.values - wanted) < 5 * found.error).all() and found.error.max() < 0.1
    ends = game(np.array([[True] * 5, [False] * 5]))
    np.testing.assert_allclose(found.values.sum(axis=0), ends[0] - ends[1], atol=1e-12)


def test_one_pair_has_no_error_and_is_refused() -> None:
    with pytest.raises(ValueError, match="num_orders"):
        shapley_sampled(np.random.default_rng(0), table_game(2), 2, num_orders=1)
