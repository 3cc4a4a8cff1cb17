"""Made rows lie between given ones: of arrays and of frames, whose texts, dates, gaps and kinds of numbers they keep."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import bayesprune as bp
from bayesprune.sklearn.made_rows import between

RNG = np.random.default_rng(0)
ROWS = 300


def table() -> pd.DataFrame:
    """Two towns far apart in size and day, ages and a column of gaps, categories and truths."""
    north = np.arange(ROWS) % 2 == 0
    return pd.DataFrame(
        {
            "size": np.where(north, 10.0, 1000.0) + RNG.standard_normal(ROWS),
            "town": np.where(north, "north", "south"),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.where(north, 0, 900) + RNG.integers(0, 30, ROWS), "D"),
            "age": RNG.integers(18, 80, ROWS),
            "kind": pd.Categorical(RNG.choice(["a", "b", "c"], ROWS)),
            "gap": np.where(RNG.random(ROWS) < 0.3, np.nan, RNG.standard_normal(ROWS)),
            "member": RNG.random(ROWS) < 0.5,
        }
    )


def test_made_rows_lie_between_neighbours_and_categories_stay_what_they_are() -> None:
    x = np.column_stack([RNG.standard_normal(200), RNG.integers(0, 3, 200), np.full(200, 7.0)])
    made = between(RNG, x, 5_000)
    assert made.shape == (5_000, 3) and set(np.unique(made[:, 1])) <= {0.0, 1.0, 2.0} and (made[:, 2] == 7.0).all()
    assert made[:, 0].std() == pytest.approx(x[:, 0].std(), rel=0.15)
    assert len(between(RNG, x, 0)) == 0
    twice = np.repeat(x[:1], 30, axis=0)
    assert (between(RNG, twice, 10) == twice[0]).all()


def test_made_rows_of_a_frame_are_of_its_columns_and_kinds() -> None:
    """Neighbours are of one town, so that made rows are: of its size and its days. What is no amount is a given value."""
    frame = table()
    made = between(np.random.default_rng(0), frame, 4_000)
    assert made.shape == (4_000, 7) and (made.dtypes == frame.dtypes).all() and (made.columns == frame.columns).all()
    north = (made.town == "north").to_numpy()
    assert (np.abs(made["size"] - np.where(north, 10.0, 1000.0)) < 8.0).all()
    assert ((made.day < pd.Timestamp("2021-01-01")).to_numpy() == north).all()
    for name in ("town", "day", "kind", "member"):
        assert set(made[name].unique()) <= set(frame[name].unique())
    assert 0.2 < made.gap.isna().mean() < 0.4 and len(set(made.gap.dropna()) - set(frame.gap.dropna())) > 1_000
    assert made.age.between(0, 100).all() and 0.3 < (made.age.map(frame.age.value_counts()) > 0).mean() <= 1.0


def test_gaps_of_an_array_are_swapped() -> None:
    x = RNG.standard_normal((200, 2))
    x[::4, 0] = np.nan
    made = between(RNG, x, 4_000)
    assert np.isnan(made[:, 0]).mean() == pytest.approx(0.25, abs=0.05) and not np.isnan(made[:, 1]).any()
    assert np.isnan(between(RNG, np.full((30, 1), np.nan), 5)).all()


def test_one_dtype_of_many() -> None:
    frame = pd.DataFrame({0: pd.array([None, *range(29)], "Int64"), 1: pd.array(["x", None] * 15, "string")})
    made = between(RNG, frame, 500)
    assert (made.dtypes == frame.dtypes).all() and 0 < made[0].isna().sum() < 100 and set(made[1].dropna()) == {"x"}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "Int8", "UInt8", "int64"])
def test_whole_numbers_stay_within_their_dtype(dtype: str) -> None:
    """A byte beyond 255 would be a small one, or an error."""
    ends = np.iinfo(dtype.lower())
    step = int(ends.max) // 100 >> 12 << 12 or 1  # float64 has no last digits of the largest
    for values in ([int(ends.min) + step * k for k in range(30)], [int(ends.max) - step * k for k in range(30)]):
        made = between(RNG, pd.DataFrame({"whole": pd.array(values * 3, dtype), "b": RNG.standard_normal(90)}), 2_000).whole
        assert str(made.dtype) == dtype and made.between(min(values), max(values)).all()


def test_a_frame_with_an_infinite_number_is_refused() -> None:
    with pytest.raises(ValueError, match="X contains infinity"):
        between(RNG, pd.DataFrame({"a": [np.inf, *range(29)], "b": ["x", "y"] * 15}), 10)


def test_frames_of_texts_alone() -> None:
    frame = pd.DataFrame({"town": ["a", "b", None] * 10, "kind": pd.Categorical([3, 4, 5] * 10)})
    made = between(RNG, frame, 100)
    assert (made.dtypes == frame.dtypes).all() and set(made.kind) <= {3, 4, 5} and made.town.isna().any()


def test_dates_in_an_array_and_few_rows_are_refused() -> None:
    teacher = HistGradientBoostingRegressor().fit(np.zeros((20, 1)), np.arange(20.0))
    with pytest.raises(ValueError, match="holds dates"):
        bp.distil(teacher, np.full((30, 1), np.datetime64("2020-01-01")))
    with pytest.raises(ValueError, match="needs at least 20"):
        bp.distil(teacher, table()[:10])


@pytest.mark.slow
def test_a_teacher_of_texts_and_gaps_has_a_student() -> None:
    frame = table()[["size", "town", "kind", "gap"]]
    texts = make_column_transformer((OneHotEncoder(), ["town", "kind"]), remainder="passthrough")
    y = np.where(frame.kind == "a", "yes", "no")
    teacher = make_pipeline(texts, RandomForestClassifier(50, min_samples_leaf=5, random_state=0)).fit(frame, y)
    small = bp.BayesianSparseClassifier(hidden=(8,), num_steps=1_000, form="plain", held_out=0.0)
    found = bp.distil(teacher, frame, student=small, rows=1_000)
    assert found.agreement > 0.95 and found.student.predict(frame[:6]).tolist() == y[:6].tolist()
