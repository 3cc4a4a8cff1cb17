"""What a record of a fit says of its step, its temperature and its metrics."""

import math

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.report import record

HISTORY = {"returned/step": np.array([20]), "eval/step": np.array([10, 20, 30]), "eval/nll": np.array([0.9, 0.4, math.nan])}


def test_the_step_is_told_with_what_chose_it() -> None:
    assert record.chosen_step(HISTORY, "", "", 5) == {"choose": "last", "step": 20}
    best = {"choose": "best", "step": 20, "metric": "nll", "value": 0.4, "rows": 5}
    assert record.chosen_step(HISTORY, "nll", "validation", 5) == best | {"on": "validation"}
    note = record.chosen_step(HISTORY, "nll", "test", 5)["note"]
    assert note.startswith("optimistic")


def test_where_no_evaluation_gave_a_number_there_is_no_best() -> None:
    with pytest.raises(FloatingPointError, match="no evaluation on the validation set gave a number"):
        record.chosen_step(HISTORY | {"returned/step": np.array([30])}, "nll", "validation", 5)
    with pytest.raises(FloatingPointError, match="no evaluation on the test set gave a number"):  # its last step: not evaluated
        record.chosen_step(HISTORY | {"returned/step": np.array([35])}, "nll", "test", 5)


def test_acts_that_nobody_looked_at_are_what_was_cut() -> None:
    cut = {"prune/step": np.array([5, 10]), "prune/num_pruned": np.array([3.0, 0.0])}
    made = {"rounds": 2, "proposed": 1, "cut": 1, "refused": 0, "num_proposed": 3, "num_cut": 3}
    assert record.acts(cut) == record.acts(cut | {"prune/num_proposed": np.full(2, math.nan)}) == made
    assert record.acts(cut | {"prune/num_proposed": np.array([2.0, 4.0])})["refused"] == 1
    assert set(record.acts({}).values()) == {0}


@pytest.mark.parametrize(("weight", "word"), [(0.01, "cold"), (1.0, "Bayes"), (2.0, "warm")])
def test_a_tempered_posterior_is_called_so(weight, word) -> None:
    assert word in record.kl_in_words(weight)


def test_every_metric_is_defined_and_nll_by_what_it_is_of() -> None:
    classes, numbers = record.definitions({"nll": 0.1, "ece": 0.1}), record.definitions({"nll": 0.1, "rmse": 0.1})
    assert set(classes) == {"nll", "ece"} and all(classes.values()) and classes["nll"] != numbers["nll"]


def test_features_in_use_are_those_that_something_reads() -> None:
    bnn = bp.BNN(bp.nets.MLP((3,), 2), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(2,))
    mask = {"Dense_0.kernel": np.ones((2, 3), bool), "Dense_1.kernel": np.array([[True, False], [False, False], [True, True]])}
    assert record.for_figures(bnn, bp.connected(bnn, mask), "the test set") == {
        "watched": "the test set",
        "features_in_use": [0, 2],
    }
    last = bp.connected(bnn, {"Dense_1.kernel": mask["Dense_1.kernel"]})
    assert record.for_figures(bnn, last, "")["features_in_use"] is None
