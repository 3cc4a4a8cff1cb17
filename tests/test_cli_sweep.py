"""Sweeps: their cells, what is refused, what is skipped, and their table; with a stand-in for training, then in earnest."""

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from bayesprune import cli
from bayesprune.cli import results, settings, sweep
from bayesprune.cli.build import resolve
from bayesprune.cli.flags import parse
from bayesprune.cli.sweep import grid
from tests.test_cli import SMALL, content, refused

WORDS = ["--seeds", "0", "1", "2", "--vary", "method", "snr", "--vary", "density", "0.1", "0.05"]

PLAIN = ["--course", "plain"]  # the standard course cannot be lengthened


def accuracy(chosen: Any) -> float:
    return round(0.5 + 0.1 * chosen.seed + (0.01 if chosen.method == "snr" else 0.0), 4)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that a stand-in for training has made, whose accuracy follows from their settings; Ctrl-C and errors by seed."""
    made: list[str] = []

    def stand_in(chosen: Any, folder: Path, tell: Any, progress: bool | None) -> bool:
        assert sweep.ONE_AT_A_TIME.locked()  # threads take turns
        settings.check(chosen, folder)
        if results.finished(folder, chosen.steps):
            return False
        if chosen.seed == 7:
            raise KeyboardInterrupt
        if chosen.seed == 8:
            raise FloatingPointError("the loss\nis not finite")
        settings.claim(chosen, folder)
        made.append(folder.name)
        content = {"metrics": {"accuracy": accuracy(chosen), "ece": None}, "settings": {"steps": chosen.steps}}
        content |= {
            "sparsity": {"prunable": {"density": 0.1}},
            "num_steps": chosen.steps,
            "train_seconds": 1.0,
            "resumed_at_step": 0,
        }
        results.write_record(folder / results.METRICS, content | {"evaluated_on": {}, "versions": {}})
        return True

    monkeypatch.setattr(sweep, "complete", stand_in)
    return made


def swept(out: Path, *words: str) -> int:
    return cli.main(["sweep", *words, "--out", str(out), "--", "--steps", "60", *PLAIN])


@pytest.mark.slow
def test_every_combination_is_a_run_for_each_seed(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(tmp_path, *WORDS) == 0
    assert len(trained) == 6 and trained[0] == "method=snr,density=0.1,seed=0"
    records = [json.loads(line) for line in (tmp_path / "sweep.jsonl").read_text().splitlines()]
    assert [record["seed"] for record in records] == [0, 1, 2] * 2 and records[3]["density"] == "0.05"
    told = capsys.readouterr().out
    assert (tmp_path / "sweep.md").read_text().strip() in told
    spread = np.std([0.51, 0.61, 0.71], ddof=1)
    assert f"| snr | 0.1 | 3 | 0.6100 ± {spread:.4f} |" in told  # mean and sd, of three seeds
    assert "| snr | 0.1 | 1 | 0.6100 | missing | 0.1000 |" in told  # each seed
    assert settings.load(tmp_path / trained[-1]).snr.density == "0.05"  # type: ignore[attr-defined]


def test_a_mean_is_of_all_seeds_or_no_number(tmp_path: Path) -> None:
    planned = [sweep.PlannedRun((), seed, (), tmp_path) for seed in (0, 1)]
    figures = {planned[0]: {"nll": 0.5, "ece": None, "brier": 0.0}, planned[1]: {"nll": None, "ece": None, "brier": 0.0}}
    told = sweep.tables(planned, {cell: {"figures": of} for cell, of in figures.items()})
    assert "| 2 | nan ± nan | missing | 0.0000 ± 0.0000 |" in told and "| 1 | missing | missing | 0.0000 |" in told


@pytest.mark.slow
def test_what_is_finished_is_skipped_and_what_was_stopped_goes_on(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(tmp_path, "--seeds", "0", "7", "1") == 130
    assert trained == ["seed=0"]
    assert swept(tmp_path, "--seeds", "0", "1") == 0 and trained == ["seed=0", "seed=1"]
    assert "seed=0: there already" in capsys.readouterr().out
    assert cli.main(["sweep", "--seeds", "0", "1", "--out", str(tmp_path), "--", "--steps", "90", *PLAIN]) == 0  # more of them
    assert trained == ["seed=0", "seed=1"] * 2 and settings.load(tmp_path / "seed=1").steps == 90


def test_a_run_that_fails_does_not_end_the_others(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(tmp_path, "--seeds", "8", "0") == 2
    told = capsys.readouterr()
    assert "1 of 2 runs failed, first seed=8: the loss is not finite" in told.err and trained == ["seed=0"]
    assert "| 1 of 2 | 0.5000 |" in told.out


def test_joblibs_backend_and_number_of_jobs_are_honoured(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parallel, seen = joblib.Parallel, []

    class Watched(parallel):  # type: ignore[misc, valid-type]
        def __call__(self, tasks: Any) -> Any:
            seen.append((type(self._backend).__name__, joblib.effective_n_jobs(self.n_jobs)))
            return super().__call__(tasks)

    monkeypatch.setattr(joblib, "Parallel", Watched)
    with joblib.parallel_config("threading", n_jobs=3):
        assert swept(tmp_path, "--seeds", "0", "1", "2") == 0
    assert sorted(trained) == ["seed=0", "seed=1", "seed=2"]
    assert seen == [("ThreadingBackend", 3)]


def test_courses_and_their_knobs_are_varied(tmp_path: Path) -> None:
    vary = {"course": ["bmr", "plain"], "plain.rate": ["0.5"]}
    made = [resolve(parse(cell.words)) for cell in grid(vary, [0], ["--steps", "9000", "--method", "none"], tmp_path)]
    assert [(one.course, one.plain.rate, one.plain.every) for one in made] == [  # type: ignore[attr-defined]
        ("bmr", 0.5, 500), ("plain", 0.5, None),
    ]  # fmt: skip


def test_values_become_flags_of_their_kind(tmp_path: Path) -> None:
    vary = {"mlp.hidden": ["5,6", "7"], "remat": ["true", "false"], "bmr.alpha0": ["2"]}
    made = [resolve(parse(cell.words)) for cell in grid(vary, [4], ["--steps", "50"], tmp_path)]
    assert [(one.mlp.hidden, one.remat, one.bmr.alpha0, one.seed) for one in made] == [  # type: ignore[attr-defined]
        ((5, 6), True, 2.0, 4), ((5, 6), False, 2.0, 4), ((7,), True, 2.0, 4), ((7,), False, 2.0, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--vary", "densty", "0.1"], "unknown setting to vary 'densty'. Did you mean"),
        (["--vary", "density"], "--vary takes a name and its values"),
        (["--vary", "steps", "5", "6"], "--steps is among the flags of the run, and it is varied"),
        (["--vary", "density", "0.1"], "method bmr has no density to set"),
        (["--vary", "method", "bmr", "bmrr"], "unknown method 'bmrr'"),
        (["--vary", "course", "standrd"], "unknown course 'standrd'. Did you mean 'standard'"),
        (["--vary", "remat", "yes"], "remat is varied over true and false, got 'yes'"),
        (["--vary", "seed", "1", "2"], "--vary seed would vary what the sweep sets: give --seeds"),
        (["--vary", "learning-rate", "1", "--vary", "learning_rate", "2"], "each name once"),
        (["--seeds", "0", "0"], "two cells of the sweep are the same"),
        (["--seeds", "one"], "sweep: argument --seeds: invalid int value: 'one'"),
        (["--steps", "5"], "Flags of the runs come after --"),
    ],
)
def test_a_wrong_sweep_is_told_before_anything_is_run(
    words: list[str], told: str, trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, "sweep", *words, "--out", str(tmp_path / "sweep"), "--", "--steps", "60")
    assert not trained and not (tmp_path / "sweep").exists()


def test_another_sweep_in_the_same_folder_is_refused(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(tmp_path, "--seeds", "0") == 0
    assert "seed=0 was started with other settings" in refused(
        capsys, "sweep", "--out", str(tmp_path), "--", "--steps", "60", *PLAIN, "--batch-size", "32"
    )


@pytest.mark.every
@pytest.mark.slow
def test_a_sweep_in_two_processes_is_the_runs_one_by_one(tmp_path: Path) -> None:
    small = [word for word in SMALL if word not in ("--method",)]
    assert cli.main(["sweep", "--seeds", "0", "1", "--jobs", "2", "--out", str(tmp_path / "sweep"), "--", *small]) == 0
    assert cli.main(["run", *small, "--seed", "1", "--out", str(tmp_path / "one")]) == 0
    swept = content(tmp_path / "sweep" / "seed=1")
    assert swept["metrics"] == content(tmp_path / "one")["metrics"]
    records = [json.loads(line) for line in (tmp_path / "sweep" / "sweep.jsonl").read_text().splitlines()]
    assert records[1]["figures"]["accuracy"] == swept["metrics"]["accuracy"] and len(records) == 2


@pytest.mark.slow
def test_a_sweep_on_a_cluster_of_dask_is_the_runs_one_by_one(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    small = [word for word in SMALL if word not in ("--method",)]
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster, timeout=120),
        joblib.parallel_config(backend="dask", n_jobs=2),
    ):
        assert cli.main(["sweep", "--seeds", "0", "1", "--out", str(tmp_path / "sweep"), "--", *small]) == 0
    assert cli.main(["run", *small, "--seed", "1", "--out", str(tmp_path / "one")]) == 0
    assert content(tmp_path / "sweep" / "seed=1")["metrics"] == content(tmp_path / "one")["metrics"]
