"""Shapley values, exact (6.4) and of orders drawn (6.5), against all orders one by one."""

import itertools

import numpy as np
import pytest

from bayesprune.features.shapley import shapley_exact, shapley_of_worlds, shapley_sampled


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


def worlds_game(players: int, worlds: int):
    """A game in several worlds: a value of each player that varies among them, and of each coalition of its own."""
    rng = np.random.default_rng(5)
    alone, rest = rng.normal(size=(worlds, players, 2)), 0.3 * rng.normal(size=(worlds, 2**players, 2))

    def worth(who: np.ndarray, where: np.ndarray) -> np.ndarray:
        return np.einsum("cp,cwpo->cwo", who, alone[where]) + rest[where, (who @ 2 ** np.arange(players))[:, None]]

    return worth


def test_eq_6_5_over_worlds_comes_near_within_its_error_and_adds_up() -> None:
    """Five players, two outputs, 400 pairs in twelve worlds: ten z-scores; one beyond 5 is a chance of 6e-6."""
    game = worlds_game(5, 12)

    def mean(who: np.ndarray) -> np.ndarray:
        return game(who, np.tile(np.arange(12), (len(who), 1))).mean(axis=1)

    found = shapley_of_worlds(np.random.default_rng(1), game, 5, 12, num_orders=400)
    wanted = by_all_orders(mean, 5)
    assert (np.abs(found.values - wanted) < 5 * found.error).all() and found.error.max() < 0.02
    ends = mean(np.array([[True] * 5, [False] * 5]))
    np.testing.assert_allclose(found.values.sum(axis=0), ends[0] - ends[1], atol=1e-12)


def test_errors_over_worlds_are_those_that_repeated_keys_have() -> None:
    """Sixteen pairs, 300 keys: the root mean square of an error said is that of what is missed, or somewhat more."""
    game = worlds_game(4, 8)
    missed, said = [], []
    wanted = by_all_orders(lambda who: game(who, np.tile(np.arange(8), (len(who), 1))).mean(axis=1), 4)
    for seed in range(300):
        found = shapley_of_worlds(np.random.default_rng(seed), game, 4, 8, num_orders=16)
        missed.append(found.values - wanted)
        said.append(found.error)
    ratio = np.sqrt(np.mean(np.square(said)) / np.mean(np.square(missed)))
    assert 0.9 < ratio < 1.3, ratio


@pytest.mark.parametrize(("worlds", "pairs"), [(1, 2), (32, 16), (32, 2), (7, 3), (60, 16), (5, 40)])
def test_every_world_is_dealt_equally_often_and_twice(worlds: int, pairs: int) -> None:
    seen = []

    def game(who: np.ndarray, where: np.ndarray) -> np.ndarray:
        seen.append(where)
        return np.zeros(where.shape)

    shapley_of_worlds(np.random.default_rng(0), game, 3, worlds, pairs)
    counts = np.bincount(seen[0].ravel(), minlength=worlds)
    assert len(set(counts)) == 1 and counts[0] >= 2 * 8  # of two orders, four coalitions each


def test_a_game_of_other_coalitions_than_were_asked_for_is_refused() -> None:
    game = lambda who: np.arange(17.0)  # noqa: E731
    with pytest.raises(ValueError, match=r"one value for each of 4 coalitions, got shape \(17,\)"):
        shapley_exact(game, 2)
    with pytest.raises(ValueError, match=r"one value for each of 3 coalitions, got shape \(17,\)"):
        shapley_sampled(np.random.default_rng(0), game, 2)
