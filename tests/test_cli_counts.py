"""The command line on counts: they start where the data lie, and a column may say over how much they were taken."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayesprune as bp
from bayesprune import cli
from bayesprune.cli import build, rows
from bayesprune.cli.build import resolve
from bayesprune.cli.flags import parse
from tests.test_cli import refused
from tests.test_cli_own_data import predictions, without_figures

RATE = 200.0  # of visits in an hour, where x is 0


def table(count: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, hours = rng.normal(size=count), rng.choice([0.5, 1.0, 24.0], count)
    return pd.DataFrame({"x": x, "hours": hours, "visits": rng.poisson(hours * RATE * np.exp(0.5 * x))})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table().to_csv(tmp_path / "my.csv", index=False)
    return tmp_path / "my.csv"


def likelihood_of(*words: Any) -> tuple[Any, rows.Data]:
    chosen = resolve(parse([str(word) for word in words]))
    data = rows.load_data(chosen)
    return build.make_bnn(chosen, data).likelihood, data


def test_counts_start_at_their_mean(file: Path) -> None:
    words = ["--data", file, "--target", "visits", "--mlp.hidden", "2"]
    for name, kind in (("poisson", bp.likelihoods.Poisson), ("negative-binomial", bp.likelihoods.NegativeBinomial)):
        made, data = likelihood_of(*words, "--likelihood", name)
        assert made == kind(start=2.0 ** round(np.log2(np.mean(data.train.y)))) and data.train.x.shape[1] == 2
    unnamed, _ = likelihood_of(*words, "--likelihood", "normal")
    assert unnamed == bp.likelihoods.Normal()


def test_exposures_are_no_input_and_stand_beside_the_counts(file: Path) -> None:
    made, data = likelihood_of("--data", file, "--target", "visits", "--exposure", "hours", "--mlp.hidden", "2")
    assert data.train.x.shape[1] == 1 and data.train.y.shape == (120, 2) and data.schema is not None
    counts, hours = np.asarray(data.train.y, np.float64).T
    rate = counts.sum() / hours.sum()
    assert data.schema.target.rate == pytest.approx(rate) and data.schema.target.kind == "overdispersed counts"
    assert made == bp.likelihoods.NegativeBinomial(start=2.0 ** round(np.log2(rate)), exposure="known")
    assert "target visits: overdispersed counts, hours being their exposure" in rows.described(
        data, resolve(parse(["--data", str(file), "--target", "visits", "--exposure", "hours"]))
    )
    np.testing.assert_array_equal(np.sort(np.unique(hours)), [0.5, 1.0, 24.0])
    again = data.schema.dataset(file)
    np.testing.assert_array_equal(again.y, table()[["visits", "hours"]].to_numpy(np.float32))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--exposure", "hour"], "unknown column 'hour'. Did you mean 'hours'"),
        (["--exposure", "visits"], "exposure is the target, 'visits'"),
        (["--exposure", "hours", "--features", "x", "hours"], "features holds the column of exposures, 'hours'"),
        (["--exposure", "hours", "--likelihood", "normal"], "exposure='hours' is of counts"),
        (["--exposure", "x"], "exposures must be positive, got -"),
    ],
)
def test_a_wrong_exposure_is_told(words: list[str], told: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "run", "--data", str(file), "--target", "visits", *words, "--out", str(file.parent / "run"))
    assert told.replace("exposure='hours'", "--exposure 'hours'") in said
    assert not (file.parent / "run").exists()


def test_exposures_of_what_has_no_columns_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "my.npz", x=np.zeros((9, 2)), y=np.arange(9))
    told = refused(capsys, "run", "--data", str(tmp_path / "my.npz"), "--exposure", "hours", "--out", str(tmp_path / "run"))
    assert "arrays without names" in told
    assert "give --data FILE with it" in refused(capsys, "run", "--exposure", "hours")


@pytest.mark.every
@pytest.mark.slow
def test_a_run_predicts_rates(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)
    out, new = file.parent / "run", file.parent / "new.csv"
    words = ["--target", "visits", "--exposure", "hours", "--likelihood", "poisson", "--method", "none", "--steps", "800"]
    assert cli.main(["run", "--data", str(file), *words, "--mlp.hidden", "8", "--out", str(out)]) == 0
    at = np.linspace(-1.0, 1.0, 5)
    pd.DataFrame({"x": at}).to_csv(new, index=False)  # no exposures are needed: rates are of an hour
    found = predictions(capsys, out, new)
    made = np.array([float(one["visits"]) for one in found])
    np.testing.assert_allclose(made, RATE * np.exp(0.5 * at), rtol=0.1)
    assert all(float(one["low"]) < mean < float(one["high"]) for one, mean in zip(found, made, strict=True))
    np.testing.assert_allclose(
        [float(one["visits"]) for one in predictions(capsys, out / "net.bayesprune", new)], made, rtol=0.1
    )
    assert cli.main(["evaluate", str(out), "--data", str(file)]) == 0
    assert "lacks hours, the exposure" in refused(capsys, "evaluate", str(out), "--data", str(_without(file)))


def _without(file: Path) -> Path:
    path = file.parent / "lacking.csv"
    table().drop(columns="hours").to_csv(path, index=False)
    return path
