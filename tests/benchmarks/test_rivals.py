"""Rivals read texts, gaps and categories that are new; an elastic net does not depend on the unit of y."""

import numpy as np
import pandas as pd
import pytest
import real_tables
import rivals

OF_SCIKIT_LEARN = ("boosting", "forest", "linear", "networks")


def table(rows: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.standard_normal(rows), "town": rng.choice(["a", "b", "c"], rows)})
    y = frame["size"].to_numpy() + 2.0 * (frame.town == "b").to_numpy()
    frame.loc[::9, "size"] = np.nan
    frame.loc[::7, "town"] = None
    return frame, y


@pytest.mark.parametrize("name", OF_SCIKIT_LEARN)
def test_texts_gaps_and_what_is_new_are_read(name: str) -> None:
    x, y = table()
    new = x.assign(town="z")
    assert np.isfinite(rivals.MODELS[name](False).fit(x, y).predict(new)).all()
    np.testing.assert_allclose(rivals.MODELS[name](True).fit(x, (y > 1).astype(int)).predict_proba(new).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["linear", "networks"])
def test_the_unit_of_y_does_not_matter(name: str) -> None:
    x, y = table()
    one, other = (rivals.MODELS[name](False).fit(x, unit * y).predict(x) / unit for unit in (1.0, 1e5))
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_no_table_is_looked_at_and_judged() -> None:
    assert not set(real_tables.LOOKED_AT) & set(real_tables.JUDGED) and len(real_tables.JUDGED) == 26
    places = [(source.package, source.item) for source in real_tables.SOURCES.values()]
    assert len(set(places)) == len(places)
