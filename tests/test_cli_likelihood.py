"""The command line's choice of a likelihood."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.cli import likelihood
from tests.test_cli import content, small_run

REAL, LABELS = np.array([0.5, 1.5]), np.array([0, 2])


def test_names_with_their_outputs() -> None:
    assert likelihood.make("auto", True, REAL) == (bp.likelihoods.Normal(), 1)
    assert likelihood.make("auto", False, LABELS, LABELS + 1) == (bp.likelihoods.Categorical(), 4)
    assert likelihood.make("ordinal", False, LABELS) == (bp.likelihoods.Ordinal(3), 1)
    assert likelihood.make("predicted-noise", True, np.ones((2, 3))) == (bp.likelihoods.Normal("predicted"), 6)
    for name, (made, each) in likelihood.OF_NUMBERS.items():
        made.check(REAL, (each,))
        assert likelihood.make(name, True, REAL) == (made, each)


def test_one_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="targets are labels: choose categorical or ordinal"):
        likelihood.make("student-t", False, LABELS)
    with pytest.raises(ValueError, match="targets are real: choose normal or predicted-noise or student-t"):
        likelihood.make("ordinal", True, REAL)
    with pytest.raises(ValueError, match=r"unknown choice of likelihood 'student'\. Did you mean 'student-t'"):
        likelihood.check("student")


@pytest.mark.slow
def test_a_run_with_predicted_noise(tmp_path, capsys) -> None:
    assert small_run(tmp_path / "run", "--dataset", "diabetes", "--likelihood", "predicted-noise") == 0
    made = content(tmp_path / "run")
    assert set(made["metrics"]) == {"rmse", "nll", "coverage", "interval_width", "crps"} == set(made["definitions"])
    assert made["settings"]["likelihood"] == "predicted-noise" and made["compact"]["certificate_holds"]
    assert jax.tree.all(jax.tree.map(np.isfinite, made["metrics"]))


@pytest.mark.slow
def test_a_run_of_ordered_classes_ends_without_a_compact_network(tmp_path, capsys) -> None:
    assert small_run(tmp_path / "run", "--likelihood", "ordinal") == 0
    made = content(tmp_path / "run")
    assert "cut_gaps" in made["compact"]["refused"] and made["metrics"]["rps"] > 0
