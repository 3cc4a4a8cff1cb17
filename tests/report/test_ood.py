"""Out-of-distribution scores against SciPy, scikit-learn and a double loop."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from bayesprune.report import metrics

RNG = np.random.default_rng(1)
INSIDE = RNG.dirichlet(np.full(4, 0.3), 60)
OUTSIDE = np.concatenate([RNG.dirichlet(np.full(4, 2.0), 40), INSIDE[:5], np.eye(4)[:2]])  # with ties, and zeros


def test_entropy_equals_scipy():
    np.testing.assert_allclose(metrics.predictive_entropy(OUTSIDE), stats.entropy(OUTSIDE, axis=1), atol=1e-12)
    assert metrics.predictive_entropy(np.full((1, 10), 0.1))[0] == pytest.approx(np.log(10))


def test_auroc_equals_scikit_learn_and_counting_pairs():
    inside, outside = stats.entropy(INSIDE, axis=1), stats.entropy(OUTSIDE, axis=1)
    got = metrics.ood_auroc(INSIDE, OUTSIDE)
    assert got == pytest.approx(roc_auc_score(np.r_[np.zeros(60), np.ones(47)], np.r_[inside, outside]), abs=1e-12)
    assert got == pytest.approx(np.mean([(o > i) + 0.5 * (o == i) for i in inside for o in outside]), abs=1e-12)
    assert metrics.ood_auroc(OUTSIDE, INSIDE) == pytest.approx(1 - got)


def test_auroc_of_a_set_with_itself_is_chance_and_of_sure_against_unsure_is_one():
    assert metrics.ood_auroc(INSIDE, INSIDE) == pytest.approx(0.5)
    assert metrics.ood_auroc(np.eye(3), np.full((2, 3), 1 / 3)) == 1.0


def test_the_door_names_the_argument():
    with pytest.raises(ValueError, match="probs_out"):
        metrics.ood_auroc(INSIDE, OUTSIDE * 2)
    with pytest.raises(ValueError, match="probs_in"):
        metrics.ood_auroc(INSIDE * np.nan, OUTSIDE)


def test_what_the_classes_are_called_parts_no_rows() -> None:
    """Votes of ten trees, and one law, beside the same with the classes in another order: ties, to the last digit."""
    votes = np.random.default_rng(0).multinomial(10, [0.5, 0.3, 0.2], 2000) / 10
    for probs in (votes, np.tile([0.7, 0.2, 0.1], (50, 1))):
        assert metrics.ood_auroc(probs, probs[:, ::-1]) == metrics.ood_auroc(probs[:, ::-1], probs) == 0.5
