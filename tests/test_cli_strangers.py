"""Folders and files of settings from a stranger: nothing in them is run, and nothing outside of them is written or read."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayesprune.cli import rows, settings
from bayesprune.cli.find import KINDS
from bayesprune.cli.run_settings import settings_class
from bayesprune.core.formats import write_record
from bayesprune.core.lock import NAME, alone_in
from tests.test_cli import refused

EVIL = 'from pathlib import Path\nPath("was_run").touch()\ndef make(num_outputs): raise RuntimeError'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stranger's run, the process beside it; its module leaves a mark when it is imported."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    changed(tmp_path / "shared", net="shared.evil:make")
    yield tmp_path / "shared"
    assert not (tmp_path / "was_run").exists()
    sys.modules.pop("shared.evil", None)


def changed(folder: Path, **values: Any) -> None:
    """Settings of a run with these in place of its own, and a checksum that is right."""
    made = settings.to_json(settings_class("mlp", "bmr", "flat")()) | values
    if ":" in made["net"]:
        del made["mlp"]
    write_record(folder / settings.FILE, made)


@pytest.mark.parametrize("command", [("evaluate",), ("compact",), ("predict", "rows.npy")])
def test_a_run_s_own_net_is_imported_only_by_whom_names_it(
    command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("rows.npy", np.zeros((2, 64), np.float32))
    write_record(folder / "metrics.json", {n: {} for n in ("metrics", "settings", "evaluated_on", "sparsity")}
                 | {"num_steps": 1, "train_seconds": 1.0})  # fmt: skip
    told = refused(capsys, command[0], "shared", *command[1:])
    assert "shared.evil:make" in told and "--net shared.evil:make" in told and "runs its code" in told
    other = refused(capsys, command[0], "shared", *command[1:], "--net", "shared.evil:other")
    assert "the run in shared is of net=shared.evil:make" in other


def test_the_name_on_the_command_line_is_consent(folder: Path) -> None:
    (Path() / "shared" / "evil.py").write_text("def make(num_outputs): pass")
    assert settings.load(folder, "shared.evil:make").net == "shared.evil:make"


def test_a_file_of_settings_names_no_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("their.toml").write_text('net = "shared.evil:make"')
    for command in (["run"], ["sweep", "--"]):
        told = refused(capsys, *command, "--config", "their.toml")
        assert "their.toml" in told and "--net shared.evil:make" in told
    told = refused(capsys, "run", "--config", str(folder / settings.FILE))
    assert "--net shared.evil:make" in told


def test_report_and_export_import_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no finished run" in refused(capsys, "report", "shared")
    assert "no compact network" in refused(capsys, "export", "shared")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"bayesian": "Callable"}, "unknown choice of bayesian 'Callable'"),
        ({"prunable": "__doc__"}, "unknown choice of prunable '__doc__'"),
        ({"net": ["a:b"]}, "net must be a text"),
        ({"steps": "many"}, "steps must be a whole number"),
        ({"num_samples": -1}, "num_samples"),
        ({"mlp": {"hidden": "wide"}}, "hidden must be a list"),
        ({"mlp": {"width": 3}}, "unknown knob"),
        ({"data_dir": "/tmp"}, "data_dir"),
        ({"elsewhere": 3}, "unknown setting 'elsewhere'"),
        ({"bmr": {"alpha0": "(" * 100_000}}, "alpha0 must be a number"),
    ],
)
def test_settings_are_read_as_what_they_are(values: dict[str, Any], told: str, folder: Path) -> None:
    changed(folder, **values)
    with pytest.raises(ValueError) as refusal:
        settings.load(folder)
    assert told in str(refusal.value) and str(folder) in str(refusal.value)


def test_a_text_that_nests_too_deep_is_no_value() -> None:
    from bayesprune.core.written import from_text

    for text in ("(" * 100_000, "-" * 100_000 + "1", "[" * 5000 + "]" * 5000):
        with pytest.raises(ValueError, match=r"density must be a number|density="):
            from_text(text, "density")


def test_a_run_s_file_of_data_is_read_only_as_its_posterior_knows_it(tmp_path: Path) -> None:
    """A stranger's settings may name any file here; without its digest in the posterior nothing says it is the run's."""
    (tmp_path / "private.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"private\.csv"):
        rows.check_unchanged(str(tmp_path / "private.csv"), {})
    rows.check_unchanged("", {})


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    """It would be emptied, and what it leads to lies elsewhere."""
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="link"), alone_in(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_link_out_of_a_run_s_folder_is_not_written_through(tmp_path: Path) -> None:
    from bayesprune.cli.shipping import inside

    (tmp_path / "run").mkdir()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run" / "net.bayesprune").symlink_to(tmp_path / "precious")
    with pytest.raises(ValueError, match=r"leads to .*precious.*--to"):
        inside(tmp_path / "run", "net.bayesprune", "--to")
    (tmp_path / "run" / "net.bayesprune").unlink()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "run")  # a folder that is a link itself is the user's choice
    assert inside(tmp_path / "elsewhere", "net.bayesprune", "--to") == tmp_path / "elsewhere" / "net.bayesprune"


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("kind", KINDS)
def test_all_settings_come_back(kind: str, tmp_path: Path) -> None:
    """Whatever the kinds of their knobs."""
    plain = {"net": "mlp", "method": "bmr", "prior": "flat", "course": "standard"}
    for name in KINDS[kind]():
        chosen = plain | {kind: name}
        made = settings_class(**chosen)(**chosen)
        write_record(tmp_path / settings.FILE, settings.to_json(made))
        assert repr(settings.load(tmp_path)) == repr(made), name
