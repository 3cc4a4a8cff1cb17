"""The command line, called in this process on runs of a few steps."""

import dataclasses
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune import cli
from bayesprune.cli import build, knobs, results, rows, run, settings
from bayesprune.cli.errors import flags_in_one_line
from bayesprune.cli.find import choose, flag_name
from bayesprune.cli.flags import parse
from bayesprune.core.lock import alone_in
from bayesprune.core.schedules import Cubic
from bayesprune.methods.magnitude import Magnitude
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.report import runs
from bayesprune.report.export import load_posterior, save_posterior
from bayesprune.report.record import kl_in_words
from bayesprune.train import training

SMALL = ["--mlp.hidden", "8", "--steps", "20", "--batch-size", "64", "--every", "4", "--eval-every", "10"]
SMALL += ["--checkpoint-every", "5", "--num-samples", "5"]
STANDARD = bp.courses.Standard()
FIGURES = {"training.png", "pruned.png", "loc_cdf.png", "first_layer.png", "reliability.png"}


def small_run(out: Path, *more: str) -> int:
    return cli.main(["run", *SMALL, "--out", str(out), *more])


def content(out: Path) -> dict[str, Any]:
    return json.loads((out / "metrics.json").read_text())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished run, which tests may read."""
    out = tmp_path_factory.mktemp("runs") / "first"
    assert small_run(out) == 0
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a command that ends in an error."""
    assert cli.main(list(words)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("bayesprune: error: "), lines
    return lines[0]


def test_a_run_leaves_its_files(done: Path) -> None:
    there = {path.name for path in done.iterdir()}
    files = {"metrics.json", "settings.json", "posterior.safetensors", "history.npz", "predictions.npz", "checkpoints"}
    assert there == files | FIGURES | {"net.bayesprune"}
    assert all((done / name).read_bytes().startswith(b"\x89PNG") for name in FIGURES)


def test_the_page_on_posteriors_names_every_note_and_its_lines_run(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[1] / "docs" / "reading_a_posterior.md").read_text(encoding="utf-8")
    notes = load_posterior(done / "posterior.safetensors").metadata
    assert [name for name in notes if f"| `{name}` |" not in page] == []
    reader, lines = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(done)
    names: dict[str, Any] = {}
    exec(reader + lines.replace("runs/first/", ""), names)
    assert names["kernel"].shape == (64, 8) and np.isfinite(names["kernel"]).all()


@pytest.mark.every
@pytest.mark.slow
def test_a_spike_and_slab_run_keeps_its_inclusion_log_odds_as_tensors(tmp_path: Path) -> None:
    assert small_run(tmp_path / "gated", "--prior", "dirac-slab", "--method", "none") == 0
    saved = load_posterior(tmp_path / "gated" / "posterior.safetensors")
    for node in saved.posterior.values():
        assert any(np.array_equal(value, node.logit) for name, value in saved.params.items() if name.endswith("_logit"))


def test_metrics_say_what_they_are(done: Path) -> None:
    made = content(done)
    assert {"accuracy", "nll", "ece", "brier"} <= set(made["metrics"])
    assert set(made["definitions"]) == set(made["metrics"])
    assert made["evaluated_on"] == {"dataset": "digits", "part": "test", "rows": 359, "num_samples": 5, "target_scale": 1.0}
    assert made["sparsity"]["prunable"]["num_weights"] == 64 * 8 + 8
    assert made["sparsity"]["all"]["num_weights"] == 64 * 8 + 8 + 8 * 10 + 10
    assert made["sparsity"]["dense_sites"] == ["Dense_1.bias", "Dense_1.kernel"]
    used, alive = made["sparsity"]["connected"], made["sparsity"]["per_site"]
    assert used["per_site"].keys() == alive.keys()
    assert all(used["per_site"][site]["num_alive"] <= alive[site]["num_alive"] for site in alive)
    assert {"jax", "numpyro", "bayesprune"} <= set(made["versions"])
    assert made["settings"]["mlp"]["hidden"] == [8] and made["settings"]["standard"]["warm_up"] == STANDARD.warm_up


def test_metrics_say_the_course_and_its_acts(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = content(done)
    assert made["course"] == repr(STANDARD) and made["kl_weight"] == 1.0
    with np.load(done / "history.npz") as history:
        assert made["acts"]["rounds"] == len(history["prune/step"]) == 4
        assert made["acts"]["num_cut"] == history["prune/num_pruned"].sum()
        rises = [min(1, step / (20 * STANDARD.warm_up)) for step in range(20)]
        assert history["kl_weight"].tolist() == pytest.approx(rises)
    told = f"course standard; acts: {made['acts']['proposed']} proposed, {made['acts']['cut']} cut, "
    assert told in runs.end_of_run(made, [])


def test_a_kl_weight_that_is_not_one_is_told(done: Path) -> None:
    cold = content(done) | {"kl_weight": 0.01, "kl_weight_in_words": kl_in_words(0.01)}
    told = runs.end_of_run(cold, [])
    assert "KL weight 0.01: cold posterior" in told and f"{cold['flops']['theoretical']:,} theoretical" in told
    assert "| KL weight |" in runs.runs({"run": cold}) and "| KL weight |" not in runs.runs({"run": content(done)})


def test_metrics_are_those_of_the_saved_predictions(done: Path) -> None:
    with np.load(done / "predictions.npz") as stored:
        probs, y = stored["probs"], stored["y"]
    assert content(done)["metrics"]["accuracy"] == pytest.approx(np.mean(probs.argmax(1) == y))
    assert content(done)["metrics"]["nll"] == pytest.approx(-np.mean(np.log(probs[np.arange(len(y)), y])), rel=1e-5)


def test_the_posterior_holds_every_weight_and_the_mask_what_may_be_pruned(done: Path) -> None:
    posterior, mask, _ = load_posterior(done / "posterior.safetensors")
    assert set(posterior) == {"Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel", "Dense_1.bias"}
    assert set(mask) == {"Dense_0.kernel", "Dense_0.bias"}
    dead = ~mask["Dense_0.kernel"]
    assert (posterior["Dense_0.kernel"].loc[dead] == 0).all() and (posterior["Dense_0.kernel"].scale[dead] == 0).all()


def test_the_history_has_a_row_for_each_pruning(done: Path) -> None:
    with np.load(done / "history.npz") as history:
        assert history["losses"].shape == (20,)
        assert history["prune/step"].tolist() == [4, 8, 12, 16]
        assert history["eval/step"].tolist() == [10, 20]


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_bits(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "stopped"
    chunk = training.Training._chunk

    def stop_at_step_12(self: Any, state: Any, *rest: Any) -> Any:
        if int(state.carry.step) >= 12:
            raise KeyboardInterrupt
        return chunk(self, state, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(training.Training, "_chunk", stop_at_step_12)
        assert small_run(out) == 130
    assert "goes on from step 10" in capsys.readouterr().err
    assert not (out / "metrics.json").exists()
    assert small_run(out) == 0
    assert "going on from step 10 of 20" in capsys.readouterr().out
    went_on, straight = (load_posterior(folder / "posterior.safetensors") for folder in (out, done))
    jax.tree.map(np.testing.assert_array_equal, went_on.posterior, straight.posterior)
    jax.tree.map(np.testing.assert_array_equal, went_on.mask, straight.mask)
    assert went_on.metadata == straight.metadata
    assert content(out)["metrics"] == content(done)["metrics"]
    assert content(done)["resumed_at_step"] == 0 and content(out)["resumed_at_step"] == 10
    assert " s from step 10 on" in runs.end_of_run(content(out), []) and " on\n" not in runs.end_of_run(content(done), [])


def test_sigterm_ends_a_run_saved_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chunk = training.Training._chunk

    def terminated_at_once(self: Any, state: Any, *rest: Any) -> Any:
        if int(state.carry.step) == 0:
            signal.raise_signal(signal.SIGTERM)
        return chunk(self, state, *rest)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(training.Training, "_chunk", terminated_at_once)
    assert small_run(tmp_path / "run") == 143
    told = capsys.readouterr().err.strip()
    assert re.fullmatch(r"bayesprune: interrupted; the same command goes on from step [1-4]\.", told)
    assert signal.getsignal(signal.SIGTERM) is before
    step = int(told[-2])
    assert (tmp_path / "run" / "checkpoints" / f"step_{step:010d}.safetensors").exists()  # saved there, not where it was due
    assert step not in (0, 5) and (tmp_path / "run" / "settings.json").exists()


def test_sigterm_before_training_ends_the_command_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rows, "load_data", lambda _: signal.raise_signal(signal.SIGTERM))
    assert small_run(tmp_path / "run") == 143
    assert "terminated" in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_second_command_in_a_folder_learns_of_the_first(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = f"process {os.getpid()} on {platform.node()} is at work in {done}"
    with alone_in(done):
        assert told in refused(capsys, "run", *SMALL, "--out", str(done))
        capsys.readouterr()
        assert cli.main(["report", str(done)]) == 2 and told in capsys.readouterr().err
    assert small_run(done) == 0


def test_a_run_that_is_not_finished_says_who_is_at_work_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with alone_in(tmp_path):
        assert f"Process {os.getpid()} on {platform.node()} is at work there" in refused(capsys, "report", str(tmp_path))
    assert "at work" not in refused(capsys, "report", str(tmp_path))


def test_damaged_files_of_a_run_are_told_in_one_line(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "settings.json": "evaluate",
        "posterior.safetensors": "evaluate",
        "metrics.json": "report",
        "history.npz": "report",
    }
    for name, command in names.items():
        folder = shutil.copytree(done, tmp_path / name.partition(".")[0])
        content = bytearray((folder / name).read_bytes())
        for place in range(len(content) // 2, len(content) // 2 + 64):  # one alone may be a date inside a zip
            content[place] ^= 0x11
        (folder / name).write_bytes(content)
        capsys.readouterr()
        assert cli.main([command, str(folder)]) == 2
        assert f"{folder / name} is no whole" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["metrics.json", "history.npz", "predictions.npz", "posterior.safetensors", "settings.json"])
def test_a_file_of_another_kind_is_told_in_one_line(
    name: str, done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(done, tmp_path / "run")
    other = {"metrics.json": {name: {} for name in results.NEEDED["metrics.json"]}, "settings.json": {"net": 1, "method": 2}}
    if name in other:
        (folder / name).write_text(json.dumps(other[name]))  # no checksum: as an older release may have written it
    elif name == "posterior.safetensors":
        save_posterior(folder / name, {"w": MeanField(np.ones((2, 2)), np.ones((2, 2)))}, {}, {})
    else:
        np.savez(folder / name, losses=np.array(["a"]), probs=np.ones(3), y=np.ones(2), **{"prune/step": np.ones((2, 2))})
    assert cli.main(["evaluate" if name == "settings.json" else "report", str(folder)]) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("bayesprune: error: ") and str(folder) in line


@pytest.mark.slow
def test_a_finished_run_only_has_its_figures_drawn_again(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (done / "metrics.json").stat().st_mtime_ns
    (done / "training.png").unlink()
    assert small_run(done) == 0
    assert "finished" in capsys.readouterr().out
    assert (done / "metrics.json").stat().st_mtime_ns == before and (done / "training.png").exists()


def test_other_settings_are_refused_by_name(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "run", *SMALL, "--out", str(done), "--bmr.alpha0", "2", "--seed", "1")
    assert "bmr.alpha0 was 1.0, now 2.0" in line and "seed was 0, now 1" in line


def test_evaluate_repeats_the_metrics_of_the_run(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(done), "--num-samples", "5", "--ood", "digits", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told.pop("auroc_digits") == pytest.approx(0.5)  # told apart from itself: by chance only
    assert told == content(done)["metrics"]


def test_report_compares_runs(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(done), str(done), "--no-figures"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].startswith("| run") and set(lines[1]) <= set("| -:")
    assert len({len(line) for line in lines}) == 1


@pytest.mark.slow_cases(8)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--dataset", "digitz"], r"unknown data set 'digitz'. Did you mean 'digits'"),
        (["run", "--method", "bmrr"], r"unknown method 'bmrr'. Did you mean 'bmr'"),
        (["run", "--net", "mpl"], r"unknown net 'mpl'. Did you mean 'mlp'"),
        (["run", "--prior", "flatt"], r"unknown prior 'flatt'. Did you mean 'flat'"),
        (["run", "--estimator", "locl"], r"unknown estimator 'locl'. Did you mean 'local'"),
        (["run", "--posterior", "full", "--mlp.hidden", "2"], r"trains whole arrays.*--method none"),
        (["run", "--posterior", "map"], r"BMR needs a posterior with spread, and this one is of points"),
        (["run", "--steps", "0"], r"steps must be an integer of at least 1"),
        (["run", "--steps", "10", "--every", "10"], r"never prunes"),
        (["run", "--method", "snr", "--snr.density", "1.5"], r"density must lie in"),
        (["run", "--method", "snr", "--snr.density", "Cubik(0.1)"], r"unknown schedule 'Cubik'. Did you mean"),
        (["run", "--dataset", "diabetes", "--net", "lenet5"], r"needs images"),
        (["rum"], r"unknown command 'rum'. Did you mean 'run'"),
        (["evaluate", "nowhere"], r"no run in nowhere"),
        (["report", "nowhere"], r"no finished run in nowhere"),
    ],
)
def test_a_bad_setting_is_told_in_one_line(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(told, refused(capsys, *words))


def test_a_missing_data_file_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BAYESPRUNE_DATA", raising=False)
    line = refused(capsys, "run", "--dataset", "uci/yacht", "--data-dir", str(tmp_path), "--out", str(tmp_path / "run"))
    assert "yacht.npz" in line and not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_ends_the_run_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(run, "fit_svi", lambda *_, **__: pytest.fail("trained"))
    assert "cannot write" in refused(capsys, "run", *SMALL, "--out", str(tmp_path / "file" / "run"))


def test_debug_shows_where_an_error_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--method", "bmrr", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_wrong_flag_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        ("run --method snr --bmr.alpha0 1", "Unrecognized options: --bmr.alpha0, 1"),
        (
            "run --stepss 200",
            "Unrecognized options: --stepss, 200. Perhaps you meant: --steps. bayesprune run --help shows all",
        ),
        ("run --steps many", "Error parsing --steps: invalid literal for int() with base 10: 'many'. bayesprune run --help"),
        ("run --target y y2", "Unrecognized options: y2. "),
        ("run --steps", "argument --steps: expected one argument. bayesprune run --help"),
        ("predict here", "Missing from bayesprune predict: PATH Rows: of a fit or run"),
        ("compact here --keep meen", "invalid choice 'meen' for argument '--keep'. Expected one of ('posterior', 'mean'). "),
    ):
        assert told in refused(capsys, *words.split())
    with pytest.raises(SystemExit), flags_in_one_line("run"):
        raise SystemExit(0)  # --help goes its way


def test_methods_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["methods"]) == 0
    told = capsys.readouterr().out
    assert "--data FILE" in told and "--net MODULE:FUNCTION" in told
    for word in (
        "bmr",
        "magnitude",
        "snr",
        "none",
        "scale-mixture",
        "lenet5",
        "fashion_mnist",
        "alpha0=1.0",
        "density=0.1",
        "warm_up=",
    ):
        assert word in told
    of_runs, of_samplers = told.partition("\n\npriors ")[0].split("methods of samplers (in Python: bp.fit_sgmcmc)")
    for name in ("mbnn", "sghmcspl"):  # a run refuses them
        assert name in of_samplers and name not in of_runs


def test_a_method_that_samples_is_no_method_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, "run", "--method", "SGHMC-SPL")
    assert "method 'sghmcspl'" in told and "sample by bp.fit_sgmcmc(..., sparsifier=bp.methods.SGHMCSPL()" in told
    told = refused(capsys, "run", "--method", "mbnn")
    assert "method 'mbnn' moves a chain" in told and "sparsifier=bp.methods.MBNN(), kernel=bp.kernels.SGHMC()" in told


def test_the_flags_follow_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--method", "snr", "--prior", "ScaleMixture", "--help"]) == 0
    told = capsys.readouterr().out
    assert "--snr.density" in told and "--scale-mixture.pi" in told and "--bmr.alpha0" not in told
    assert "--standard.warm-up" in told and "--plain.rate" not in told


def test_a_run_ends_with_a_compact_network(done: Path) -> None:
    made, small = content(done)["compact"], bp.load(done / "net.bayesprune")
    assert made["certificate_holds"] and small.certify().holds
    assert 0 < made["numbers"] <= made["dense_numbers"] == 64 * 8 + 8 + 8 * 10 + 10
    assert made["bytes"] == (done / "net.bayesprune").stat().st_size
    assert min(made["seconds"], made["seconds_before"]) > 0
    assert small.metadata["settings"] == content(done)["settings"]


@pytest.mark.slow
def test_a_run_s_metrics_are_of_the_compact_network_that_it_holds(done: Path, tmp_path: Path) -> None:
    out = shutil.copytree(done, tmp_path / "run")
    for values in ("float32", "bfloat16"):
        assert cli.main(["compact", str(out), "--values", values]) == 0
        assert content(out)["compact"]["bytes"] == (out / "net.bayesprune").stat().st_size
        assert (values == "float32") == (content(out)["compact"]["bytes"] == content(done)["compact"]["bytes"])
    assert small_run(out) == 0 and content(out)["metrics"] == content(done)["metrics"]


@pytest.mark.slow
def test_a_compact_network_by_the_command_line(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, new, made = tmp_path / "net.bayesprune", tmp_path / "rows.npz", tmp_path / "made.npz"
    assert cli.main(["compact", str(done), "--values", "posterior", "--to", str(net)]) == 0
    assert "of 610 numbers" in capsys.readouterr().out.replace("\n", " ")
    x = bp.data.load("digits")[1].x[:5]
    np.savez(new, x=x)
    assert cli.main(["predict", str(net), str(new), "--num-samples", "3", "--to", str(made)]) == 0
    with np.load(made) as found:
        assert found["mean"].shape == (5, 10) and found["draws"].shape == (3, 5, 10)
        np.testing.assert_allclose(found["draws"].mean(0), found["mean"], rtol=1e-5)
    assert cli.main(["predict", str(net), str(new), "--uncertainty", "--to", str(made)]) == 0
    with np.load(made) as found:  # the prediction is of the networks whose parts stand beside it
        entropy = -(found["mean"] * np.log(found["mean"])).sum(-1)
        assert "draws" not in found and found["epistemic"].min() > 1e-4
        np.testing.assert_allclose(found["total"], entropy, rtol=1e-4)
    assert cli.main(["predict", str(net), str(new)]) == 0
    assert capsys.readouterr().out.count("[") == 6
    assert cli.main(["export", str(net), "--to", "onnx"]) == 0
    session = pytest.importorskip("onnxruntime").InferenceSession(net.with_suffix(".onnx"))
    np.testing.assert_allclose(session.run(None, {"x": x})[0], bp.load(net).predict(x), rtol=1e-3, atol=1e-4)


def test_commands_of_compact_networks_name_the_remedy(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "bayesprune compact RUN" in refused(capsys, "export", str(tmp_path / "none"))
    assert "bayesprune compact RUN" in refused(capsys, "predict", str(done / "posterior.safetensors"), str(tmp_path / "x.npy"))
    assert "no rows at" in refused(capsys, "predict", str(done / "net.bayesprune"), str(tmp_path / "x.npy"))


@pytest.mark.slow
def test_the_face_of_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "bayesprune"], capture_output=True, text=True, check=False, cwd="src")
    assert done.returncode == 0 and "bayesprune run" in done.stdout


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["--method", "none"],
        ["--method", "magnitude", "--posterior", "map", "--magnitude.density", "Cubic(0.2, 0, 3)"],
        ["--method", "snr", "--prior", "scale-mixture", "--prunable", "kernels", "--validation", "0.5"],
        ["--dataset", "diabetes", "--prior", "gaussian", "--estimator", "local"],
    ],
    ids=lambda more: more[1],
)
def test_other_choices_run(more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert small_run(tmp_path / "run", *more) == 0
    made, there = content(tmp_path / "run"), {path.name for path in (tmp_path / "run").glob("*.png")}
    share = made["sparsity"]["prunable"]["density"]
    if more[1] == "none":
        assert share == 1.0 and made["evidence_gained_nats"] is None and there == FIGURES - {"pruned.png"}
    elif more[1] == "magnitude":
        assert share == pytest.approx(0.2, abs=0.01)
    elif more[1] == "snr":
        assert (
            made["sparsity"]["prunable_sites"] == ["Dense_0.kernel", "Dense_1.kernel"]
            and made["evaluated_on"]["part"] == "validation"
        )
        assert made["train_rows"] == 719 and share == pytest.approx(0.1, abs=0.01)
    else:
        assert there == FIGURES - {"reliability.png"} and made["evaluated_on"]["target_scale"] == pytest.approx(77, rel=0.1)
        assert set(made["metrics"]) == {"rmse", "nll", "coverage", "interval_width", "crps"} == set(made["definitions"])
    capsys.readouterr()
    assert cli.main(["evaluate", str(tmp_path / "run"), "--num-samples", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(made["metrics"], rel=1e-6)


def test_settings_come_back_as_they_went(tmp_path: Path) -> None:
    words = ["--method", "snr", "--snr.density", "Cubic(0.1, 0, 5)", "--mlp.hidden", "5", "6", "--out", str(tmp_path)]
    made = build.resolve(parse(words))
    settings.claim(made, tmp_path)
    assert dataclasses.asdict(settings.load(tmp_path, out=tmp_path)) == dataclasses.asdict(made)
    assert build.make_method(settings.load(tmp_path)).density == Cubic(0.1, 0, 5)


def test_what_is_left_out_is_filled_in() -> None:
    made = build.resolve(parse(["--net", "LeNet-5", "--dataset", "Fashion-MNIST", "--steps", "900"]))
    assert (made.net, made.dataset, made.pad, made.every, made.eval_every, str(made.out)) == (
        "lenet5",
        "fashion_mnist",
        32,
        0,
        45,
        "runs/fashion_mnist-lenet5-bmr",
    )


def test_knobs_are_built_back() -> None:
    assert knobs.build(Magnitude, {"density": "0.5", "scope": "per_layer"}) == Magnitude(0.5, "per_layer")


def test_one_docstring_entry_may_tell_of_several_knobs() -> None:
    about = {knob.name: knob.about for knob in knobs.knobs(choose("method", "bmr").cls)}
    assert about["alpha0"] == about["beta0"] and "Beta prior" in about["alpha0"] and about["group"]


def test_names_of_flags() -> None:
    assert [flag_name(name) for name in ("BMR", "ScaleMixture", "SSVI", "Dirac_Slab")] == [
        "bmr",
        "scale-mixture",
        "ssvi",
        "dirac-slab",
    ]


@pytest.mark.every
@pytest.mark.slow
def test_a_structured_run_keeps_drawn_networks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its mean is no network: what is timed is one that was drawn."""
    out = tmp_path / "run"
    asked = ["--dataset", "digits", "--net", "mlp", "--mlp.hidden", "8", "--prior", "horseshoe", "--posterior", "structured"]
    assert cli.main(["run", *asked, "--method", "bmr", "--steps", "40", "--out", str(out), "--seed", "0"]) == 0
    made = content(out)["compact"]
    assert made["keeps"] == "draws" and min(made["seconds"], made["seconds_before"]) > 0
    capsys.readouterr()
    assert cli.main(["compact", str(out)]) == 0 and "of 610 numbers" in capsys.readouterr().out.replace("\n", " ")
    assert cli.main(["compact", str(out), "--keep", "mean"]) == 2 and "posterior='mean_field'" in capsys.readouterr().err


def test_of_a_run_that_is_not_over_its_command_is_the_remedy(tmp_path: Path) -> None:
    """Nothing in the folder; then the settings of a run that was stopped."""
    with pytest.raises(FileNotFoundError, match=r"no finished run in .*it has no metrics.json\. $"):
        results.read_posterior(tmp_path)
    (tmp_path / "settings.json").write_text("{}")
    for read in (results.read_posterior, results.read_metrics):
        with pytest.raises(FileNotFoundError, match=r"Give the command that began it once more: it goes on\."):
            read(tmp_path)
