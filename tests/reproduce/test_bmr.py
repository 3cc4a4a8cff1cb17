"""The BMR paper's grid: its cells, its table and figures from made-up records, and one tiny cell run for real."""

import dataclasses

import numpy as np
import pytest

import bayesprune as bp
from bayesprune import cells
from bayesprune.cli import main
from bayesprune.reproduce import bmr, bmr_figures


def record(cell: bmr.PaperCell) -> cells.Record:
    """A record such as a run gives."""
    steps = list(range(500, 2001, 500))
    cut = {"pruned": 0.9, "connected": 0.05} if cell.method == "bmr" else {"pruned": 0.0}
    course = {f"history/eval/{name}": np.linspace(0.5, 0.8 + 0.01 * cell.seed, 4).tolist() for name in bmr_figures.MEASURES}
    pruning = {"history/prune/step": steps, "history/prune/density": [0.9, 0.5, 0.2, 0.1]} if cell.method == "bmr" else {}
    quantiles = np.clip(np.linspace(-0.5, 1, 101), 0, None)
    layers = {f"cdf/Dense_{index}.kernel": (quantiles * 0.1**index).tolist() for index in range(3)}
    figures = {"accuracy": 0.87 + 0.01 * cell.seed, "ece_quantile": 0.01, "nll": 0.36}
    return {"cell": cells.key(cell), **figures, **cut, "history/eval/step": steps, **course, **pruning, **layers}


PLANNED = bmr.grid(["mlp", "lenet5"], list(bmr.COURSES), [0, 1])
FOUND = {cell: record(cell) for cell in PLANNED[:-1]}


def test_the_grid_is_every_combination_and_old_records_keep_their_keys() -> None:
    assert len(PLANNED) == 16 and len(set(PLANNED)) == 16
    assert cells.key(bmr.PaperCell("mlp", "bmr", 0)) == "net=mlp method=bmr seed=0"
    assert cells.key(bmr.grid(["vit"], ["map"], [3], dataset="cifar10", epochs=2)[0]) == (
        "net=vit method=map seed=3 epochs=2 dataset=cifar10"
    )


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [((["lenet"], ["map"]), "unknown net 'lenet'.*lenet5"), ((["mlp"], ["bayes"]), "unknown method 'bayes'")],
)
def test_unknown_names(chosen, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        bmr.grid(*chosen, [0])
    with pytest.raises(ValueError, match="unknown dataset 'mnist'"):
        bmr.grid(["mlp"], ["map"], [0], dataset="mnist")


def test_the_table_gives_every_seed_and_what_is_missing() -> None:
    table = bmr.comparison(FOUND, PLANNED).splitlines()
    rows = {tuple(cell.strip() for cell in line.split("|")[2:4]): line for line in table[2:]}
    assert all("| 25000 |" in line for line in rows.values())
    assert len(rows) == 8
    assert "0.900, 0.900" in rows["mlp", "bmr"] and "0.8750 ± 0.0071" in rows["mlp", "bmr"] and "0.99" in rows["mlp", "bmr"]
    assert "| 0.050, 0.050 |" in rows["mlp", "bmr"] and "| - | - |" in rows["mlp", "flat"]
    assert "| 1 of 2 |" in rows["lenet5", "bmr"]
    old = {cell: {name: value for name, value in found.items() if name != "connected"} for cell, found in FOUND.items()}
    assert "| ?, ? |" in bmr.comparison(old, PLANNED)


@pytest.mark.slow
def test_a_deep_net_that_was_judged_once() -> None:
    """Its legend names a few of its arrays, and its one point is seen."""
    cell = bmr.PaperCell("vit", "bmr", 0)
    short = {name: values[:1] for name, values in record(cell).items() if name.startswith("history/eval")}
    deep = record(cell) | short | {f"cdf/Block_{i}.kernel": np.linspace(0, 1, 101).tolist() for i in range(40)}
    (panel,) = bmr_figures.distributions({cell: deep}).axes
    named = [text.get_text() for text in panel.get_legend().get_texts()]
    assert len(panel.lines) == 43 and len(named) == 8 and (named[0], named[-1]) == ("Dense_0", "Block_39")
    assert all(ax.lines[0].get_marker() == "o" for ax in bmr_figures.curves({cell: deep}).axes)


def test_a_run_too_short_to_be_judged_on_the_way_has_no_curves() -> None:
    """Fewer epochs than lie between two evaluations, and one epoch, before which nothing is cut."""
    short = {
        cell: {name: value for name, value in record(cell).items() if "history/" not in name}
        for cell in PLANNED
        if cell.method == "bmr"
    }
    assert not any(ax.lines for ax in bmr_figures.curves(short).axes)
    assert not [line for line in bmr_figures.shares(short).axes[0].lines if len(line.get_xdata())]


@pytest.mark.slow
def test_records_without_quantiles_have_no_panel() -> None:
    """Some kept records of MAP and flat are older than the figure. Of every panel the largest weights are seen."""
    old = {
        cell: {name: value for name, value in found.items() if cell.method == "tiered" or not name.startswith("cdf/")}
        for cell, found in FOUND.items()
    }
    axes = bmr_figures.distributions(old).axes
    assert [bool(ax.lines) for ax in axes] == [True, True]
    wide = {cell: found | ({"cdf/Wide.kernel": [0.0, 50.0]} if cell.net == "lenet5" else {}) for cell, found in FOUND.items()}
    panels = bmr_figures.distributions(wide).axes
    assert all(line.get_xdata().max() < ax.get_xlim()[1] for ax in panels for line in ax.lines)
    assert len(bmr_figures.distributions({c: r for c, r in FOUND.items() if (c.net, c.method) != ("mlp", "map")}).axes) == 8


@pytest.mark.slow
def test_figures_of_made_up_cells(tmp_path) -> None:
    for cell in FOUND:
        folder = tmp_path / "bmr" / cells.key(cell).replace(" ", ",")
        folder.mkdir(parents=True)
        np.save(folder / bmr.FIRST_LAYER, np.random.default_rng(0).normal(size=(16, 6)) * (np.arange(6) > cell.seed))
    bmr.draw(FOUND, tmp_path / "bmr")
    drawn = {path.name for path in (tmp_path / "bmr").glob("*.png")}
    assert drawn == {
        f"fashion_mnist_{name}.png" for name in ("1_curves", "2_pruned", "3_cdf", "4_first_layer_mlp", "4_first_layer_lenet5")
    }


def test_fits_of_another_length_are_in_figures_of_their_own(tmp_path, monkeypatch) -> None:
    """Those kept of CIFAR-10, of 50 epochs and of 5, were drawn as seeds of one another."""
    drawn: dict[str, set[int]] = {}
    for name in ("curves", "shares", "distributions"):
        monkeypatch.setattr(bmr_figures, name, lambda here: {cell.epochs for cell in here})
    monkeypatch.setattr(bmr_figures.plots, "save", lambda made, path: drawn.update({path.name: made}))
    bmr_figures.draw_all(FOUND | {dataclasses.replace(cell, epochs=5): found for cell, found in FOUND.items()}, tmp_path)
    parts = ("1_curves", "2_pruned", "3_cdf")
    assert drawn == {f"fashion_mnist_{epochs}x500_{part}.png": {epochs} for epochs in (5, 50) for part in parts}


@pytest.mark.every  # its cells run in benchmarks/test_tiny_cells.py
@pytest.mark.slow
def test_a_tiny_grid_by_the_command_line(tmp_path, monkeypatch, capsys) -> None:
    """Two methods of an MLP on made-up rows, two epochs of two steps; the second call runs nothing."""
    rng = np.random.default_rng(0)
    data = [bp.Dataset(rng.normal(size=(n, 28, 28, 1)).astype(np.float32), rng.integers(0, 10, n)) for n in (300, 40)]
    monkeypatch.setattr(bp.data, "load", lambda name, **settings: data)
    length = ["--epochs", "2", "--steps-per-epoch", "2", "--evals", "1", "--final-draws", "3"]
    words = ["reproduce", "bmr", "--nets", "mlp", "--methods", "tiered", "bmr", *length, "--out"]
    for said in (" s\n", "there already"):
        assert main([*words, str(tmp_path)]) == 0, capsys.readouterr().err
        assert said in capsys.readouterr().out
    records = cells.read_records(tmp_path / "bmr.jsonl")
    assert len(records) == 2 and all(0 <= one["accuracy"] <= 1 for one in records.values())
    assert all(one["history/eval/step"] == [2, 4] for one in records.values())
    assert (tmp_path / "bmr" / "fashion_mnist_1_curves.png").exists()
