"""The default does not collapse on the kinds of tables that its forms were made for, and the kinds are what they say."""

import kinds_of_tables
import numpy as np
import pytest

import bayesprune as bp


@pytest.mark.parametrize("kind", kinds_of_tables.KINDS)
def test_a_kind_is_always_the_same_table_and_whole(kind: str) -> None:
    table, again = kinds_of_tables.make(kind), kinds_of_tables.make(kind)
    np.testing.assert_array_equal(table.x, again.x)
    assert len(table.y) == len(table.x) == table.train + kinds_of_tables.TEST and np.isfinite(table.x).all()
    assert np.issubdtype(table.y.dtype, np.integer) == (kind in kinds_of_tables.CLASSES)


@pytest.mark.slow
@pytest.mark.slow_cases(1)
@pytest.mark.parametrize(
    ("kind", "least", "form"),
    # Each well below what one seed gave, and well above what the default gave before there were forms.
    [("steps", 0.93, "steps"), ("spectra", 0.88, None), ("plant", 0.97, "components"), ("heavy_tails", 0.2, None)],
)
def test_no_collapse_on_the_kinds(kind: str, least: float, form: str | None) -> None:
    x, y, train = kinds_of_tables.make(kind)
    model = bp.BayesianSparseRegressor(random_state=0).fit(x[:train], y[:train])
    assert model.score(x[train:], y[train:]) > least
    assert form is None or model.form_ == form
