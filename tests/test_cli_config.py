"""Files of settings: their names and kinds, what goes before what, and a run's settings given back."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from bayesprune.cli import settings
from bayesprune.cli.build import resolve
from bayesprune.cli.flags import parse
from tests.test_cli import refused

FILE = """
net = "mlp"
method = "snr"
density = 0.2
learning-rate = 1
steps = 60
remat = true
drop = []
out = "runs/mine"

[mlp]
hidden = [5, 6]

[bmr]
alpha0 = 2

[scale_mixture]
pi = 0.25
"""


def written(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text)
    return str(path)


def test_flags_go_before_the_file_and_the_file_before_the_preset(tmp_path: Path) -> None:
    made: Any = parse(["--config", written(tmp_path, FILE), "--steps", "90"])
    assert (made.method, made.snr.density, made.learning_rate, made.steps, made.remat) == ("snr", "0.2", 1.0, 90, True)
    assert made.mlp.hidden == (5, 6) and made.out == Path("runs/mine")
    wide: Any = parse(["--config", written(tmp_path, 'preset = "ssvi-cifar"\nsteps = 900\nssvi = {until = 0.5}')])
    assert (wide.steps, wide.net, wide.ssvi.until, wide.ssvi.new_scale) == (900, "resnet18", 0.5, "mean_raw")


def test_a_flag_chooses_among_the_tables_of_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, FILE.replace("density = 0.2", ""))
    made: Any = parse(["--config", path, "--method", "bmr", "--prior", "scale-mixture"])
    assert (made.bmr.alpha0, made.scale_mixture.pi) == (2.0, 0.25)


def test_a_density_of_the_method_goes_before_the_plain_one_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, FILE)
    assert parse(["--config", path, "--snr.density", "0.3"]).snr.density == "0.3"  # type: ignore[attr-defined]
    assert parse(["--config", path, "--density", "0.4"]).snr.density == "0.4"  # type: ignore[attr-defined]


def test_the_settings_of_a_run_given_back_are_that_run(tmp_path: Path) -> None:
    words = ["--method", "ssvi", "--density", "0.05", "--mlp.hidden", "7", "--steps", "70", "--prior", "gaussian"]
    first = resolve(parse([*words, "--out", str(tmp_path)]))
    settings.claim(first, tmp_path)
    again = resolve(parse(["--config", str(tmp_path / settings.FILE), "--out", str(tmp_path)]))
    assert dataclasses.asdict(again) == dataclasses.asdict(first) | {"config": tmp_path / settings.FILE}
    settings.claim(again, tmp_path)
    (tmp_path / "my.csv").write_text("a,y\n1,2\n")
    own = resolve(parse(["--data", str(tmp_path / "my.csv"), "--target", "y", "--out", str(tmp_path / "own")]))
    settings.claim(own, tmp_path / "own")
    back = resolve(parse(["--config", str(tmp_path / "own" / settings.FILE)]))
    assert (back.data, back.target, back.dataset) == (own.data, "y", "my.csv")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stepz = 3", "unknown setting 'stepz'. Did you mean 'steps'"),
        ("[bmr]\nalpha = 2", "knob in .*: bmr 'alpha'. Did you mean 'alpha0'"),
        ("[bmrr]\nalpha0 = 2", "unknown setting 'bmrr'. Did you mean 'bmr'"),
        ('steps = "many"', "steps must be a whole number, got 'many'"),
        ("steps = 3.5", "steps must be a whole number, got 3.5"),
        ("steps = true", "steps must be a whole number, got True"),
        ("remat = 1", "remat must be true or false, got 1"),
        ('learning_rate = "fast"', "learning_rate must be a number, got 'fast'"),
        ('[mlp]\nhidden = ["a"]', "mlp.hidden must be a list, each a whole number"),
        ("bmr = 3", r"bmr must be a table of knobs, got 3: write it under \[bmr\]"),
        ("steps 3", "is no whole file of settings"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(told, refused(capsys, "run", "--config", written(tmp_path, text), "--out", str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no file of settings at nowhere.toml" in refused(capsys, "run", "--config", "nowhere.toml")
