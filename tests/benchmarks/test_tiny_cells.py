"""Every study runs: one cell each, of a few steps, on made-up images where real ones would be read from disk."""

import bmr_ablation
import numpy as np
import pytest
import reproduce_ssvi
import reproduce_units
import ssvi_memory
import tables
import units_that_pay

import bayesprune as bp
from bayesprune import cells

pytestmark = pytest.mark.slow

TINY = {
    "attempts": (["part=arguments", "attempt=early_stop"], ["steps=2"], "calls"),
    "births": (["rule=c = 1", "seed=0"], ["steps=40"], "births"),
    "bmr": (
        ["net=mlp", "method=bmr", "dataset=fashion_mnist", "seed=0"],
        ["epochs=2", "steps_per_epoch=2"],
        "history/prune/density",
    ),
    "bmr_ablation": (["net=mlp", "change=he"], ["epochs=2"], "accuracy"),
    "equal_cost": (["data=mnist", "method=snr", "seed=0"], ["steps=10"], "in_use"),
    "faults": (["fault=a link"], ["kind=SGHMC"], "same"),
    "inclusion": (["method=hard", "inputs=independent"], ["steps=20"], "mean_error"),
    "mnist": (["name=mlp512_svbnn"], ["epochs=1"], "median/error"),
    "sbnn": (["experiment=influence"], ["steps=20"], "correlations"),
    "selection": (["data=friedman1", "model=default", "seed=0"], ["steps=20"], "power"),
    "sghmc": (["data=e1", "rule=em", "seed=0"], ["share=0.01"], "score"),
    "ssvi": (["part=removal", "density=0.1", "removal=expected_abs_over_std", "seed=0"], ["epochs=1"], "accuracy"),
    "streaming": (["part=step"], ["rows=64", "batch=8", "steps=2", "stretches=1", "rounds=1"], "Grain/ratio"),
    "ssvi_memory": (["batch=32"], ["batch=8", "rounds=1"], "SSVI active/state/params"),
    "tabular": (["data=iris", "model=default"], ["steps=20"], "calibration"),
    "tabular_kinds": (["data=money", "model=linear"], ["data=heavy_tails"], "score"),
    "units": (["method=sbp"], ["epochs=1"], "compression"),
    "units_that_pay": (["rule=evidence", "nats=0.0"], ["epochs=2"], "flops"),
    "svbnn": (["simulation=teacher_b", "method=svbnn"], ["steps=20", "replications=2"], "test_rmse"),
}


def images(name, pad=0, standardise=True):
    rng = np.random.default_rng(0)
    side = pad or 28
    return tuple(
        bp.Dataset(rng.normal(size=(rows, side, side, 1)).astype(np.float32), rng.integers(0, 10, rows).astype(np.int32))
        for rows in (640, 64)
    )


def small(posterior, dtype):
    return bp.BNN(
        bp.nets.MLP((8,), 10),
        prior=bp.priors.Gaussian(0.05),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(32, 32, 3),
        posterior=posterior,
        bayesian=bp.select.kernels,
        prunable=bp.select.kernels,
    )


@pytest.mark.slow_cases(4)
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_cell_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bp.data, "load", images)
    monkeypatch.setattr(bmr_ablation, "EPOCH", 2)
    monkeypatch.setattr(reproduce_ssvi, "EVERY", 2)
    monkeypatch.setattr(ssvi_memory, "build", small)
    monkeypatch.setattr(units_that_pay, "EVERY", 1)
    monkeypatch.setattr(units_that_pay, "REPEATS", 2)
    only, changes, figure = TINY[name]
    cells.main(tables.studies()[name], ["run", "--only", *only, "--set", *changes])
    ((key, record),) = cells.read_records(tmp_path / "runs" / f"{name}.jsonl").items()
    assert set(changes) <= set(key.split())
    assert np.isfinite(np.asarray(record[figure], dtype=float)).all()


def test_the_masks_of_scores_that_rank_alike_are_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bp.data, "load", images)
    monkeypatch.setattr(reproduce_ssvi, "EVERY", 2)
    study = tables.studies()["ssvi"]
    words = ["part=removal", "density=0.1", "seed=0", "removal=snr,expected_abs_over_std"]
    cells.main(study, ["run", "--only", *words, "--set", "epochs=1"])
    _, fourth = cells.read_records(tmp_path / "runs" / "ssvi.jsonl").values()
    assert 0 <= fourth["differs_from_snr_in"] < 20  # of 266,200: a near tie that rounding breaks


@pytest.mark.slow_cases(1)
@pytest.mark.parametrize("method", ["ghs", "dense"])
def test_what_is_recorded_beside_a_cut_of_units_is_shown(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bp.data, "load", images)
    study, cell = reproduce_units.STUDY, reproduce_units.Cell(method, epochs=1)
    monkeypatch.setattr(reproduce_units, "CELLS", (cell,))
    cells.main(study, ["run", "--only", f"method={method}", "dataset=mnist", "--set", "epochs=1"])
    records = cells.read_records(tmp_path / "runs" / "units.jsonl")
    (record,) = records.values()
    if method == "dense":
        assert (record["units_cut"], record["compression"]) == (0, 1)
        return
    assert sum(key.startswith("threshold/") for key in record) == 4
    assert record["at/half left/outputs"].startswith("10-25")
    assert 0.45 < record["at/half left/pruned"] < record["at/quarter left/pruned"] < 0.8
    table = reproduce_units.once({cell: record})
    assert [row.split("|")[1].strip() for row in table.splitlines()[2:]] == ["ghs", "ghs, half left", "ghs, quarter left"]
