"""The laboratory: its plan, one small comparison from first to last, what fails, what is there already, and its table."""

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pytest

import bayesprune as bp
from bayesprune import cells, cli
from bayesprune.lab import entry, plan, run, tables
from bayesprune.lab.plan import Cell
from bayesprune.lab.run import aimed, permuted
from bayesprune.lab.task import net_of

BASE = Cell("digits", "mlp-8", "", 0.0, 0, 0, 4)
SMALL: dict[str, Any] = {"net": "mlp-8", "methods": ["dense-map", "magnitude"], "densities": [0.5, 0.2]}
SMALL |= {"seeds": 2, "steps": 4, "tries": 2}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Cells that a stand-in for training has seen; NLL by the try: 1 is the better one. Seed 1 of density .2 fails."""
    seen: list[Cell] = []

    def stand_in(cell: Cell, data_dir: str | None) -> cells.Record:
        seen.append(cell)
        if cell.part == "test" and cell.density == 0.2 and cell.seed == 1:
            raise FloatingPointError("the loss\nis not finite")
        figures = dict.fromkeys([name for name, _ in tables.FIGURES.values()], 0.5)
        costs = {name: 1.0 for name, _, _ in tables.COSTS.values()} | dict.fromkeys(plan.columns(cell.noise), 0.25)
        about = {"setting": f"try {cell.trial}", "alive": cell.density or 1.0, "connected": cell.density or 1.0}
        return figures | costs | about | {"nll": 1.0 - 0.1 * cell.trial + 0.01 * cell.seed}

    monkeypatch.setattr(run, "_run", stand_in)
    return seen


def test_every_method_has_the_same_number_of_tries_and_is_judged_at_the_best(trained: list[Cell], tmp_path: Path) -> None:
    found = bp.compare(tmp_path, **SMALL)
    tried = [(cell.method, cell.trial, cell.density) for cell in trained if cell.part == "try"]
    assert tried == [("dense-map", 0, 0.0), ("dense-map", 1, 0.0), ("magnitude", 0, 0.5), ("magnitude", 1, 0.5)]
    judged = [(record["method"], record["density"], record["seed"], record["trial"]) for record in found.records]
    assert judged == [
        ("dense-map", 0.0, 0, 1), ("dense-map", 0.0, 1, 1),
        ("magnitude", 0.5, 0, 1), ("magnitude", 0.5, 1, 1), ("magnitude", 0.2, 0, 1), ("magnitude", 0.2, 1, 1),
    ]  # fmt: skip


def test_a_failure_is_a_row_with_its_reason(trained: list[Cell], tmp_path: Path) -> None:
    table = bp.compare(tmp_path, **SMALL).table()
    assert "| magnitude | 20 % | 20.00 % | 20.00 % | 1 of 2 | 0.500 | 0.900 |" in table
    assert "Failed:" in table and "FloatingPointError: the loss is not finite" in table


def test_tries_that_fail_are_said(trained: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method whose tries had all failed was judged at its first setting, in silence."""
    whole = run._run

    def stand_in(cell: Cell, data_dir: str | None) -> cells.Record:
        if cell.part == "try" and cell.method == "magnitude":
            raise MemoryError("too large")
        return whole(cell, data_dir)

    monkeypatch.setattr(run, "_run", stand_in)
    with pytest.warns(UserWarning, match="of 2 tries of 'magnitude' 2 failed and chose nothing, the first by MemoryError: too"):
        bp.compare(tmp_path, **SMALL)


def test_what_is_finished_is_not_trained_again(trained: list[Cell], tmp_path: Path) -> None:
    first = bp.compare(tmp_path, **SMALL)
    count = len(trained)
    assert bp.compare(tmp_path, **SMALL).records == first.records and len(trained) == count
    bp.compare(tmp_path, **SMALL | {"seeds": 3})
    assert len(trained) == count + 3  # one more seed of three rows


def test_a_density_that_is_given_twice_counts_once(trained: list[Cell], tmp_path: Path) -> None:
    twice = bp.compare(tmp_path / "twice", **SMALL | {"densities": [0.5, 0.2, 0.5]})
    assert twice.planned == bp.compare(tmp_path / "once", **SMALL).planned


def test_two_machines_may_add_the_same_cell(trained: list[Cell], tmp_path: Path) -> None:
    first = bp.compare(tmp_path, **SMALL)
    path = tmp_path / "compare.jsonl"
    lines = path.read_text().splitlines()
    again = json.loads(lines[-1]) | {"accuracy": 0.0}
    path.write_text("\n".join([*lines, json.dumps(again)]) + "\n")
    assert bp.compare(tmp_path, **SMALL).records == first.records  # the first of them holds
    with pytest.raises(Exception, match="twice"):
        cells.read_records(path)


def test_the_command_writes_the_tables(trained: list[Cell], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--net", "mlp-8", "--methods", "dense-map,magnitude", "--densities", "50,20", "--seeds", "2", "--steps", "4"]
    assert cli.main(["compare", *words, "--tries", "2", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "compare.md").read_text().strip() in capsys.readouterr().out
    lines = (tmp_path / "compare.csv").read_text().splitlines()
    assert len(lines) == 7 and lines[0].startswith("cell,data,net,method,density")
    report = (tmp_path / "compare.html").read_text()
    assert report.count("<tr>") == 4 and "FloatingPointError: the loss is not finite" in report
    assert report.count("data:image/png;base64,") == 1 and "http" not in report  # one method is not ranked
    assert (tmp_path / "curves.png").is_file() and not (tmp_path / "ranks.png").exists()
    assert cli.main(["compare", "--densities", "a", "--out", str(tmp_path)]) == 2
    assert "densities must be numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"methods": "magnitud"}, "magnitude"),
        ({"methods": []}, "methods is empty"),
        ({"densities": [2.0]}, "density"),
        ({"tries": 9}, "tries must lie between 1 and 4"),
        ({"net": "mlp"}, "mlp-100-100"),
        ({"dataset": "digit"}, "digits"),
        ({"seeds": 0}, "seeds"),
        ({"rows": 10_000}, "rows=10,000 is more than the"),  # the table said that so many had been trained on
        ({"noise": [-1.0]}, "noise"),
        ({"dataset": "concrete"}, "dataset must be an image set"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_trained(
    trained: list[Cell], tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        bp.compare(tmp_path, **SMALL | wrong)
    assert not trained and not list(tmp_path.iterdir())


def test_every_entry_lists_as_many_settings_and_has_a_name_of_its_own() -> None:
    known = entry.rivals()
    assert {"dense-map", "magnitude", "snr", "bmr", "ssvi"} <= known.keys()
    for one in known.values():
        assert one.gives in (entry.ANY, entry.FOUND, entry.DENSE)
        listed = entry.tries(one, 4)
        assert listed[0] == one and len(set(listed)) == 4  # its own setting is the first


def test_the_best_try_is_by_nll_and_failures_are_none() -> None:
    tried = plan.tried(BASE, ["magnitude"], [0.1], 3)
    nll = {tried[0]: {"nll": 0.5}, tried[1]: {"failed": "x"}, tried[2]: {"nll": 0.4}}
    assert plan.best_try(nll, tried, "magnitude") == 2
    assert plan.best_try({}, tried, "magnitude") == 0


@pytest.mark.parametrize(("share", "asked"), [(1.0, [0.1]), (0.5, [0.1, 0.2]), (0.8, [0.1, 0.125])])
def test_what_no_path_reaches_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, share: float, asked: list[float]) -> None:
    made: list[float] = []
    monkeypatch.setattr("bayesprune.lab.run.densities", lambda fitted: {"connected": share * fitted})
    fitted, trainings = aimed(lambda density: made.append(density) or density, 0.1)  # type: ignore[func-returns-value, arg-type, return-value]
    np.testing.assert_allclose(made, asked)
    assert trainings == len(asked) and math.isclose(share * fitted, 0.1)  # type: ignore[operator]


def test_the_seconds_are_of_the_training_that_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were of the last one, though an earlier one was nearer to the density."""
    clock, connected, took = [0.0], {0.1: 0.05, 0.2: 0.12, 0.167: 0.03}, {0.1: 3.0, 0.2: 7.0, 0.167: 1.0}

    def fit(rng_key: object, task: object, density: float) -> entry.Fitted:
        clock[0] += took[round(density, 3)]
        return entry.Fitted(None, {"density": round(density, 3)}, {})  # type: ignore[arg-type]

    stub = SimpleNamespace(fit=fit, gives=entry.ANY, grid=())
    monkeypatch.setattr(run, "tries", lambda *_: [stub])
    monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=lambda: clock[0], process_time=lambda: 0.0))
    of = lambda fitted: fitted.params | {"connected": connected[fitted.params["density"]]}  # noqa: E731
    monkeypatch.setattr(run, "densities", of)
    monkeypatch.setattr(run, "figures", lambda *_: ({}, None))
    monkeypatch.setattr(run, "_beyond", lambda *_: {})
    found = run._run(dataclasses.replace(BASE, method="magnitude", density=0.1), None)
    assert (found["density"], found["training_seconds"], found["all_seconds"], found["trainings"]) == (0.2, 7.0, 11.0, 3)


def test_three_trainings_at_most_and_the_nearest_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayesprune.lab.run.densities", lambda fitted: {"connected": {0.1: 0.0, 0.4: 0.2, 0.2: 0.01}[fitted]})
    assert aimed(lambda density: round(density, 3), 0.1) == (0.4, 3)  # type: ignore[arg-type, return-value, comparison-overlap]


def test_permuted_rows_have_the_same_values() -> None:
    import jax

    x = np.arange(12.0).reshape(2, 3, 2)
    moved = permuted(jax.random.key(0), x)
    assert moved.shape == x.shape and (np.sort(moved.reshape(2, -1)) == x.reshape(2, -1)).all() and (moved != x).any()


def test_nets_by_their_names() -> None:
    assert net_of("lenet5").pad("digits") == 32 and net_of("mlp-3-4").make(2).hidden == (3, 4)


@pytest.mark.every
@pytest.mark.slow
def test_a_comparison_in_two_processes_is_that_of_one(tmp_path: Path) -> None:
    """Earnest trainings, through joblib's own configuration."""
    asked = SMALL | {"seeds": 1, "densities": [0.5], "tries": 1}
    one = bp.compare(tmp_path / "one", **asked)
    with joblib.parallel_config("loky", n_jobs=2):
        two = bp.compare(tmp_path / "two", **asked)
    same = ["method", "density", "accuracy", "nll", "ece", "auroc", "alive", "connected", "accuracy, noise 1"]
    for first, second in zip(one.records, two.records, strict=True):
        assert not first["failed"] and first["bytes"] > 0 and first["ms, 1 row"] > 0
        np.testing.assert_allclose([first[name] for name in same[1:]], [second[name] for name in same[1:]], rtol=1e-6)
    alive, connected = one.records[1]["alive"], one.records[1]["connected"]
    assert math.isclose(alive, 0.5, abs_tol=0.01) and connected <= alive


KINDS = {(type(one), one.gives): name for name, one in reversed(entry.rivals().items())}


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS.values()))
def test_an_entry_of_each_kind_trains_and_is_judged(name: str) -> None:
    density = 0.3 if entry.rivals()[name].gives == entry.ANY else 0.0
    record = run.run(Cell("digits", "mlp-12", name, density, 0, 0, 40, rows=300), Path("unused"))
    assert record["failed"] == ""
    assert 0.0 < record["connected"] <= record["alive"] <= 1.0
    assert math.isclose(record["connected"], density, rel_tol=0.2) or not density or record["trainings"] == 3
    assert record["nll"] > 0 and 0.0 <= record["auroc"] <= 1.0 and record["bytes"] > 0


def test_what_takes_part_is_known_by_name_whatever_was_imported_before() -> None:
    assert bp.lab.rivals()["snr"].score == "snr" and bp.lab.rivals().keys() == entry.rivals().keys()
