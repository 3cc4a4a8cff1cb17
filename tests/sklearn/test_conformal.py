"""Conformal thresholds, (21.30) and (21.38), against counting, and their promise over many draws."""

import numpy as np

from bayesprune.sklearn.conformal import agreed, classes_within, scores_of_labels, scores_of_numbers, threshold


def test_eq_21_30_is_the_smallest_score_that_enough_are_at_or_below() -> None:
    scores = np.random.default_rng(0).exponential(size=57)
    for level in (0.1, 0.5, 0.9):
        enough = [s for s in scores if (scores <= s).sum() >= (len(scores) + 1) * level]
        assert threshold(scores, level) == min(enough)
    assert threshold(scores[:8], 0.9) == np.inf
    assert threshold(scores, 1e-12) == scores.min()


def test_missing_scores_count_for_nothing_and_outputs_apart() -> None:
    scores = np.random.default_rng(0).exponential(size=(40, 2))
    gaps = scores.copy()
    gaps[:10, 1] = np.nan
    np.testing.assert_array_equal(threshold(gaps, 0.8), [threshold(scores[:, 0], 0.8), threshold(scores[10:, 1], 0.8)])


def test_new_rows_are_covered_whatever_the_predictions_are() -> None:
    """By 19 rows exactly 18 / 20 of new ones are covered; 4,000 worlds count that to .005, and four times that is allowed."""
    rng = np.random.default_rng(0)
    y = rng.gamma(1.0, size=(4000, 20, 1))
    covered = []
    for world in y:
        scores = scores_of_numbers(world, np.full((20, 1), 0.7), rng.uniform(1, 2, (20, 1)))
        covered.append(scores[-1, 0] <= threshold(scores[:-1], 0.9)[0])
    assert abs(np.mean(covered) - 0.9) < 0.02


def test_sets_hold_the_classes_of_scores_at_or_below_the_limit() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]])
    np.testing.assert_allclose(scores_of_labels(p, np.array([0, 2])), [0.3, 0.75])
    assert classes_within(p, np.array(0.7)).tolist() == [[True, False, False], [True, True, False]]


def test_eq_21_38_of_one_fold_is_the_threshold_of_21_30() -> None:
    rng = np.random.default_rng(0)
    for rows in (5, 19, 20, 57):
        scores, own = rng.random(rows).round(1), rng.random((30, 4)).round(1)
        for level in (0.5, 0.8, 0.9, 0.95):
            np.testing.assert_array_equal(agreed([scores], [own], level), own <= threshold(scores, level))


def test_eq_21_38_counts_rows_of_their_own_fold() -> None:
    """By a loop over folds, rows and classes."""
    rng = np.random.default_rng(0)
    scores, own = [rng.random(n).round(1) for n in (7, 9, 8)], [rng.random((6, 3)).round(1) for _ in range(3)]
    found = agreed(scores, own, 0.8)
    for row, place in np.ndindex(6, 3):
        worse = sum(s >= of[row, place] for fold, of in zip(scores, own, strict=True) for s in fold)
        assert found[row, place] == ((1 + worse) / 25 > 0.2 + 1e-12)


def test_sets_of_several_folds_cover_new_rows() -> None:
    """Nearly at the level where the folds' fits nearly agree, above it where they do not. 3,000 worlds: ± .007."""
    rng = np.random.default_rng(0)

    def covered(apart: float) -> float:
        inside = []
        for _ in range(3_000):
            fits = apart * rng.standard_normal(3)
            scores, new = [np.abs(rng.standard_normal(30) - fit) for fit in fits], rng.standard_normal()
            inside.append(agreed(scores, [np.abs(np.array([[new - fit]])) for fit in fits], 0.8)[0, 0])
        return float(np.mean(inside))

    assert abs(covered(0.1) - 0.8) < 0.036 and 0.8 < covered(1.0) < 0.95
