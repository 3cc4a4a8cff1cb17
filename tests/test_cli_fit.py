"""`bayesprune fit`: a table with texts, dates and gaps, judged, predicted and evaluated from its folder; what is refused."""

import csv
import functools
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, r2_score

from bayesprune import cli
from bayesprune.cli import fit, fit_report, fitted, predict
from bayesprune.core.files import DamagedFileError
from bayesprune.data.tables.target import Target
from bayesprune.sklearn import saving
from tests.test_cli import refused

ROWS = 120


def table() -> pd.DataFrame:
    """A number with gaps, texts, codes, dates, one input of noise; ``rent`` and ``kind`` are of the first two."""
    rng = np.random.default_rng(0)
    area, district = rng.uniform(20, 120, ROWS), rng.choice(["hill", "river"], ROWS)
    rent = 9 * area + 200 * (district == "hill") + 20 * rng.standard_normal(ROWS)
    frame = pd.DataFrame({"area": area, "district": district, "zone": rng.choice(["a1", "b2", "c3"], ROWS)})
    frame["listed"] = pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d")
    frame.loc[rng.choice(ROWS, 9, replace=False), "area"] = np.nan
    frame.loc[rng.choice(ROWS, 9, replace=False), "zone"] = None
    return frame.assign(rent=rent, kind=np.select([rent > 900, rent > 600], ["dear", "mid"], "cheap"))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with flats.csv, new.csv (other order, no targets) and a fit of numbers, of a small network."""
    folder = tmp_path_factory.mktemp("fit")
    table().to_csv(folder / "flats.csv", index=False)
    table()[["listed", "zone", "district", "area"]].iloc[:6].to_csv(folder / "new.csv", index=False)
    return fitted_to(folder, "rent", "kind")


@pytest.fixture(scope="module")
def both(done: Path) -> Path:
    """A fit of classes beside it."""
    return fitted_to(done, "kind", "rent")


def fitted_to(folder: Path, target: str, other: str) -> Path:
    own = fit._estimator

    def small(*given: Any) -> Any:
        return own(*given).set_params(hidden=(8,), num_steps=300, held_out=0.3, num_samples=20)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "_estimator", small)
        words = ["fit", str(folder / "flats.csv"), "--target", target, "--drop", other, "--out", str(folder / target)]
        assert cli.main(words) == 0
    return folder


def held(folder: Path) -> tuple[fitted.FinishedFit, pd.DataFrame]:
    """A fit, and the rows that it has not seen, drawn here once more by NumPy alone."""
    frame = pd.read_csv(folder.parent / "flats.csv")
    test = np.random.RandomState(0).permutation(ROWS)[ROWS - 24 :]
    return fitted.load(folder), frame.iloc[test]


def test_numbers_are_judged_by_rows_that_the_fit_has_not_seen(done: Path) -> None:
    of, rows = held(done / "rent")
    found = json.loads((done / "rent" / "fit.json").read_text())
    scores, x, y = found["scores"], rows[list(of.columns)], rows["rent"].to_numpy()
    mean, ends = of.model.predict(x, interval=0.9)
    assert (
        found["rows"] == {"fit": 96, "judged": 24} and scores["r2"] == pytest.approx(r2_score(y, mean)) and scores["r2"] > 0.8
    )
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert scores["nll"] == pytest.approx(-of.model.log_density(x, y).mean())
    assert scores["coverage_90"] == np.mean([low <= one <= high for one, (low, high) in zip(y, ends, strict=True)])
    assert scores["width_90"] == pytest.approx(np.mean(ends[:, 1] - ends[:, 0]))
    samples = of.model.sample_y(x, fitted.DRAWS)  # E|s - y| - E|s - s'|/2 over pairs of different draws
    apart = np.abs(samples[:, :, None] - samples[:, None, :]).sum(axis=(1, 2)) / (fitted.DRAWS * (fitted.DRAWS - 1))
    assert scores["crps"] == pytest.approx(np.mean(np.abs(samples - y[:, None]).mean(axis=1) - 0.5 * apart))
    fitted_rows = pd.read_csv(done / "flats.csv").drop(rows.index)
    assert found["without_inputs"]["rmse"] == pytest.approx(np.sqrt(np.mean((y - fitted_rows["rent"].mean()) ** 2)))


@pytest.mark.slow
def test_classes_are_judged_by_rows_that_the_fit_has_not_seen(both: Path) -> None:
    of, rows = held(both / "kind")
    found = json.loads((both / "kind" / "fit.json").read_text())
    scores, x, y = found["scores"], rows[list(of.columns)], rows["kind"].to_numpy()
    probs, names = of.model.predict_proba(x), list(of.classes)
    assert names == ["cheap", "dear", "mid"] and scores["nll"] == pytest.approx(log_loss(y, probs, labels=names), rel=1e-6)
    assert scores["accuracy"] == accuracy_score(y, np.array(names)[probs.argmax(1)]) > 0.6
    sets = of.model.predict_set(x, 0.9)
    assert scores["coverage_90"] == np.mean([one in np.array(names)[some] for one, some in zip(y, sets, strict=True)])
    assert scores["set_size_90"] == sets.sum() / 24


@pytest.mark.parametrize("target", ["rent", pytest.param("kind", marks=pytest.mark.slow)])
def test_inputs_stand_in_the_order_of_what_they_move(target: str, request: pytest.FixtureRequest) -> None:
    done = request.getfixturevalue("done" if target == "rent" else "both")
    of, rows = held(done / target)
    with open(done / target / "inputs.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    moves = [float(line["moves"]) for line in lines]
    assert lines[0]["input"] == "area" and moves == sorted(moves, reverse=True) and len(lines) == len(of.columns)
    values = np.abs(of.model.explain(rows[list(of.columns)]).values)
    area = values[:, of.columns.index("area")]
    assert moves[0] == pytest.approx(area.mean() if target == "rent" else area.sum(axis=1).mean() / 2)
    page = (done / target / "report.html").read_text()
    assert page.count("<img alt='") == 2 and all(line["input"] in page for line in lines)


def predicted(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    assert cli.main(["predict", *words]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_new_rows_are_predicted_from_the_folder(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of, x = fitted.load(done / "rent"), pd.read_csv(done / "new.csv")
    mean, ends = of.model.predict(x[list(of.columns)], interval=0.8)
    lines = predicted(capsys, str(done / "rent"), str(done / "new.csv"), "--level", "0.8")
    numbers = np.array([[float(value) for value in line.values()] for line in lines])
    np.testing.assert_allclose(numbers, np.column_stack([mean, ends]), rtol=1e-5)


@pytest.mark.slow
def test_classes_of_new_rows_are_predicted_from_the_folder(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of, x = fitted.load(both / "kind"), pd.read_csv(both / "new.csv")
    x = x[list(of.columns)]
    lines = predicted(capsys, str(both / "kind"), str(both / "new.csv"), "--uncertainty")
    assert [line["kind"] for line in lines] == [of.classes[place] for place in of.model.predict(x)]
    said = [[float(line[name]) for name in ("p(cheap)", "p(dear)", "p(mid)", "total")] for line in lines]
    np.testing.assert_allclose(said, np.column_stack([of.model.predict_proba(x), of.model.uncertainty(x).total]), rtol=1e-4)


def test_a_fit_is_evaluated_on_its_own_rows_and_on_others(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(done / "rent"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((done / "rent" / "fit.json").read_text())["scores"]
    assert cli.main(["evaluate", str(done / "rent"), "--data", str(done / "flats.csv")]) == 0
    assert f"{ROWS} rows" in capsys.readouterr().out


@pytest.mark.slow
def test_a_class_that_the_fit_has_not_seen_is_never_right(both: Path) -> None:
    of, rows = held(both / "kind")
    x, y = rows[list(of.columns)], np.full(24, 7)
    scores = fitted.judged(of, x, np.where(np.arange(24) < 6, y, of.model.predict(x)), of.predict(x))
    assert scores["accuracy"] == 18 / 24 and scores["nll"] == np.inf and scores["coverage_90"] <= 18 / 24


def test_the_same_command_says_it_again_and_another_one_is_refused(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", str(done / "flats.csv"), "--target", "rent", "--drop", "kind", "--out", str(done / "rent")]
    before = (done / "rent" / "fit.json").stat().st_mtime_ns
    assert cli.main(words) == 0 and "holds this very fit" in capsys.readouterr().out
    assert (done / "rent" / "fit.json").stat().st_mtime_ns == before
    assert "other settings: give another --out" in refused(capsys, *words, "--seed", "1")
    run = ["run", "--data", str(done / "flats.csv"), "--target", "rent", "--out", str(done / "rent"), "--drop", "area", "zone"]
    assert "is of bayesprune fit" in refused(capsys, *run) and "is of bayesprune fit" in refused(
        capsys, "compact", str(done / "rent")
    )


def test_columns_of_text_are_read_as_text_again(done: Path, tmp_path: Path) -> None:
    """Codes that a new file could be read of as numbers."""
    of = fitted.load(done / "rent")
    assert of.texts == ("district", "zone", "listed")
    table().assign(zone="01").to_csv(tmp_path / "codes.csv", index=False)
    assert set(of.frame(tmp_path / "codes.csv")["zone"]) == {"01"}


@pytest.mark.parametrize("asked", ["auto", "categorical", "ordinal", "normal"])
def test_codes_with_zeros_in_front_are_kept_as_they_are_written(asked: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes, zips = rng.choice(["01", "02", "10"], 90), rng.choice(["00501", "10001"], 90)
    pd.DataFrame({"a": rng.normal(size=90), "zip": zips, "y": codes}).to_csv(tmp_path / "my.csv", index=False)
    settings = {"target": "y", "features": [], "drop": [], "likelihood": asked, "test_share": 0.2, "split": 0}
    found, (fitted_rows, _), *_ = fit._read(tmp_path / "my.csv", settings)
    assert found.target.classes == (() if asked == "normal" else ("01", "02", "10"))
    assert found.texts == ("zip",) and set(fitted_rows["zip"]) == {"00501", "10001"}
    (tmp_path / "new.csv").write_text("a,zip,y\n0,10001,10\n")
    x, y = found.labelled(tmp_path / "new.csv")
    assert y.tolist() == [10.0 if asked == "normal" else 2] and x["zip"].tolist() == ["10001"]


def test_what_a_time_limit_cut_is_said(done: Path) -> None:
    record = json.loads((done / "rent" / "fit.json").read_text())
    assert not fit_report._left_out(record)
    record["network"]["left_out"] = {"forms": ["linear"], "held_out": 0.25, "steps": 4688}
    (said,) = fit_report._left_out(record)
    assert (
        said.startswith("--time-limit left no time for forms linear; held_out 0.25; steps 4688.") and "posterior's own" in said
    )
    assert said in fit_report.end(record, done / "rent")


def test_names_are_no_markup(done: Path) -> None:
    record = json.loads((done / "rent" / "fit.json").read_text())
    record["inputs"][0]["input"], record["target"]["name"] = "<b>area", "<i>rent"
    of, rows = held(done / "rent")
    x = rows[list(of.columns)]
    page = fit_report.html(record, of, (x, rows["rent"].to_numpy()), of.predict(x), of.model.explain(x))
    assert "<b>" not in page and "<i>" not in page and "&lt;b&gt;area" in page


def test_a_fit_that_is_not_whole_is_made_anew(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(done / "rent", tmp_path / "rent")
    (tmp_path / "rent" / fitted.MODEL).unlink()
    with pytest.raises(FileNotFoundError, match="give the same bayesprune fit command again"):
        fitted.load(tmp_path / "rent")
    made = []
    monkeypatch.setattr(fit, "_complete", lambda folder, settings, data: made.append(folder))
    words = ["fit", str(done / "flats.csv"), "--target", "rent", "--drop", "kind", "--out", str(tmp_path / "rent")]
    assert cli.main(words) == 0 and made == [tmp_path / "rent"]


def test_what_cannot_be_fitted_is_refused_in_one_line(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = functools.partial(refused, capsys)
    words = ["fit", str(done / "flats.csv"), "--out", str(tmp_path / "out"), "--target"]
    assert "drop holds the target" in told(*words, "rent", "--drop", "rent")
    assert "'ren'" in told(*words, "ren") and "rent" in told(*words, "ren")
    assert "number them" in told(*words, "kind", "--likelihood", "ordinal")
    assert "unknown choice of likelihood" in told(*words, "kind", "--likelihood", "gaussian")
    rare = pd.DataFrame(
        {"x": np.arange(20.0), "y": np.where(np.isin(np.arange(20), _held(20)), "zz", np.resize(["a", "b"], 20))}
    )
    rare.to_csv(tmp_path / "rare.csv", index=False)
    assert "give another --split" in told("fit", str(tmp_path / "rare.csv"), "--target", "y", "--out", str(tmp_path / "out"))
    assert "which 'rent' cannot be: choose normal" in told(*words, "rent", "--likelihood", "poisson")
    np.savez(tmp_path / "rows.npz", x=np.zeros((4, 2)), y=np.zeros(4))
    assert "bayesprune run --data" in told("fit", str(tmp_path / "rows.npz"), "--target", "y", "--out", str(tmp_path / "out"))
    table().drop(columns="area").to_csv(tmp_path / "less.csv", index=False)
    assert "lacks area, which flats.csv had" in told("predict", str(done / "rent"), str(tmp_path / "less.csv"))
    assert "leave num_samples, seed and net out" in told(
        "predict", str(done / "rent"), str(done / "new.csv"), "--num-samples", "5"
    )
    assert "leave num_samples, seed and net out" in told("predict", str(done / "rent"), str(done / "new.csv"), "--seed", "0")
    assert "leave num_samples out" in told("evaluate", str(done / "rent"), "--num-samples", "5")
    assert "which predict and evaluate read" in told("report", str(done / "rent"))
    table().drop(columns="rent").to_csv(tmp_path / "less.csv", index=False)
    assert "lacks rent, the target" in told("evaluate", str(done / "rent"), "--data", str(tmp_path / "less.csv"))
    assert not (tmp_path / "out" / "fit.json").exists()


def _held(rows: int) -> np.ndarray:
    return np.random.RandomState(0).permutation(rows)[rows - rows // 5 :]


class Foreign:
    """A type that no estimator of ours holds."""

    made = 0

    def __init__(self) -> None:
        Foreign.made += 1

    def __setstate__(self, state: Any) -> None:
        Foreign.made += 1


def test_a_strangers_file_runs_nothing(done: Path, tmp_path: Path) -> None:
    model = fitted.load(done / "rent").model
    model.verbose = Foreign()
    model.verbose.mark = 1
    saving.save(model, tmp_path / "model.skops")
    before = Foreign.made
    with pytest.raises(DamagedFileError, match=r"holds tests.test_cli_fit.Foreign, which an estimator of bayesprune does not"):
        saving.load(tmp_path / "model.skops")
    assert Foreign.made == before


def node(loader: str, module: str, name: str, **content: Any) -> dict[str, Any]:
    return {"__loader__": loader, "__module__": module, "__class__": name, **content}


def text(value: str) -> dict[str, Any]:
    return node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)


@pytest.mark.parametrize("loader", ["ConstructorFromReduceNode", "FunctionNode", "ObjectNode", "TupleNode", "ListNode"])
@pytest.mark.parametrize(("module", "name"), [("bayesprune.core.files", "write_atomically"), ("bayesprune.__main__", "main")])
def test_a_forged_file_calls_nothing_of_ours(loader: str, module: str, name: str, tmp_path: Path) -> None:
    given = node("TupleNode", "builtins", "tuple", content=[text(str(tmp_path / "forged")), text("x")])
    schema = node(loader, module, name, content=given) | {"protocol": 2, "_skops_version": "0.16.0"}
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as file:
        file.writestr("schema.json", json.dumps(schema))
    with pytest.raises(DamagedFileError, match=r"it holds .* (does not|is no part of an estimator)"):
        saving.load(tmp_path / "model.skops")
    assert not (tmp_path / "forged").exists()


def test_what_an_estimator_can_hold_is_ours_and_a_data_type(done: Path) -> None:
    saving._check_ours("bayesprune.priors.dirac_slab", "DiracSlab")
    saving._check_ours("numpy", "ndarray")  # skops' own list decides
    for module, name in (
        ("bayesprune.sklearn.saving", "load"),
        ("bayesprune.sklearn.columns", "Any"),
        ("bayesprune.cli", "main"),
    ):
        with pytest.raises(ValueError, match="is no part of an estimator"):
            saving._check_ours(module, name)


@pytest.mark.parametrize(("target", "head"), [("low", "low,low: low,low: high"), ("rent", "rent,low,high")])
def test_a_target_may_have_the_name_of_a_column_beside_it(target: str, head: str) -> None:
    arrays = {"mean": np.array([1.0]), "low": np.array([0.0]), "high": np.array([2.0])}
    lines = predict._csv(predict.Predicted(arrays, Target(target, "numbers"))).splitlines()
    assert lines == [head, "1,0,2"]


@pytest.mark.parametrize("damage", ["cut", "changed", "text", "another"])
def test_a_damaged_estimator_is_named(damage: str, done: Path, tmp_path: Path) -> None:
    path, content = tmp_path / "rent" / fitted.MODEL, (done / "rent" / fitted.MODEL).read_bytes()
    shutil.copytree(done / "rent", tmp_path / "rent")
    middle = len(content) // 2
    saving.save(fitted.load(done / "rent").model.set_params(verbose=True), tmp_path / "another.skops")
    another = (tmp_path / "another.skops").read_bytes()
    made = {
        "another": another,
        "cut": content[:middle],
        "changed": content[:middle] + b"\0" * 64 + content[middle + 64 :],
        "text": b"rent",
    }
    path.write_bytes(made[damage])
    with pytest.raises(DamagedFileError, match=r"model.skops is no whole saved estimator"):
        fitted.load(tmp_path / "rent")


def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.skops", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", "{}")
        file.writestr("1.npy", b"\0" * (saving.ROOM + 1))
    with pytest.raises(DamagedFileError, match="unpacks to"):
        saving.load(tmp_path / "model.skops")


@pytest.mark.slow
def test_predictions_survive_saving_to_the_bit(both: Path, tmp_path: Path) -> None:
    of, rows = held(both / "kind")
    x = rows[list(of.columns)]
    saving.save(of.model, tmp_path / "again.skops")
    again = saving.load(tmp_path / "again.skops")
    assert np.array_equal(again.predict_proba(x), of.model.predict_proba(x)) and again.get_params() == of.model.get_params()
    assert np.array_equal(again.predict_set(x), of.model.predict_set(x))
