"""The command line's choice of the step to keep, and what it tells of a tempered posterior and of the cost."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from bayesprune import cli
from bayesprune.cli import build
from bayesprune.report.export import load_posterior
from bayesprune.train import training
from tests.test_cli import SMALL, content, refused, small_run

CHOOSE = ["--method", "ssvi", "--density", "0.3", "--storage", "active", "--choose", "best", "--validation", "0.25"]
# Evaluations at 8 and 16, both of them steps at which weights are exchanged.
CHOOSE += ["--eval-every", "8", "--ssvi.until", "1.0", "--prior", "gaussian", "--prunable", "kernels"]
CHOOSE += ["--kl-weight", "0.01", "--kl-warmup", "0.5"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that chose its step on validation rows, evaluating where it exchanges weights."""
    out = tmp_path_factory.mktemp("runs") / "chosen"
    assert small_run(out, *CHOOSE) == 0
    return out


@pytest.mark.every
@pytest.mark.slow
def test_the_best_step_is_that_of_the_validation_rows_and_the_results_are_of_the_test_set(done: Path) -> None:
    made = content(done)
    with np.load(done / "history.npz") as history:
        accuracy, steps = history["eval/accuracy"], history["eval/step"]
    assert made["chosen_step"] == {
        "choose": "best",
        "step": int(steps[accuracy.argmax()]),
        "metric": "accuracy",
        "value": pytest.approx(accuracy.max()),
        "on": "validation",
        "rows": 360,
    }
    assert made["evaluated_on"]["part"] == "test" and made["evaluated_on"]["rows"] == 359
    assert made["train_rows"] == 1438 - 360


@pytest.mark.slow
def test_mask_and_parameters_are_of_one_moment(done: Path) -> None:
    posterior, mask, _ = load_posterior(done / "posterior.safetensors")
    # A weight that has just woken stands at exactly 0: a mask of after the exchange would show such weights as alive.
    for site, alive in mask.items():
        np.testing.assert_array_equal(posterior[site].loc != 0, alive)
        np.testing.assert_array_equal(posterior[site].scale != 0, alive)
    assert sum(int(alive.sum()) for alive in mask.values()) == round(0.3 * sum(alive.size for alive in mask.values()))


@pytest.mark.slow
def test_kl_weight_and_cost_are_told(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = content(done)
    assert made["kl_weight"] == 0.01 and made["kl_weight_in_words"].startswith("cold posterior")
    alive = sum(row["num_alive"] for row in made["sparsity"]["per_site"].values())
    assert made["flops"]["theoretical"] == 2 * alive and made["flops"]["executed"] == 2 * (64 * 8 + 8 * 10)
    assert small_run(done, *CHOOSE) == 0
    told = capsys.readouterr().out
    assert "KL weight 0.01: cold posterior" in told and "best accuracy" in told and "on 360 validation rows" in told
    assert f"{made['flops']['theoretical']:,} theoretical" in told
    assert cli.main(["report", str(done), "--no-figures"]) == 0
    assert "| KL weight |" in capsys.readouterr().out


@pytest.mark.slow_cases(1)
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "stop", [pytest.param(7, marks=pytest.mark.slow), 16]
)  # at 8, the last checkpoint at 5; at 16, after that at 15: both with an evaluation between
def test_a_stopped_run_chooses_the_same_step(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    out, chunk = tmp_path / "stopped", training.Training._chunk

    def stopping(self: Any, state: Any, *rest: Any) -> Any:
        if int(state.carry.step) >= stop:
            raise KeyboardInterrupt
        return chunk(self, state, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(training.Training, "_chunk", stopping)
        assert small_run(out, *CHOOSE) == 130
    assert small_run(out, *CHOOSE) == 0
    for name in ("chosen_step", "metrics", "sparsity"):
        assert content(out)[name] == content(done)[name]
    one, other = (load_posterior(folder / "posterior.safetensors").posterior for folder in (out, done))
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.slow
def test_evaluate_repeats_the_figures_of_the_chosen_step(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(done), "--num-samples", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == content(done)["metrics"]


@pytest.mark.slow
def test_a_choice_on_the_test_set_is_called_optimistic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert small_run(out, "--choose", "best", "--choose-on", "test", "--method", "none") == 0
    assert content(out)["chosen_step"]["on"] == "test" and content(out)["train_rows"] == 1438
    assert "optimistic" in content(out)["chosen_step"]["note"] and "optimistic" in capsys.readouterr().out


@pytest.mark.slow
def test_where_no_evaluation_gave_a_number_there_is_no_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "evaluate_by_kernels", lambda *_, **__: {"accuracy": float("nan")})
    line = refused(capsys, "run", *SMALL, "--choose", "best", "--choose-on", "test", "--out", str(tmp_path))
    assert "no evaluation on the test set gave a number" in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--choose", "best"], "choose=best needs rows to choose on: --validation 0.1"),
        (["--choose", "bst"], "unknown choice of choose 'bst'. Did you mean 'best'"),
        (["--choose-on", "test"], "choose_on=test chooses nothing with choose=last"),
        (["--choose", "best", "--choose-on", "test", "--validation", "0.1"], "give --validation 0"),
        (["--choose", "best", "--validation", "0.1", "--eval-every", "9999"], "finds no evaluation: eval_every=9999"),
    ],
)
def test_a_choice_that_cannot_be_made_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in refused(capsys, "run", *words)
