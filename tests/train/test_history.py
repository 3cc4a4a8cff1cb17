"""What a fit writes down: figures that keep in step with their steps."""

import math

import numpy as np
import pytest

from bayesprune.train.result import Record


def test_figures_that_come_and_go_stay_beside_their_steps() -> None:
    record = Record.empty(6)
    for step, figures in ((2, {"nll": 1.0}), (4, {"nll": 0.5, "f1": 0.7}), (6, {"f1": 0.8})):
        record.add_metrics(step, figures)
    found = record.arrays()
    assert found["eval/step"].tolist() == [2, 4, 6]
    np.testing.assert_array_equal(found["eval/nll"], [1.0, 0.5, math.nan])
    np.testing.assert_array_equal(found["eval/f1"], [math.nan, 0.7, 0.8])


def test_a_figure_does_not_take_the_place_of_the_step() -> None:
    with pytest.raises(ValueError, match=r"evaluator gives a figure named 'step'.*another name"):
        Record.empty(2).add_metrics(2, {"nll": 1.0, "step": 77.0})
