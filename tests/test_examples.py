"""The examples run, and the committed notebooks are whole: executed in order, without errors, tied to no machine."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_pages import missing_names

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


def test_names_that_notebooks_and_examples_use_are_there() -> None:
    books = [codes(json.loads(path.read_text(encoding="utf-8"))) for path in NOTEBOOKS]
    sources = ["\n".join("".join(cell["source"]) for cell in book) for book in books]
    sources += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.py"))]
    programs = [re.sub(r"^%.*$", "", source, flags=re.M) for source in sources]  # less the lines of IPython's own
    assert [name for program in programs for name in missing_names(program)] == []


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
def test_the_ninth_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a small file of the same operations: ONNX Runtime says whether they are read right."""
    for package in ("equinox", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    small_recogniser(tmp_path / "base.onnx")
    for name, value in {"STEPS": "6", "ROWS": "20", "OUT": str(tmp_path), "BASE": str(tmp_path / "base.onnx")}.items():
        monkeypatch.setenv(f"BAYESPRUNE_{name}", value)
    names = runpy.run_path(str(ROOT / "examples" / "09_a_frozen_base.py"))
    assert (tmp_path / "frozen_base.png").read_bytes().startswith(PNG)
    assert names["difference"] < 1e-5 and names["still"]
    moved = names["made"]["base trained on"][1].params
    assert not all(np.array_equal(moved[f"base.{name}"], array) for name, array in names["recogniser"].base.items())
    table = capsys.readouterr().out
    assert all(re.search(rf"^{name} .*\d$", table, re.M) for name in names["made"])


def small_recogniser(path: Path) -> None:
    """Convolutions, a norm, an activation by pieces, channels weighed by their means, and pooling, as the real one has."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    arrays = {
        "first": rng.normal(size=(4, 3, 3, 3)), "factor": rng.uniform(0.5, 1, 4), "shift": rng.normal(size=4),
        "mean": rng.normal(size=4), "variance": rng.uniform(0.5, 1, 4), "deep": rng.normal(size=(4, 1, 3, 3)),
        "bias": rng.normal(size=4), "down": rng.normal(size=(2, 4, 1, 1)), "up": rng.normal(size=(4, 2, 1, 1)),
    }  # fmt: skip
    numbers = {"three": 3.0, "zero": 0.0, "six": 6.0}
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    alone = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "group": 1}
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Conv", ["x", "first"], "a", {**conv, "strides": [4, 4], "group": 1}),
        ("BatchNormalization", ["a", "factor", "shift", "mean", "variance"], "b", {"epsilon": 1e-5}),
        ("Add", ["b", "three"], "c", {}), ("Clip", ["c", "zero", "six"], "d", {}), ("Mul", ["b", "d"], "e", {}),
        ("Div", ["e", "six"], "f", {}), ("Conv", ["f", "deep", "bias"], "g", {**conv, "strides": [2, 1], "group": 4}),
        ("GlobalAveragePool", ["g"], "h", {}), ("Conv", ["h", "down"], "i", alone), ("Relu", ["i"], "j", {}),
        ("Conv", ["j", "up"], "k", alone), ("HardSigmoid", ["k"], "l", {"alpha": 0.2, "beta": 0.5}),
        ("Mul", ["g", "l"], "m", {}), ("AveragePool", ["m"], "n", {"kernel_shape": [3, 2], "strides": [3, 2]}),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.float32(number)))
        for name, number in numbers.items()
    ]
    nodes += [helper.make_node(kind, inputs, [output], **how) for kind, inputs, output, how in steps]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "n")]
    kept = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "recogniser", ends[:1], ends[1:], kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


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
