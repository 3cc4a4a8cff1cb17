"""Folds handed out by joblib give the scores of one process: by its own workers, and by Dask's."""

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from bayesprune.sklearn import BayesianSparseClassifier

SETTINGS = {"cv": 2, "scoring": "neg_log_loss"}


def problem() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(40, 3))
    return x, (x[:, 0] > 0).astype(int)


def classifier() -> BayesianSparseClassifier:
    return BayesianSparseClassifier(hidden=(4,), num_steps=20, random_state=0)


@pytest.mark.every
@pytest.mark.slow
def test_folds_in_joblibs_own_workers_have_the_scores_of_one_process() -> None:
    alone = cross_val_score(classifier(), *problem(), **SETTINGS)
    assert alone[0] != alone[1]
    with joblib.parallel_config(backend="loky", n_jobs=2):
        np.testing.assert_array_equal(cross_val_score(classifier(), *problem(), **SETTINGS), alone)


@pytest.mark.slow
def test_a_grid_on_a_cluster_of_dask_has_the_scores_of_one_process() -> None:
    distributed = pytest.importorskip("distributed")
    search = GridSearchCV(classifier(), {"hidden": [(3,), (4,)]}, refit=False, **SETTINGS)
    alone = search.fit(*problem()).cv_results_["mean_test_score"]
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster, timeout=120),
        joblib.parallel_config(backend="dask"),
    ):
        spread = search.set_params(n_jobs=2).fit(*problem()).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(spread, alone)
