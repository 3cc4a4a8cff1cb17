"""Groups of columns that are nearly copies: beside a search through all sets of columns."""

import itertools

import numpy as np
import pytest
from scipy import stats

import bayesprune as bp


def columns(seed: int) -> np.ndarray:
    """Three sources, each read twice or three times with noise, in a random order, and a constant."""
    rng = np.random.default_rng(seed)
    sources = rng.standard_normal((400, 3))[:, [0, 0, 1, 1, 1, 2]]
    x = np.column_stack([sources + 0.2 * rng.standard_normal(sources.shape), np.full(400, 7.0)])
    return x[:, rng.permutation(7)]


@pytest.mark.parametrize("seed", range(5))
def test_each_is_correlated_with_each_and_no_two_groups_could_be_one(seed: int) -> None:
    x = columns(seed)
    groups = [group.tolist() for group in bp.features.correlated_groups(x)]
    r = np.array([[abs(stats.pearsonr(a, b)[0]) if np.ptp(a) and np.ptp(b) else 0.0 for a in x.T] for b in x.T])
    whole = lambda group: all(r[a, b] >= 0.9 for a, b in itertools.combinations(group, 2))  # noqa: E731
    every = [set(group) for size in (2, 3, 4) for group in itertools.combinations(range(7), size) if whole(group)]
    assert sorted(map(len, groups)) == [2, 3]
    assert {frozenset(group) for group in groups} == {frozenset(g) for g in every if not any(g < other for other in every)}
    assert groups == sorted(groups) and all(group == sorted(group) for group in groups)


def test_a_chain_whose_ends_differ_is_not_one_group() -> None:
    rng = np.random.default_rng(0)
    place = np.arange(12)
    x = rng.standard_normal((2000, 12)) @ np.linalg.cholesky(0.93 ** np.abs(place[:, None] - place)).T
    groups = bp.features.correlated_groups(x)
    assert groups and all(len(group) == 2 for group in groups)  # .93 ** 2 is .86


def test_the_sign_does_not_matter_and_nothing_is_made_of_few_columns() -> None:
    a = np.random.default_rng(0).standard_normal((50, 1))
    assert [group.tolist() for group in bp.features.correlated_groups(np.hstack([a, -3.0 * a]))] == [[0, 1]]
    assert bp.features.correlated_groups(a) == () == bp.features.correlated_groups(np.ones((5, 3)))
    with pytest.raises(ValueError, match="correlation"):
        bp.features.correlated_groups(a, 1.0)


def test_a_selection_names_them() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 3))
    x = np.column_stack([x, x[:, 1] + 0.05 * rng.standard_normal(80)])
    linear = bp.BayesianSparseRegressor(hidden=(), num_steps=200, num_samples=5, random_state=0)
    assert [group.tolist() for group in bp.BayesianFeatureSelector(linear).fit(x, x[:, 0]).groups_] == [[1, 3]]
