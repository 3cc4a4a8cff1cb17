"""The examples run, and the committed notebooks are whole: executed in order, without errors, tied to no machine."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_BYTES = 1_500_000
FOREIGN = re.compile(r"(?<![\w.:/+])/(?:work|tmp|root|opt|home|Users|usr|mnt)/\w+")
PNG = b"\x89PNG"


Book = dict[str, Any]  # as JSON has it: nbformat takes seconds to import


def executed_in_order(book: Book) -> bool:
    """Every code cell has run, once, from top to bottom, in a fresh kernel."""
    return [cell["execution_count"] for cell in codes(book)] == list(range(1, 1 + len(codes(book))))


def codes(book: Book) -> list[dict[str, Any]]:
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def complaints(book: Book) -> list[str]:
    """Errors and warnings among the outputs."""
    outputs = [output for cell in codes(book) for output in cell["outputs"]]
    return [str(o) for o in outputs if o["output_type"] == "error" or (o["output_type"] == "stream" and o["name"] == "stderr")]


def foreign_paths(book: Book) -> list[str]:
    """Absolute paths of a machine in sources and in outputs that are text."""
    texts = ["".join(cell["source"]) for cell in book["cells"]]
    for output in (output for cell in codes(book) for output in cell["outputs"]):
        data = {kind: value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")}
        texts += ["".join(value) for value in data.values()] + ["".join(output.get("text", ""))]
    return [hit for text in texts for hit in FOREIGN.findall(text)]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_whole(path: Path) -> None:
    book = json.loads(path.read_text(encoding="utf-8"))
    assert executed_in_order(book)
    assert complaints(book) == []
    assert foreign_paths(book) == []
    assert any("image/png" in output.get("data", {}) for cell in codes(book) for output in cell["outputs"])
    assert path.stat().st_size < MAX_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_of_the_format(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(path, as_version=4))


def test_a_notebook_with_faults_would_be_found() -> None:
    cell = {"cell_type": "code", "source": ["1 +", " 1"], "execution_count": None, "outputs": []}
    assert not executed_in_order({"cells": [cell]})
    away = "/" + "tmp/secret"
    loud = {"output_type": "stream", "name": "stderr", "text": ["warning ", f"from {away}"]}
    broken = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    bad = {"cells": [cell | {"execution_count": 1, "outputs": [loud, broken]}]}
    assert executed_in_order(bad)
    assert len(complaints(bad)) == 2
    assert foreign_paths(bad) == [away]


@pytest.mark.slow
def test_the_first_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BAYESPRUNE_STEPS", "200")
    monkeypatch.setenv("BAYESPRUNE_OUT", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["01_first_pruning.py", "--validation"])
    names = runpy.run_path(str(ROOT / "examples" / "01_first_pruning.py"))
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{name}.png" for name in names["figures"]}
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.glob("*.png"))
    table = capsys.readouterr().out
    assert all(re.search(rf"^{name} .*\d$", table, re.M) for name in names["rows"])
    assert len(names["train"].x) + len(names["test"].x) == 1438  # the test images were not asked
    for pruned, rival in (("BMR, once", "magnitude, once"), ("BMR, on the way", "magnitude, on the way")):
        alive = [names["count"](names["rows"][name][1]) for name in (pruned, rival)]
        assert alive[0] == pytest.approx(alive[1], abs=1)


@pytest.mark.slow
def test_the_sixth_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESPRUNE_STEPS", "300")
    monkeypatch.setenv("BAYESPRUNE_POINTS", "2")
    monkeypatch.setenv("BAYESPRUNE_OUT", str(tmp_path))
    names = runpy.run_path(str(ROOT / "examples" / "06_from_a_trained_net.py"))
    assert (tmp_path / "accuracy_by_density.png").read_bytes().startswith(PNG)
    assert 0 < names["alive"] < names["whole"] == 7510
    for name in ("opd", "magnitude"):
        assert sum(int(mask.sum()) for mask in names["cuts"][name].mask.values()) == names["alive"]
    assert names["rows"]["opd, mean"]["accuracy"] > 0.8


@pytest.mark.slow
def test_the_seventh_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BAYESPRUNE_STEPS", "400")
    monkeypatch.setenv("BAYESPRUNE_OUT", str(tmp_path))
    names = runpy.run_path(str(ROOT / "examples" / "07_ship_it.py"))
    assert (tmp_path / "size_and_time.png").read_bytes().startswith(PNG)
    assert names["certificate"].holds and names["difference"] < 1e-4
    assert names["after"]["nll"] == pytest.approx(names["before"]["nll"], abs=0.05)
    _, *compact = names["sizes"].values()
    assert compact == sorted(compact, reverse=True)
    assert "ONNX Runtime" in capsys.readouterr().out


@pytest.mark.slow
def test_the_eighth_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESPRUNE_STEPS", "20")
    monkeypatch.setenv("BAYESPRUNE_OUT", str(tmp_path))
    names = runpy.run_path(str(ROOT / "examples" / "08_day_by_day.py"))
    assert (tmp_path / "day_by_day.png").read_bytes().startswith(PNG)
    alive = [figures["alive"] for name, figures in names["rows"].items() if "posterior of before" in name]
    assert alive == sorted(alive, reverse=True)  # what is dead stays so


@pytest.mark.slow
def test_the_second_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BAYESPRUNE_STEPS", "200")
    monkeypatch.setenv("BAYESPRUNE_OUT", str(tmp_path))
    names = runpy.run_path(str(ROOT / "examples" / "02_feature_selection.py"))
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{name}.png" for name in names["figures"]}
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.glob("*.png"))
    table = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} .*\d", table, re.M) for name in (*names["selections"], *names["rows"]))
    told = [names["selections"][name].sum() for name in ("sparse network: five by paths", "dense network: five by size")]
    assert told == [5, 5]
    assert names["rows"]["sparse network, pruned"][1] == sum(int(alive.sum()) for alive in names["pruned"].mask.values())


@pytest.mark.slow
def test_the_third_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BAYESPRUNE_STEPS", "200")
    monkeypatch.setenv("BAYESPRUNE_OUT", str(tmp_path))
    names = runpy.run_path(str(ROOT / "examples" / "03_sparse_from_scratch.py"))
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{name}.png" for name in names["figures"]}
    assert all(path.read_bytes().startswith(PNG) for path in tmp_path.glob("*.png"))
    table = capsys.readouterr().out
    assert all(re.search(rf"^{name} .*\d$", table, re.M) for name in names["fits"])
    counts = {"Dense_0.kernel": 640, "Dense_1.kernel": 500, "Dense_2.kernel": 50}
    masks = [*names["courses"]["SSVI"], *names["courses"]["RigL"], names["ssvi"].mask]
    assert all({site: int(alive.sum()) for site, alive in mask.items()} == counts for mask in masks)
    held = names["optimizer_sees"](names["ssvi"])
    assert all(held[f"{site}_auto_loc"].shape == (count,) for site, count in counts.items())
    assert names["numbers_kept"](names["dense"]) == 3 * 2 * (11_900 + 160)  # weights and biases, means and scales, two moments
    assert names["numbers_kept"](names["ssvi"]) == 3 * 2 * (1_190 + 160)
    assert names["differ"] == 0
