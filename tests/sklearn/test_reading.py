"""Frames with texts and gaps: what is read of them, what is said of their columns, and that nothing changes without them."""

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import bayesprune as bp
import sklearn
from bayesprune.deploy import reader
from bayesprune.sklearn.frames import of_polars
from bayesprune.sklearn.reading import fit_reading, is_encoded

SHORT = {"hidden": (6,), "num_steps": 300, "num_samples": 20, "random_state": 0}


def table(rows: int = 240) -> tuple[pd.DataFrame, np.ndarray]:
    """Texts, categories of numbers, truth values, gaps in numbers and texts; y of the town and of the area."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 120, rows),
            "town": rng.choice(["north", "river", "hill"], rows),
            "storey": pd.Categorical(rng.integers(0, 3, rows)),
            "lift": rng.random(rows) < 0.5,
            "noise": rng.standard_normal(rows),
        }
    )
    y = frame.area.to_numpy() + 40.0 * (frame.town == "river").to_numpy() + rng.standard_normal(rows)
    frame.loc[::7, "noise"] = np.nan
    frame.loc[::11, "town"] = None
    return frame, y


@pytest.fixture(scope="module")
def fitted() -> tuple[bp.BayesianSparseRegressor, pd.DataFrame, np.ndarray]:
    frame, y = table()
    return bp.BayesianSparseRegressor(**SHORT).fit(frame[:180], y[:180]), frame, y


def test_numbers_are_those_of_scikit_learn_s_transformers() -> None:
    """Beside one transformer that is written out by hand, of which the order of columns alone differs."""
    frame, y = table()
    reading, found = fit_reading(frame, y, labels=False, seed=0)
    by_hand = make_column_transformer(
        (SimpleImputer(strategy="median", add_indicator=True), ["area", "lift", "noise"]),
        (OneHotEncoder(sparse_output=False), ["town", "storey"]),
    )
    towns = frame.astype({"lift": float, "storey": object})
    np.testing.assert_allclose(np.sort(found.sum(axis=0)), np.sort(by_hand.fit_transform(towns).sum(axis=0)), rtol=1e-12)
    np.testing.assert_array_equal(reading.apply(frame), found)
    assert reading.names[:4] == ("area", "lift", "noise", "missingindicator_noise") and "town_river" in reading.names
    assert [reading.owner.tolist().count(column) for column in range(5)] == [1, 4, 3, 1, 2]
    assert int((~reading.free).sum()) == 2  # one town and one storey are where the others are not


@pytest.mark.slow
def test_frames_of_numbers_are_read_as_arrays_are() -> None:
    frame, y = table(60)
    frame = frame[["area", "lift"]]
    assert not is_encoded(frame) and not is_encoded(frame.to_numpy(float))
    one, other = (bp.BayesianSparseRegressor(**SHORT).fit(x, y).predict(x) for x in (frame, frame.to_numpy(float)))
    np.testing.assert_array_equal(one, other)


def test_a_fit_says_of_the_columns_of_the_table_what_it_reads(fitted) -> None:
    model, frame, y = fitted
    assert model.n_features_in_ == 5 and model.feature_names_in_.tolist() == list(frame.columns)
    assert model.used_features_.shape == model.feature_importances_.shape == model.inclusion_probabilities_.shape == (5,)
    reasons = np.abs(model.explain(frame[180:190]).values).mean(axis=0)
    assert set(np.argsort(reasons)[-2:].tolist()) == {0, 1}  # the area and the town
    assert model.score(frame[180:], y[180:]) > 0.9  # .98 with this key


def test_reasons_of_a_column_are_those_of_all_its_numbers_together(fitted) -> None:
    """Shapley values of a row add up to its prediction, less the background's mean, by the networks that reasons are of."""
    model, frame, _ = fitted
    rows = frame[180:184]
    reasons = model.explain(rows)
    predicted = model._drawn(model._rows(rows), 20).mean(axis=0)
    np.testing.assert_allclose(reasons.base + reasons.values.sum(axis=1), predicted, rtol=1e-4)


def test_new_categories_and_gaps_are_predicted(fitted) -> None:
    model, frame, _ = fitted
    new = frame[180:183].astype({"town": object}).assign(town="moon", area=[np.nan, 50.0, 60.0])
    assert np.isfinite(model.predict(new)).all()
    with pytest.raises(ValueError, match="infinity"):
        model.predict(new.assign(area=np.inf))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"town": "city"}))
    with pytest.warns(UserWarning, match="valid feature names"):  # an array's columns are taken in their order
        read = model.predict(frame[180:].to_numpy(object))
    np.testing.assert_array_equal(read, model.predict(frame[180:]))


def test_it_is_pickled_and_its_file_reads_the_numbers(fitted, tmp_path) -> None:
    model, frame, _ = fitted
    numbers = model.numbers_of(frame[180:])
    assert numbers.shape == (60, len(model.number_names_))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame[180:]), model.predict(frame[180:]))
    model.compact(keep="mean").save(tmp_path / "flats.bayesprune")
    plan, arrays = reader.load(tmp_path / "flats.bayesprune")
    shipped = np.ravel(reader.predict(plan, arrays, numbers.astype(np.float32)))
    assert np.corrcoef(shipped, model.predict(frame[180:]))[0, 1] > 0.99


@pytest.mark.slow
def test_gaps_of_an_array_are_filled_and_marked() -> None:
    frame, y = table()
    x = frame[["area", "noise"]].to_numpy()
    model = bp.BayesianSparseRegressor(**SHORT).fit(x, y)
    assert model.numbers_of(x).shape == (240, 3) and model.number_names_ == ("x0", "x1", "missingindicator_x1")
    assert np.isfinite(model.log_density(x, y)).all()


@pytest.mark.parametrize("labels", [True, False])
def test_means_of_many_categories_do_not_know_their_own_row(labels: bool) -> None:
    """A text of its own in every row says nothing of y, whatever y is: its mean without the row is that of others."""
    y = np.arange(200) % 2 if labels else np.random.default_rng(0).standard_normal(200)
    _, found = fit_reading(pd.DataFrame({"name": [f"n{i}" for i in range(200)]}), y, labels=labels, seed=0)
    assert found.shape == (200, 1) and found.std() < 0.2 * y.std()  # all of about the mean of all


@pytest.mark.slow
def test_a_classifier_reads_them_too() -> None:
    frame, y = table()
    model = bp.BayesianSparseClassifier(**SHORT).fit(frame, np.where(y > 90, "dear", "cheap"))
    assert model.predict_proba(frame).shape == (240, 2) and model.used_features_.shape == (5,)


def test_what_cannot_be_read_is_refused_with_the_remedy() -> None:
    frame, y = table(60)
    with pytest.raises(ValueError, match="pandas DataFrame"):
        bp.BayesianSparseRegressor(**SHORT).fit(frame.to_numpy(object)[:, 1:2], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        bp.BayesianSparseRegressor(**SHORT).fit(frame, y[:-1])
    with pytest.raises(ValueError, match="encode and fill them first"):
        bp.BayesianFeatureSelector(rule="median").fit(frame, y)


def test_numbers_in_columns_of_objects_are_numbers() -> None:
    """Whatever the dtype says; written numbers stay texts, with a warning where there are many."""
    frame, y = table(60)
    numbers = frame[["area", "lift"]].astype(object)
    assert not is_encoded(numbers)
    reading, found = fit_reading(numbers.assign(noise=frame.noise.astype(object)), y, labels=False, seed=0)
    assert reading.kinds.texts == () and found.shape == (60, 4)
    written = pd.DataFrame({"area": [f"{value:.1f}" for value in frame.area]})
    with pytest.warns(UserWarning, match=r"column 'area' of X is read as texts, and 60 of its 60 are written numbers"):
        fit_reading(written, y, labels=False, seed=0)


def said_of(texts: list[str], y: np.ndarray) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_reading(pd.DataFrame({"a": texts}), y, labels=False, seed=0)
    return [str(one.message) for one in caught]


def test_numbers_written_with_commas_or_units_are_said_to_be_such_few_or_many() -> None:
    """A reader of decimal points makes names of them, whose order is lost."""
    rng = np.random.default_rng(0)
    few, more, many = rng.integers(0, 8, 300) / 2, rng.integers(0, 30, 300) / 2, rng.standard_normal(300).round(3)
    for write in ("{}", "$ {}", "{} %"):
        for values in (few, more, many):
            texts = [write.format(value).replace(".", ",") for value in values]
            (said,) = said_of([*texts[:-5], *["?"] * 5], values)
            assert said.startswith("column 'a' of X is read as texts, and would be numbers but for texts such as ")
            assert any(repr(text) in said for text in texts) and "write numbers with a point and nothing beside them" in said


def test_names_are_not_said_to_be_numbers() -> None:
    rng = np.random.default_rng(0)
    for known in (["red", "blue"], ["18-25", "26-40"], ["c12", "c13"], ["1", "2", "3"], ["a, b", "1,5", "c"]):
        assert said_of(rng.choice(known, 300).tolist(), np.arange(300.0)) == []
    assert said_of([f"{code:05}" for code in 701 * rng.integers(0, 40, 300)], np.arange(300.0)) == []


def test_of_two_categories_what_comes_later_is_neither() -> None:
    frame = pd.DataFrame({"lift": ["no"] * 10 + ["yes"] * 30, "rare": ["seldom"] * 3 + ["often"] * 37})
    reading, found = fit_reading(frame, np.arange(40.0), labels=False, seed=0)
    np.testing.assert_array_equal(reading.apply(frame), found)
    later = pd.DataFrame({"lift": ["no", "yes", "both", None], "rare": ["often", "seldom", "never", "often"]})
    # The rare one of two is what stands for rare ones, and for those that come later.
    assert reading.apply(later).tolist() == [[0, 0], [1, 1], [0.75, 1], [0.75, 0]]


def test_dates_of_numpy_are_refused_too() -> None:
    dates = np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]")[:, None]
    for values in (dates, dates - dates[0]):
        with pytest.raises(ValueError, match=r"X holds dates \((datetime|timedelta)64.*in a pandas DataFrame"):
            bp.BayesianSparseRegressor(**SHORT).fit(values, np.arange(60.0))


@pytest.mark.slow
def test_frames_of_polars_are_read_by_kinds() -> None:
    polars = pytest.importorskip("polars")
    frame, y = table()
    theirs = polars.DataFrame(
        {
            "area": frame.area.to_list(),
            "town": frame.town.astype(object).where(frame.town.notna(), None).tolist(),
            "noise": frame.noise.to_list(),
        }
    )
    theirs = theirs.with_columns(noise=polars.col("noise").fill_nan(None))
    one, other = (
        bp.BayesianSparseRegressor(**SHORT).fit(part, y).predict(part) for part in (theirs, frame[["area", "town", "noise"]])
    )
    np.testing.assert_array_equal(one, other)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(240)]
    one, other = (
        fit_reading(of_polars(part), y, labels=False, seed=0)[1]
        for part in (theirs.with_columns(day=polars.Series(days)), frame[["area", "town", "noise"]].assign(day=days))
    )
    np.testing.assert_array_equal(one, other)


def test_names_of_single_rows_are_one_category_and_the_same_when_they_are_read_again() -> None:
    """A name of each row was a mean of other rows in the fit and its own target later: deviations of 20 to 300, R² -31.

    Beside forty common ones, thirty of one row each are read as new ones in the fit, and never as more than any was in it.
    """
    rng = np.random.default_rng(0)
    y = rng.standard_normal(300)
    names = pd.DataFrame({"id": [f"n{i}" for i in range(300)]})
    with pytest.warns(
        UserWarning, match=r"column 'id' of X has texts in 300 of its 300 rows that fewer than 3 rows share.*to_datetime"
    ):
        reading, found = fit_reading(names, y, labels=False, seed=0)
    np.testing.assert_array_equal(reading.apply(names), found)
    assert found.std() == 0.0
    towns = np.array([f"t{i % 40}" for i in range(270)] + [f"single {i}" for i in range(30)])
    table = pd.DataFrame({"town": towns})
    reading, found = fit_reading(table, y, labels=False, seed=0)
    assert reading.names == ("town (mean y)",)
    np.testing.assert_array_equal(found[270:], 0.0)
    assert found[:270].all()
    new = reading.apply(pd.DataFrame({"town": ["never seen", "t1", "single 3"]}))
    assert new[0] == 0.0 != new[1] and found.min() <= new[2] <= found.max()


def test_of_many_categories_those_of_two_rows_have_a_mean_of_their_own() -> None:
    """Where twenty or fewer have five rows, and those most rows, such ones are rare."""
    towns = np.array(
        [f"t{i // 5}" for i in range(150)] + [f"few {i // 3}" for i in range(60)] + [f"two {i // 2}" for i in range(8)]
    )
    y = np.random.default_rng(0).standard_normal(len(towns))
    reading, _ = fit_reading(pd.DataFrame({"town": towns}), y, labels=False, seed=0)
    assert len(np.unique(reading.apply(pd.DataFrame({"town": towns})))) == len(np.unique(towns))
    reading, _ = fit_reading(pd.DataFrame({"town": towns[50:]}), y[50:], labels=False, seed=0)
    assert len(reading.names) == 21 and reading.names[-1] == "town_infrequent_sklearn"


def test_a_lone_name_is_not_what_later_ones_are_foreseen_by() -> None:
    """Its own target was once what every new name read, and nothing had learnt from it."""
    towns = np.array([f"t{i % 30}" for i in range(600)] + ["alone"])
    y = np.append(np.random.default_rng(0).standard_normal(600), 100.0)
    reading, found = fit_reading(pd.DataFrame({"town": towns}), y, labels=False, seed=0)
    new = reading.apply(pd.DataFrame({"town": ["new", "alone", None, "t1"]}))[:, 0]
    np.testing.assert_array_equal(new[[0, 2]], 0.0)
    assert new[1] == found.max() < 1.0
    column, frame = y[:, None], pd.DataFrame({"town": towns})
    np.testing.assert_array_equal(fit_reading(frame, column, labels=False, seed=0)[1], found)  # one output is one output
    labels = np.where(y > 50, 2, (y > 0).astype(int))
    labels[:5] = 2
    reading, _ = fit_reading(frame, labels, labels=True, seed=0)
    np.testing.assert_array_equal(reading.apply(pd.DataFrame({"town": ["new"]}))[0], np.zeros(3))


def test_what_is_set_for_the_output_of_all_transformers_is_not_for_these() -> None:
    y = np.random.default_rng(0).standard_normal(300)
    frame = pd.DataFrame({"a": y, "town": [f"t{i % 30}" for i in range(300)], "two": ["a", "b"] * 150})
    one, expected = fit_reading(frame, y, labels=False, seed=0)
    with sklearn.config_context(transform_output="pandas"):
        other, found = fit_reading(frame, y, labels=False, seed=0)
        np.testing.assert_array_equal(other.apply(frame), one.apply(frame))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_an_estimator_of_many_categories_is_saved(tmp_path) -> None:
    """With their levels, an array of texts."""
    from bayesprune.sklearn.saving import load, save

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": [f"t{i % 30}" for i in range(300)], "a": rng.standard_normal(300)})
    model = bp.BayesianSparseClassifier(**SHORT).fit(frame, frame["a"] > 0)
    save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load(tmp_path / "model.skops").predict_proba(frame), model.predict_proba(frame))


def test_a_column_of_strangers_alone_warns() -> None:
    """Codes that were texts with a zero in front, read again as numbers; not of few rows, or where some are known."""
    codes = pd.DataFrame({"code": [f"0{i % 4}" for i in range(40)]})
    reading, _ = fit_reading(codes, np.arange(40.0), labels=False, seed=0)
    with pytest.warns(
        UserWarning, match=r"no value of column 'code' of X was there.*\('00', '01', '02' then, '0', '1', '2' now\)"
    ):
        reading.apply(codes.astype(int))
    many = pd.DataFrame({"code": [f"0{i % 30}" for i in range(300)]})
    reading_of_means, _ = fit_reading(many.replace("029", None), np.arange(300.0), labels=False, seed=0)
    with pytest.warns(UserWarning, match=r"no value of column 'code' .*\('00', '01', '010' then, '0', '1', '10' now\)"):
        reading_of_means.apply(many.astype(int))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reading.apply(codes.astype(int)[:4])
        reading.apply(pd.DataFrame({"code": ["7"] * 9 + ["01"]}))
        reading.apply(pd.DataFrame({"code": [None] * 9}))
        rare = pd.DataFrame({"code": [f"t{i % 30}" for i in range(300)] + ["once", "twice", "twice"]})
        reading_with_rare, _ = fit_reading(rare, np.arange(303.0), labels=False, seed=0)
        reading_with_rare.apply(pd.DataFrame({"code": ["twice"] * 9}))  # it was there
        placeholders = pd.DataFrame({"code": ["unknown"] * 60 + [f"n{i // 4}" for i in range(40)]})
        fit_reading(placeholders, np.arange(100.0), labels=False, seed=0)
    names = pd.DataFrame({"code": ["unknown"] * 40 + [f"n{i}" for i in range(60)]})
    with pytest.warns(UserWarning, match="has texts in 60 of its 100 rows that fewer than 3 rows share"):
        reading_of_names, _ = fit_reading(names, np.arange(100.0), labels=False, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reading_of_names.apply(pd.DataFrame({"code": [f"m{i}" for i in range(60)]}))  # as it is with names


def test_complex_numbers_and_written_truth_values_name_what_helps() -> None:
    frame = pd.DataFrame({"town": ["a", "b"] * 10, "z": np.arange(20) + 1j})
    with pytest.raises(ValueError, match="'z' of X holds complex numbers: give their real and imaginary parts"):
        fit_reading(frame, np.arange(20.0), labels=False, seed=0)
    truths = pd.DataFrame({"town": ["a", "b"] * 10, "lift": [True, False] * 10})
    reading, _ = fit_reading(truths, np.arange(20.0), labels=False, seed=0)
    with pytest.raises(ValueError, match=r"X\['lift'\]\.astype\(str\)\.str\.lower\(\) == 'true'\.$"):
        reading.apply(truths.assign(lift=truths.lift.astype(str)))
    with pytest.raises(ValueError, match="which leaves gaps"):
        reading.apply(truths.assign(lift="high"))


def test_a_gap_in_a_list_of_rows_is_one_as_in_a_frame() -> None:
    frame = pd.DataFrame({"size": np.arange(30.0), "town": ["a", "b", None] * 10})
    reading, found = fit_reading(frame, np.arange(30.0), labels=False, seed=0)
    rows = [[0.0, "a"], [1.0, "b"], [2.0, np.nan]]
    np.testing.assert_array_equal(reading.apply(rows), found[:3])
    np.testing.assert_array_equal(reading.apply(tuple(map(tuple, rows))), found[:3])


@pytest.mark.parametrize("moment", [np.datetime64("2024-03-01"), np.timedelta64(3, "D")])
def test_dates_of_numpy_s_in_lists_and_among_objects_are_no_numbers(moment) -> None:
    x = np.arange(40.0)[:, None]
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=20, num_samples=5, random_state=0)
    held = [[moment + day] for day in range(40)]
    for rows in (
        held,
        np.array(held, object),
        tuple(held),
        [np.array(row, "M8[ns]" if "datetime" in moment.dtype.name else "m8[ns]") for row in held],
    ):
        with pytest.raises(ValueError, match=r"X holds dates \((datetime|timedelta)64"):
            model.fit(rows, x[:, 0])
    with pytest.raises(ValueError, match="X holds dates"):
        bp.BayesianFeatureSelector(model).fit(held, x[:, 0])
    model.fit(x, x[:, 0])
    with pytest.raises(ValueError, match="X holds dates"):
        model.predict(held)
    assert len(model.predict([[1.0], [None]])) == 2
