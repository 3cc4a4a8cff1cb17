"""The settings that the laboratory judges are those that its kept tries speak for."""

from pathlib import Path

import laboratory
import pytest

from bayesprune import cells

RECORDS = Path(laboratory.__file__).parent / "results"


@pytest.fixture(scope="module")
def found() -> cells.Found:
    return cells.found(laboratory.STUDY, RECORDS)


@pytest.mark.parametrize("task", laboratory.TASKS, ids=lambda task: f"{task.base.data} {task.base.net}")
def test_the_chosen_try_is_the_best_on_held_out_rows(task, found) -> None:
    for method, chosen in task.chosen.items():
        tries = [found[cell] for cell in task.tried if cell.method == method]
        nll = {one["trial"]: one["nll"] for one in tries if not one["failed"]}
        assert min(nll, key=nll.__getitem__) == chosen, method


def test_a_method_that_lacks_a_seed_has_no_row_of_means(found) -> None:
    """It had one of the seeds that were there, and one that had failed was no row but a KeyError."""
    task, of_snr = laboratory.FASHION, lambda records: "| snr |" in laboratory.by_density(laboratory.FASHION, records)
    one = next(cell for cell in task.judged if (cell.method, cell.density) == ("snr", 0.1))
    assert of_snr(found)
    assert not of_snr({cell: record for cell, record in found.items() if cell != one})
    assert not of_snr(dict(found) | {one: {"failed": "too large"}})
