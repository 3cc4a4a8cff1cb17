"""When to stop early."""

import numpy as np
import pytest

import bayesprune as bp

NAN = float("nan")


@pytest.mark.parametrize(
    ("metric", "values", "stops"),
    [
        ("nll", [3.0, 2.0, 2.5], False),
        ("nll", [3.0, 2.0, 2.5, 2.1], True),
        ("accuracy", [0.5, 0.6, 0.5], False),
        ("accuracy", [0.9, 0.6, 0.5], True),
        ("nll", [NAN, 3.0, 2.0], False),  # what is undefined is no best
        ("nll", [3.0, 2.0, NAN, NAN], True),
        ("accuracy", [0.5, NAN, 0.6], False),
        ("nll", [np.inf, 2.0, 1.0], False),
    ],
)
def test_it_waits_for_a_new_best(metric: str, values: list[float], stops: bool) -> None:
    assert bp.EarlyStop(metric, patience=2)({f"eval/{metric}": values}) is stops


def test_an_unknown_metric_is_told() -> None:
    with pytest.raises(ValueError, match="watches 'loss', but the evaluation reports nll"):
        bp.EarlyStop("loss")({"eval/step": [1], "eval/nll": [0.5]})
