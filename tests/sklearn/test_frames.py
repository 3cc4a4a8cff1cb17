"""Columns of frames: which are the same category, what is refused with its remedy, gaps that come later."""

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesprune as bp
from bayesprune.sklearn import conformal, frames
from bayesprune.sklearn.gaps import check_targets
from bayesprune.sklearn.reading import fit_reading

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
SHORT = {"hidden": (), "num_steps": 300, "num_samples": 10, "random_state": 0}


def of(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    "values",
    [[1000001, 1000002], [52.123456, 52.123457], [10**16, 10**16 + 1], [True, False], ["a", "A"], [0.1, np.nextafter(0.1, 1)]],
)
def test_other_categories_stay_others(values: list) -> None:
    column = pd.Series(values * 20, dtype=object)
    written = frames.of_kinds(of(a=column), frames.Kinds(texts=(0,)))[0]
    assert written.nunique() == 2 and set(written[::2]) != set(written[1::2])
    _, found = fit_reading(of(a=pd.Categorical(values * 20)), np.arange(40.0), labels=False, seed=0)
    assert len(np.unique(found, axis=0)) == 2


def test_the_same_category_is_so_whatever_type_writes_it() -> None:
    column = pd.Series([3, 3.0, np.float32(3), np.int8(3), "3"], dtype=object)
    assert set(frames.of_kinds(of(a=column), frames.Kinds(texts=(0,)))[0]) == {"3"}
    assert frames.of_kinds(of(a=pd.Series([np.float32(52.12)], dtype=object)), frames.Kinds(texts=(0,)))[0].tolist() == [
        "52.12"
    ]


def test_names_must_be_each_columns_own() -> None:
    for estimator in (bp.BayesianSparseRegressor(**SHORT), bp.BayesianFeatureSelector()):
        with pytest.raises(ValueError, match=r"several columns of X have the name 'a': rename them"):
            estimator.fit(pd.DataFrame(X, columns=["a", "a"]), X[:, 1])


def test_folds_within_are_nobodys_business() -> None:
    """A class of one row, and a column of forty texts: scikit-learn would speak of splits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_reading(of(t=[f"t{i % 40}" for i in range(200)]), np.array([0] + [1, 2] * 99 + [1]), labels=True, seed=0)


@pytest.mark.parametrize("y", [np.repeat(["a", "b"], 5), np.array(["1", "2"], object), pd.Series(["a", "b"]), ["1.5", "2"]])
def test_a_regressor_says_what_texts_are_for(y: object) -> None:
    with pytest.raises(ValueError, match=r"y holds texts.*BayesianSparseClassifier"):
        check_targets(y)
    with pytest.raises(ValueError, match="y holds dates"):
        check_targets(np.array(["2020-01-01"], "datetime64[D]"))


def test_without_held_out_rows_the_remedy_is_that_of_the_cause() -> None:
    with pytest.raises(ValueError, match="fit with held_out"):
        conformal.known(None, {})
    with pytest.raises(ValueError, match="time_limit left no time"):
        conformal.known(None, {"held_out": 0.2})


@pytest.mark.slow
def test_gaps_that_come_after_the_fit_are_the_medians_whatever_the_rows_are_held_in() -> None:
    y = 2.0 * X[:, 1]
    model, gap = bp.BayesianSparseRegressor(**SHORT).fit(X, y), X[:3].copy()
    gap[1, 0] = np.nan
    filled = np.where(np.isnan(gap), np.median(X, axis=0), gap)
    np.testing.assert_array_equal(model.numbers_of(gap), filled)
    for rows in (gap, gap.tolist(), gap.astype(object), [[0.5, None]]):
        assert np.isfinite(model.predict(rows)).all()
    np.testing.assert_array_equal(model.predict(gap), model.predict(filled))
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 2), np.inf))
    named = bp.BayesianSparseRegressor(**SHORT).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    np.testing.assert_array_equal(named.predict(pd.DataFrame(gap, columns=["a", "b"])), model.predict(filled))
    with pytest.raises(ValueError, match="column 'a' of X holds dates"):
        named.predict(of(a=pd.date_range("2020-01-01", periods=3), b=[0.0, 1.0, 2.0]))


@pytest.mark.slow
def test_one_gap_in_a_table_stops_no_fold_and_is_read_of_lists_too() -> None:
    x, y = X.copy(), 2.0 * X[:, 1]
    x[5, 0] = np.nan
    model = bp.BayesianSparseRegressor(**SHORT)
    assert cross_val_score(model, x, y, cv=3).min() > 0.9
    whole = model.fit(x, y).predict(x)
    for given in (x.tolist(), x.astype(object)):
        np.testing.assert_array_equal(bp.BayesianSparseRegressor(**SHORT).fit(given, y).predict(given), whole)


def test_later_numbers_with_decimal_commas_are_said_to_be_such() -> None:
    kinds = frames.kinds_of(of(a=[1.5, np.nan, 2.0]))
    told = r"column 'a' of X held numbers when it was fitted, and holds texts such as '1,5' now: write numbers with a point"
    for later in (of(a=["1,5", "2"]), of(a=[2.0, "1,5"]), of(a=["1,5", None]).astype("string")):
        with pytest.raises(ValueError, match=told):
            frames.of_kinds(later, kinds)


@pytest.mark.slow
def test_a_text_among_numbers_is_named_when_it_is_predicted() -> None:
    frame = of(a=X[:, 0], town=np.where(X[:, 1] > 0, "x", "y"))
    model = bp.BayesianSparseRegressor(**SHORT).fit(frame, X[:, 0])
    with pytest.raises(ValueError, match=r"column 'a' of X held numbers when it was fitted.*pd.to_numeric\(X\['a'\]"):
        model.predict(of(a=["1.5", "n/a"], town=["x", "y"]))


@pytest.mark.slow
def test_a_teacher_that_knows_columns_by_name_is_given_a_frame() -> None:
    frame, y = pd.DataFrame(X, columns=["a", "b"]), X[:, 0]
    teacher = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), Ridge()).fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bp.distil(teacher, frame, student=bp.BayesianSparseRegressor(**SHORT), rows=200)
    assert found.agreement > 0.9 and list(found.student.feature_names_in_) == ["a", "b"]


@pytest.mark.parametrize("kind", [Decimal, Fraction])
def test_exact_numbers_of_python_are_numbers(kind: type) -> None:
    """As databases give prices. Read as texts each was a category, and a price between two of the fit said nothing."""
    whole = of(price=[kind(2 * (row % 8)) for row in range(60)], area=X[:, 0])
    assert not fit_reading(whole, X[:, 1], labels=False, seed=0)[0].kinds.texts
    later = of(price=[kind(3), 5, 7.5, None], area=0.0)
    for table in (whole, whole.assign(town=["x", "y", "z"] * 20), whole.mask(whole.price == 4)):
        reading, found = fit_reading(table, X[:, 1], labels=False, seed=0)
        np.testing.assert_array_equal(found[0], reading.apply(table)[0])
        read = reading.apply(later.assign(town="x")[table.columns])[:, 0]
        np.testing.assert_array_equal(read, [3.0, 5.0, 7.5, np.nanmedian(table.price.astype(float))])
    mixed = of(a=[kind(1), "a"] * 30)
    assert fit_reading(mixed, X[:, 1], labels=False, seed=0)[0].kinds.texts == (0,)


def test_decimals_of_polars_are_numbers() -> None:
    polars = pytest.importorskip("polars")
    frame = frames.of_polars(polars.DataFrame({"price": [Decimal("1.5"), None, Decimal("2.5")]}))
    assert frames.kinds_of(frame) == frames.Kinds()
    np.testing.assert_array_equal(frames.of_kinds(frame, frames.Kinds())[0], [1.5, np.nan, 2.5])


@pytest.mark.parametrize("cell", [[1, 2], np.zeros(2), {"a": 1}, {1}], ids=["list", "array", "dict", "set"])
def test_several_values_a_row_are_refused_with_the_column_and_the_remedy(cell: object) -> None:
    words = r"column 'b' of X holds several values a row .*pd.DataFrame\(X\['b'\].tolist\(\), index=X.index\)"
    frame = of(a=X[:, 0], b=pd.Series([None, *[cell] * 59], dtype=object))
    for estimator in (bp.BayesianSparseRegressor(**SHORT), bp.BayesianFeatureSelector()):
        with pytest.raises(ValueError, match=words):
            estimator.fit(frame, X[:, 1])
    reading, _ = fit_reading(of(a=X[:, 0], b=["x", "y"] * 30), X[:, 1], labels=False, seed=0)
    with pytest.raises(ValueError, match=words):
        reading.apply(frame)


def test_lists_of_polars_are_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="column 'b' of X holds several values a row"):
        frames.kinds_of(frames.of_polars(polars.DataFrame({"b": [[1], [2, 3]]})))


def test_a_frame_without_rows_yet_is_refused() -> None:
    lazy = type("LazyFrame", (), {})  # as polars has it
    with pytest.raises(TypeError, match=r"^X is a LazyFrame, .*: give them, X.collect\(\)\.$"):
        frames.of_polars(lazy())


def test_lists_of_arrow_are_refused() -> None:
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="column 'b' of X holds several values a row"):
        frames.kinds_of(of(b=pd.Series([[1], [2, 3]], dtype=pd.ArrowDtype(arrow.list_(arrow.int64())))))


@pytest.mark.parametrize("names", [[0, 1], [2020.5, 2021.5], [("a", 1), ("a", 2)], pd.date_range("2024", periods=2)], ids=str)
def test_columns_whose_names_are_no_texts_are_found_by_them(names: object) -> None:
    """scikit-learn compares texts alone: the others were read by their places, in whatever order they came."""
    frame = pd.DataFrame(X, columns=names)
    known = frames.names_of(frame)
    pd.testing.assert_frame_equal(frames.in_order(frame.iloc[:, ::-1], known), frame)
    assert frames.in_order(frame, known) is frame
    other = frame.set_axis([frame.columns[0], 7], axis=1)
    with pytest.raises(
        ValueError, match=r"columns of X have other names .*: 7.* not seen then, .* missing now.*X.to_numpy\(\)"
    ):
        frames.in_order(other, known)
    for unnamed in (X, frame.set_axis(["a", "b"], axis=1), frame.iloc[:, :1]):  # scikit-learn speaks of the last two
        assert frames.in_order(unnamed, known) is unnamed
    assert frames.in_order(frame, ()) is frame


@pytest.mark.parametrize("encoded", [False, True], ids=["numbers", "texts"])
def test_an_estimator_reads_columns_by_numbers_that_are_their_names(encoded: bool) -> None:
    frame = pd.DataFrame(X).assign(**{"2": np.where(X[:, 0] > 0, "x", "y")} if encoded else {}).rename(columns={"2": 2})
    model = bp.BayesianSparseRegressor(**SHORT).fit(frame, X[:, 1])
    np.testing.assert_array_equal(model.numbers_of(frame.iloc[:, ::-1]), model.numbers_of(frame))
    with pytest.raises(ValueError, match="columns of X have other names"):
        model.predict(frame.rename(columns={0: 5}))
    with pytest.raises(ValueError, match="features"):
        model.predict(frame.iloc[:, 1:])


def test_whole_numbers_that_float64_cannot_tell_apart_are_refused() -> None:
    numbers, small = 2**60 + np.arange(40), np.arange(40)
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=20, num_samples=5, random_state=0)
    for values, name in ((numbers[:, None], "X"), (numbers.tolist(), "X"), (pd.DataFrame({"id": numbers}), "column 'id' of X")):
        with pytest.raises(ValueError, match=f"^{name} holds whole numbers up to 1152921504606847015 that vary by 11.5, and"):
            model.fit(np.reshape(values, (40, 1)).tolist() if isinstance(values, list) else values, small)
    for y in (numbers, numbers.tolist(), pd.Series(numbers), np.stack([numbers, small], axis=1)):
        with pytest.raises(ValueError, match=r"^y holds whole numbers up to"):
            model.fit(small[:, None], y)
    frames.check_digits(2**60 + 10**9 * np.arange(40), "y")
    frames.check_digits(np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]), "y")
    frames.check_digits(np.full(3, 2**60), "y")
