"""Which figures have a meaning for a fit: by its history, its targets and its weights."""

import numpy as np
import pytest

from bayesprune.posteriors.mean_field import MeanField

pytest.importorskip("matplotlib")
from bayesprune.report.plots_of_a_fit import figures

POSTERIOR = {"Dense_0.kernel": MeanField(np.ones((4, 3)), np.ones((4, 3)))}
LOSSES = {"losses": np.linspace(3, 1, 30)}
PRUNED = {"prune/step": np.array([10, 20]), "prune/density": np.array([0.5, 0.5]), "prune/num_alive": np.array([6, 6])}
PRUNED |= {"prune/density/Dense_0.kernel": np.array([0.5, 0.5]), "prune/num_grown": np.zeros(2)}
PROBS = {"probs": np.full((8, 2), 0.5), "y": np.arange(8) % 2}


@pytest.mark.parametrize(
    ("history", "predictions", "posterior", "names"),
    [
        (LOSSES, {}, POSTERIOR, {"training", "loc_cdf", "first_layer"}),
        (LOSSES | PRUNED, PROBS, POSTERIOR, {"training", "pruned", "loc_cdf", "first_layer", "reliability"}),
        (PRUNED | {"prune/num_grown": np.array([2, 1])}, {}, POSTERIOR, {"exchanged", "loc_cdf", "first_layer"}),
        (LOSSES, {}, {"Dense_0.bias": MeanField(np.zeros(3), np.zeros(3))}, {"training"}),
    ],
    ids=["regression", "pruned", "exchanged", "nothing alive"],
)
def test_what_has_a_meaning_is_drawn(history, predictions, posterior, names) -> None:
    made = figures(posterior, {}, history, predictions, (2, 2, 1))
    assert {name for name, figure in made.items() if figure} == names


def test_titles_say_which_rows_and_which_features() -> None:
    history = LOSSES | {"eval/step": np.array([10, 30]), "eval/nll": np.array([1.0, 0.5])}
    notes = {"watched": "the test set (8 rows)", "features_in_use": [0, 2]}
    made = figures(POSTERIOR, {}, history, {}, (2, 2, 1), notes=notes)
    assert made["training"].get_suptitle() == "ELBO of the training rows; metrics of the test set (8 rows)"
    assert made["first_layer"].get_suptitle() == "2 of 3 features in use, largest norm first"
