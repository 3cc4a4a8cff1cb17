"""Ranks of methods against counts by hand and SciPy, and the groups of those that are not told apart."""

import math

import numpy as np
import pytest
from scipy import stats

from bayesprune.lab.ranks import _groups, ranks, table_of


def test_ranks_are_counted_and_ties_are_shared() -> None:
    found = ranks({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.2, 0.1], "c": [0.3, 0.3, 0.4]})
    assert found.mean == pytest.approx({"a": (1 + 1.5 + 2) / 3, "b": (2 + 1.5 + 1) / 3, "c": 3.0}) and found.blocks == 3
    assert math.isclose(found.p, stats.friedmanchisquare([0.1, 0.2, 0.3], [0.2, 0.2, 0.1], [0.3, 0.3, 0.4]).pvalue)
    assert list(ranks({"a": [0.9], "b": [0.8]}, higher_is_better=True).mean) == ["a", "b"]
    assert math.isnan(ranks({"a": [0.9], "b": [0.8]}).p) and ranks({}).mean == {}


def test_what_differs_is_told_apart_and_what_does_not_is_not() -> None:
    """Fifteen blocks; differences of a sign are significant by the exact law, 2^-14; equal methods are never told apart."""
    block = np.random.RandomState(0).rand(15)
    found = ranks({"bad": block + 2.0, "good": block, "same": block, "near": block + 0.1})
    assert found.alike == [("good", "same")] and list(found.mean)[-1] == "bad"


def test_infinities_are_alike_and_nan_has_no_rank() -> None:
    """Methods with the same figures were told apart where one of these was infinite."""
    block = np.arange(8.0)
    block[0] = np.inf
    assert ranks({"a": block, "b": block, "c": np.ones(8)}).alike[0] == ("a", "b")
    with pytest.raises(ValueError, match="NaN for 'b'"):
        ranks({"a": [1.0], "b": [np.nan]})


def test_groups_are_the_longest_runs() -> None:
    differ = {frozenset(pair) for pair in ("ac", "ad", "bd")}
    assert _groups("abcd", differ) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert _groups("abcd", {frozenset("ad")}) == [("a", "b", "c"), ("b", "c", "d")]
    assert _groups("ab", {frozenset("ab")}) == []


def test_blocks_are_those_that_every_method_has() -> None:
    def record(method: str, density: float, seed: int, nll: float | None, failed: str = "") -> dict[str, object]:
        return {"method": method, "density": density, "seed": seed, "nll": nll, "failed": failed}

    records = [record("a", 0.1, seed, 0.5 + seed) for seed in (0, 1)] + [record("b", 0.1, seed, 0.4) for seed in (0, 1)]
    records += [record("own", 0.0, 0, 0.1), record("lacks", 0.1, 0, 0.3), record("lacks", 0.1, 1, None, "why")]
    assert table_of(records, "nll") == {"a": [0.5, 1.5], "b": [0.4, 0.4]}
