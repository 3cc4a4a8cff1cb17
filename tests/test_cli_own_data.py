"""The command line on users' own files: one small run of a table, its predictions on a new one, and what is refused."""

import csv
import functools
import io
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayesprune import cli
from bayesprune.cli import log, predict, rows, run
from bayesprune.cli.build import resolve
from bayesprune.cli.errors import one_line
from bayesprune.cli.flags import parse
from bayesprune.data.tables.columns import choose
from bayesprune.data.tables.reading import NAMELESS
from bayesprune.data.tables.target import Target, infer_target
from bayesprune.report.export import load_posterior
from tests.test_cli import content, refused

TINY = ["--mlp.hidden", "3", "--steps", "6", "--batch-size", "20", "--every", "3", "--num-samples", "3", "--eval-every", "6"]
TINY += ["--posterior", "map", "--method", "none"]


def table(count: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = {"size": rng.normal(size=count), "colour": rng.choice(["red", "blue"], count), "year": 2020}
    kind = np.where(made["size"] > 0, "big cat", "cat, small")
    return pd.DataFrame(made | {"kind": kind, "price": 100 + 10 * made["size"], "visits": np.arange(count)})


def without_figures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run, "draw", lambda _: [])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with my.csv, new.csv (other order, no target) and a finished run, ``run``."""
    folder = tmp_path_factory.mktemp("own")
    frame = table()
    frame.to_csv(folder / "my.csv", index=False)
    frame[["colour", "size"]].iloc[:4].to_csv(folder / "new.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        words = ["--data", str(folder / "my.csv"), "--target", "kind", "--drop", "price", "visits"]
        assert cli.main(["run", *words, *TINY, "--log", "jsonl", "--out", str(folder / "run")]) == 0
    return folder


@pytest.mark.slow
def test_a_run_keeps_what_it_found_in_the_file(done: Path) -> None:
    made, schema = content(done / "run"), rows.schema_in(load_posterior(done / "run" / "posterior.safetensors").metadata)
    assert schema is not None and schema.target.classes == ("big cat", "cat, small")
    assert [c.name for c in schema.used] == ["size", "colour"] and made["data"]["target"]["name"] == "kind"
    assert made["settings"]["dataset"] == made["evaluated_on"]["dataset"] == "my.csv" and made["evaluated_on"]["rows"] == 8
    assert made["train_rows"] == 32


@pytest.mark.slow
def test_a_run_logs_its_figures(done: Path) -> None:
    lines = [json.loads(line) for line in (done / "run" / log.FILE).read_text().splitlines()]
    assert lines[-1]["step"] == 6 and all(np.isfinite(line["loss"]) for line in lines)
    assert [line["eval/step"] for line in lines if "eval/nll" in line] == [6.0]


@pytest.mark.slow
def test_what_is_found_is_printed(done: Path) -> None:
    for words, told in (
        (
            ["--target", "kind"],
            ["numbers, standardised: size, price, visits", "colour (blue, red)", "left out: year", "categorical"],
        ),
        (
            ["--target", "visits", "--features", "size"],
            [
                "target visits: overdispersed counts",
                "likelihood: negative-binomial (other readings of the target: --likelihood",
            ],
        ),
        (["--target", "visits", "--features", "size", "--likelihood", "poisson"], ["visits: counts", "likelihood: poisson"]),
        (["--target", "price", "--likelihood", "student-t"], ["target price: numbers, standardised", "likelihood: student-t"]),
    ):
        chosen = resolve(parse(["--data", str(done / "my.csv"), *words]))
        text = rows.described(rows.load_data(chosen), chosen)
        assert all(word in text for word in ["32 rows to train on, 8 to judge on", *told]), text


def predictions(capsys: pytest.CaptureFixture[str], *words: Any) -> list[dict[str, str]]:
    capsys.readouterr()
    assert cli.main(["predict", *map(str, words)]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.slow
def test_predictions_of_a_new_file_have_the_names_of_the_classes(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for net in (done / "run", done / "run" / "net.bayesprune"):
        found = predictions(capsys, net, done / "new.csv")
        assert len(found) == 4 and list(found[0]) == ["kind", "p(big cat)", "p(cat, small)"]
        for one in found:
            shares = {name: float(one[f"p({name})"]) for name in ("big cat", "cat, small")}
            assert sum(shares.values()) == pytest.approx(1.0, abs=1e-4) and one["kind"] == max(shares, key=shares.__getitem__)
        parts = predictions(capsys, net, done / "new.csv", "--uncertainty")
        assert list(parts[0]) == [*found[0], "total", "aleatoric", "epistemic"]
        for one in parts:
            total, aleatoric, epistemic = (float(one[name]) for name in ("total", "aleatoric", "epistemic"))
            assert total == pytest.approx(aleatoric + epistemic, rel=1e-4) and 0 <= total <= np.log(2) + 1e-6
    to = done / "made.csv"
    assert cli.main(["predict", str(net), str(done / "new.csv"), "--to", str(to)]) == 0
    with open(to, newline="") as file:
        assert list(csv.DictReader(file)) == found


def test_evaluate_judges_another_file(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(done / "run"), "--data", str(done / "my.csv"), "--num-samples", "3"]) == 0
    assert "40 rows, 3 draws" in capsys.readouterr().out


def test_new_files_of_other_kinds_are_refused(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, new = str(done / "run"), tmp_path / "new.csv"
    pd.DataFrame({"size": [1.0], "colour": ["green"]}).to_csv(new, index=False)
    assert "unknown category in column 'colour' 'green'" in refused(capsys, "predict", net, str(new))
    new.write_text("size,colour\n,red\n")
    told = refused(capsys, "predict", net, str(new))
    assert (
        "missing in size (1 of 1 rows, the first in row 1)" in told
        and "run anew without these columns" in told
        and "--drop" not in told
    )
    new.write_text("Size,colour\n1,red\n")
    told = refused(capsys, "predict", net, str(new))
    assert f"{new} lacks size, which my.csv had, and has Size, colour: add" in told
    new.write_text("size;colour\n1;red\n0,5;red\n")
    assert "has '0,5' in row 2, where training had numbers: write numbers with a point" in refused(
        capsys, "predict", net, str(new)
    )
    assert "lacks kind, the target: add it, or predict" in refused(capsys, "evaluate", net, "--data", str(done / "new.csv"))
    assert "data sets by name have other columns" in refused(capsys, "evaluate", net, "--dataset", "digits")
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    assert "write it as .csv" in refused(capsys, "predict", net, str(tmp_path / "x.npy"))
    assert "predictions of" in (told := refused(capsys, "predict", net, str(done / "new.csv"), "--level", "0.8"))
    assert "level=0.8 is of intervals of numbers" in told and "have none: leave it out" in told  # of classes
    assert "no finished run in" in refused(capsys, "predict", str(tmp_path), str(new))
    assert "must end in .csv or .npz" in refused(capsys, "predict", net, str(new), "--to", "made.txt")


def test_arguments_of_the_library_are_flags_in_its_errors() -> None:
    unnamed, codes = f"{NAMELESS}0", np.array([f"c{place}" for place in range(99)], dtype=object)
    with pytest.raises(ValueError) as first:
        choose([unnamed, "y"], "y", (), ())
    assert f"leave it out, drop='{unnamed}'." in str(first.value) and f"out, --drop '{unnamed}'." in one_line(first.value)
    with pytest.raises(ValueError) as second:
        infer_target("y", codes, np.arange(99), None)
    assert "kind='classes'." in str(second.value) and one_line(second.value).endswith("--likelihood categorical.")


def test_a_file_that_has_changed_is_not_taken_for_the_one_of_the_run(
    done: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_figures(monkeypatch)
    path, before = done / "my.csv", (done / "my.csv").read_text()
    words = ["--data", str(path), "--target", "kind", "--drop", "price", "visits", *TINY, "--out", str(done / "run")]
    try:
        table(30).to_csv(path, index=False)
        for command in (["evaluate", str(done / "run")], ["run", *words]):
            assert "has changed, or gone, since this run was made" in refused(capsys, *command)
    finally:
        path.write_text(before)
    assert cli.main(["run", *words]) == 0 and "finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "target is needed: which column"),
        (["--target", "knd"], "unknown column 'knd'. Did you mean 'kind'"),
        (["--target", "kind", "--features", "sise"], "unknown column 'sise'. Did you mean 'size'"),
        (["--target", "kind", "--dataset", "diabetes"], "are both given"),
        (["--target", "kind", "--pad", "32"], "pad=32 is of image sets by name"),
        (["--target", "kind", "--test-share", "1.5"], "test_share must lie in (0, 1)"),
        (["--target", "kind", "--likelihood", "normal"], "holds texts, no numbers"),
        (["--target", "kind", "--likelihood", "ordinal"], "those of 'kind' are texts: number them"),
        (["--target", "price", "--likelihood", "poisson"], "must hold counts"),
        (["--target", "kind", "--net", "lenet5"], "needs images"),
    ],
)
def test_a_wrong_choice_is_told_before_anything_is_written(
    words: list[str], told: str, done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, "run", "--data", str(done / "my.csv"), *words, "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_columns_without_a_file_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --data FILE with it" in refused(capsys, "run", "--target", "y")
    assert "'digits' has its own test rows" in refused(capsys, "run", "--test-share", "0.5")
    assert "no file of data at" in refused(capsys, "run", "--data", "nowhere.csv", "--target", "y")


@pytest.mark.slow
def test_real_targets_are_predicted_in_their_units_with_an_interval(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["--target", "price", "--features", "size", "colour", "--method", "none", "--steps", "300", "--mlp.hidden", "8"]
    assert cli.main(["run", "--data", str(done / "my.csv"), *words, "--out", str(out)]) == 0
    found = predictions(capsys, out, done / "new.csv")
    truth = table()["price"].to_numpy()[:4]
    assert np.abs(np.array([float(one["price"]) for one in found]) - truth).max() < 5  # their spread is 10
    assert all(float(one["low"]) < price < float(one["high"]) for one, price in zip(found, truth, strict=True))
    parts = predictions(capsys, out, done / "new.csv", "--uncertainty")
    for one in parts:  # half an interval is 2 standard deviations, in the file's units
        assert 4 * float(one["total"]) ** 0.5 == pytest.approx(float(one["high"]) - float(one["low"]), rel=0.25)


def test_digits_are_those_that_tell_predictions_apart() -> None:
    """Beside a mean of 1.7e9 six digits, and float32, say nothing of a spread of 1,000; of 1e-9 all decimals matter."""
    for loc, scale in ((1.7e9, 1e3), (0.0, 1e-9), (0.0, 1.0)):
        schema = types.SimpleNamespace(target=types.SimpleNamespace(name="y", classes=(), scale=scale))
        schema.target.undo = functools.partial(Target.undo, types.SimpleNamespace(loc=loc, scale=scale))
        values = np.array([-1.0, 0.123456789, 1.0], np.float32)
        text = predict._csv(predict.Predicted({"mean": predict._in_units(values, schema)}, schema.target))
        found = np.array([float(line) for line in text.splitlines()[1:]])
        np.testing.assert_allclose((found - loc) / scale, values, atol=2e-6)
        assert max(map(len, text.splitlines())) <= 18


@pytest.mark.every
@pytest.mark.slow
def test_counts_in_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, x = tmp_path / "my.npz", np.linspace(-1, 1, 60)[:, None]
    np.savez(path, x=x, y=np.round(np.exp(1 + x[:, 0])).astype(int))
    assert cli.main(["run", "--data", str(path), "--likelihood", "poisson", *TINY, "--out", str(tmp_path / "run")]) == 0
    found = predictions(capsys, tmp_path / "run", path)
    assert list(found[0]) == ["y", "low", "high"] and all(float(one["low"]) >= 0 for one in found)
