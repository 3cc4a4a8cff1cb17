"""What trees say of all mixtures of a row with others, against a walk for each mixture."""

import functools

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.sklearn import boosting, coalitions, forest, reasons
from bayesprune.sklearn.trees import Trees

PLAYER = np.array([0, 1, 2, 3, 3, -1])  # one player has two columns, and one column has no player


@functools.cache
def grown(kind: str) -> tuple[np.ndarray, Trees]:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 4, (300, 3)), rng.standard_normal((300, 3))]).astype(float)
    y = np.sin(x[:, 0] * x[:, 3]) + x[:, 1] * (x[:, 4] > 0) + x[:, 5] + 0.1 * rng.standard_normal(300)
    grow = boosting.boost if kind.startswith("boosted") else forest.grow
    wanted = {"numbers": y, "outputs": np.column_stack([y, x[:, 2] - y]), "labels": np.digitize(y, [0.0, 1.0])}
    found = grow(0, x, wanted[kind.split()[1]])
    assert found is not None
    return x, found.trees


def mixtures(row: np.ndarray, others: np.ndarray) -> np.ndarray:
    who = np.arange(16)[:, None] >> np.arange(4) & 1 == 1
    rows = np.repeat(others[None], 16, axis=0)
    for column, player in enumerate(PLAYER):
        if player >= 0:
            rows[who[:, player], :, column] = row[column]
    return rows


@pytest.mark.parametrize("kind", ["forest numbers", "forest outputs", "forest labels", "boosted numbers", "boosted labels"])
def test_it_is_what_a_walk_of_every_mixture_says(kind: str) -> None:
    x, trees = grown(kind)
    for row, others in [(x[0], x[7:16]), (x[1], x[1:2]), (x[2], x[2:4])]:  # of another, of one, of itself
        rows = mixtures(row, others)
        walked = trees.says(rows.reshape((-1, 6))).reshape((16, len(others), trees.num_outputs))
        np.testing.assert_allclose(coalitions.said_by(trees, row, others, PLAYER), walked, rtol=0, atol=1e-12)


def test_without_a_player_the_others_are_as_they_are() -> None:
    x, trees = grown("forest numbers")
    found = coalitions.said_by(trees, x[0], x[:5], np.full(6, -1))
    np.testing.assert_allclose(found, trees.says(x[:5])[None], rtol=0, atol=1e-12)


def test_reasons_of_a_network_of_trees_are_those_of_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, trees = grown("boosted numbers")
    y = trees.says(x)[:, 0]
    model = bp.BayesianSparseRegressor(hidden=(4,), form="trees", num_steps=200, num_samples=10, random_state=0).fit(x, y)
    assert model.used_features_.sum() > 2
    quick = model.explain(x[:3])
    said = model._columns, x[0], model._background, [np.arange(6)]
    assert coalitions.said_of_mixtures(*said).shape == (2, len(model._background), 2)  # a forest's, and boosted trees'
    monkeypatch.setattr(reasons, "said_of_mixtures", lambda _, row, others, owned: np.zeros((2 ** len(owned), len(others), 0)))
    for found, walked in zip(quick, model.explain(x[:3]), strict=True):
        np.testing.assert_allclose(found, walked, rtol=1e-5, atol=1e-6)
