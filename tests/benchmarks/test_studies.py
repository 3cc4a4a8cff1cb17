"""Every study imports and lists its cells, every kept record belongs to one, and the pages show what the records give."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import tables

from bayesprune import cells

FOLDER = Path(tables.__file__).parent
NAMES = tuple(tables.studies())


@pytest.mark.parametrize("script", ["speed", "profile_step"])
def test_the_timings_import(script):
    assert callable(importlib.import_module(script).main)


def test_every_file_of_records_has_its_study():
    assert {path.stem for path in (FOLDER / "results").glob("*.jsonl")} <= set(NAMES) and len(NAMES) > 20


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NAMES)
def test_every_kept_record_is_a_planned_cell_and_none_is_missing(name):
    study = tables.studies()[name]
    planned = {cells.key(cell): cells.settings(cell) for cell in study.cells}
    assert len(planned) == len(study.cells), "two cells of one key"
    records = cells.read_records(FOLDER / "results" / f"{name}.jsonl")
    assert records.keys() == planned.keys()
    for key, record in records.items():
        # A setting that came after the record has its default there.
        assert planned[key] | {setting: record[setting] for setting in planned[key] if setting in record} == planned[key]
        assert {"commit", "dirty", "date", "python", "jax", "numpyro", "bayesprune", "device", "seconds"} <= record.keys()


def test_every_file_of_results_belongs_to_a_study():
    assert {path.stem for path in (FOLDER / "results").iterdir()} <= set(NAMES)


def test_the_pages_show_what_the_records_give():
    assert [path.name for path, _ in tables.behind()] == [], "run `python benchmarks/tables.py`"


def test_every_mark_is_a_whole_block():
    pages = [path.read_text(encoding="utf-8") for folder in tables.PAGES for path in folder.glob("*.md")]
    assert sum(page.count("<!-- table:") for page in pages) == sum(len(tables.BLOCK.findall(page)) for page in pages)
    shown = {f"{study}/{name}" for page in pages for study, name, _ in tables.BLOCK.findall(page)}
    assert shown == {f"{study.name}/{name}" for study in tables.studies().values() for name in study.tables}


def test_a_page_behind_its_records_is_seen():
    page = "before\n<!-- table: bmr/fashion_mnist -->\n| old |\n<!-- /table -->\nafter"
    made = tables.filled(page, lambda study, name: f"| {study} {name} |")
    assert made == page.replace("old", "bmr fashion_mnist")
    with pytest.raises(ValueError, match="no table bmr/none"):
        tables.made("bmr", "none")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "claims"])  # which has no cells of its own
def test_tables_of_an_empty_study_say_so(name, tmp_path):
    study = tables.studies()[name]
    made = cells.tables(study, tmp_path)
    assert f"{len(study.cells)} of {len(study.cells)} cells are missing" in made
    assert re.search(r"\| (missing|0 of \d+) ", made)


def test_a_cell_run_anew_gives_the_kept_figures(tmp_path):
    study = tables.studies()["inclusion"]
    cells.main(study, ["run", "--only", "method=coordinate", "inputs=independent", "--out", str(tmp_path)])
    ((cell, again),) = cells.found(study, tmp_path).items()
    kept = cells.found(study, FOLDER / "results")[cell]
    for figure in ("mean_error", "mean_absolute_error", "too_sure", "correlation", "exact", "approximate"):
        np.testing.assert_allclose(again[figure], kept[figure], rtol=0, atol=1e-6)
