"""The study of what held-out rows decide, on one small table."""

import numpy as np
import pytest
import tabular_held_out as study

import bayesprune as bp


def test_tables_are_other_draws_with_new_rows() -> None:
    for cell in study.CELLS:
        x, y, train = study.table(cell)
        assert len(x) == len(y) == train + 2000 and 100 < train <= 2000


@pytest.mark.every
@pytest.mark.slow
def test_a_cell_judges_the_fit_as_it_came_and_as_it_would_have_been(tmp_path) -> None:
    """The fit's own log density of the new rows; under the hardest cut alone it is that of a fit that held nothing out."""
    cell = study.Cell("moons", steps=60)
    record = study.run(cell, tmp_path)
    x, y, train = study.table(cell)
    own = bp.BayesianSparseClassifier(random_state=1, num_steps=60, held_out=0.2).fit(x[:train], y[:train])
    plain = bp.BayesianSparseClassifier(random_state=1, num_steps=60).fit(x[:train], y[:train])
    np.testing.assert_allclose(record["chosen"], own.log_density(x[train:], y[train:]).mean(), rtol=1e-5)
    np.testing.assert_allclose(record["hard"], plain.log_density(x[train:], y[train:]).mean(), rtol=1e-5)
    assert record["temperature"] == own.temperature_ != 1.0 and record["hard_density"] == plain.density_
    assert record["hard_tempered"] != record["hard"] and 0 <= record["rung"] <= 3
