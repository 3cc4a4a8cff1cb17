"""The command line's choice of a likelihood."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.cli import likelihood
from bayesprune.cli.rows import Data
from bayesprune.core.types import Dataset
from tests.test_cli import content, refused, small_run

TARGETS = {
    "numbers": np.array([0.5, 1.5], np.float32),
    "classes": np.array([0, 2], np.int32),
    "counts": np.array([0.0, 7.0], np.float32),
    "shares": np.array([0.1, 0.9], np.float32),
}


def task(y: np.ndarray, test: np.ndarray) -> tuple[str, int]:
    x = np.zeros((2, 3))
    return Data(Dataset(x, y), Dataset(x, test), "test", 1.0, Dataset(x, test)).task[1:3]


def test_names_with_their_outputs() -> None:
    assert likelihood.make("auto", "numbers", 1) == (bp.likelihoods.Normal(), 1)
    assert likelihood.make("auto", "classes", 4) == (bp.likelihoods.Categorical(), 4)
    assert likelihood.make("auto", "counts", 1) == (bp.likelihoods.Poisson(), 1)
    assert likelihood.make("ordinal", "classes", 3) == (bp.likelihoods.Ordinal(3), 1)
    assert likelihood.make("predicted-noise", "numbers", 3) == (bp.likelihoods.Normal("predicted"), 6)
    assert likelihood.make("auto", "overdispersed counts", 1) == (bp.likelihoods.NegativeBinomial(), 1)
    for kind in likelihood.KINDS:
        asked_for = kind.removeprefix("overdispersed ")  # what a name says of the targets
        for name in likelihood.names(kind):
            made, outputs = likelihood.make(name, kind, 3 if kind == "classes" else 1)
            made.check(TARGETS[asked_for], (outputs,))
            assert likelihood.kind_of(name) == asked_for


def test_the_task_is_that_of_all_parts() -> None:
    labels, real = TARGETS["classes"], TARGETS["numbers"]
    assert task(labels, labels + 1) == ("classes", 4)
    assert task(real, real) == ("numbers", 1) and task(np.ones((2, 3)), np.ones((2, 3))) == ("numbers", 3)


def test_one_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="targets are classes: choose categorical or ordinal"):
        likelihood.make("student-t", "classes", 2)
    with pytest.raises(ValueError, match="targets are numbers: choose normal or predicted-noise or student-t"):
        likelihood.make("ordinal", "numbers", 1)
    with pytest.raises(ValueError, match=r"unknown choice of likelihood 'student'\. Did you mean 'student-t'"):
        likelihood.check("student")


@pytest.mark.slow
def test_a_run_with_predicted_noise(tmp_path, capsys) -> None:
    assert small_run(tmp_path / "run", "--dataset", "diabetes", "--likelihood", "predicted-noise") == 0
    made = content(tmp_path / "run")
    assert set(made["metrics"]) == {"rmse", "nll", "coverage", "interval_width", "crps"} == set(made["definitions"])
    assert made["settings"]["likelihood"] == "predicted-noise" and made["compact"]["certificate_holds"]
    assert jax.tree.all(jax.tree.map(np.isfinite, made["metrics"]))
    line = refused(capsys, "evaluate", str(tmp_path / "run"), "--dataset", "linear_regression")
    assert "columns and scales of its own" in line


@pytest.mark.every
@pytest.mark.slow
def test_a_run_of_ordered_classes_ends_without_a_compact_network(tmp_path, capsys) -> None:
    assert small_run(tmp_path / "run", "--likelihood", "ordinal") == 0
    made = content(tmp_path / "run")
    assert "cut_gaps" in made["compact"]["refused"] and made["metrics"]["rps"] > 0
