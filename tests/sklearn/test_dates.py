"""Dates in frames: read as days, month, weekday and hour however they are held; what leaves them open is refused."""

import datetime
import warnings
from pathlib import Path

import dateutil.tz
import numpy as np
import pandas as pd
import pytest

import bayesprune as bp
from bayesprune.sklearn import saving
from bayesprune.sklearn.frames import of_polars
from bayesprune.sklearn.reading import Reading, fit_reading, is_encoded

MOMENTS = pd.Timestamp("2023-11-05 00:30") + pd.to_timedelta(np.random.default_rng(0).integers(0, 900 * 24, 60), unit="h")
SHORT = {"hidden": (), "num_steps": 300, "num_samples": 10, "random_state": 0}
HELD = {
    "datetime64": MOMENTS,
    "texts": MOMENTS.astype(str),
    "texts with a zone": [f"{moment.isoformat()}Z" for moment in MOMENTS],
    "slashes": MOMENTS.strftime("%Y/%m/%d %H:%M"),
    "a zone": MOMENTS.tz_localize("Asia/Tokyo"),
    "objects": pd.Series(list(MOMENTS.to_pydatetime()), dtype=object),
    "categories": pd.Categorical(MOMENTS),
    "categories of texts": pd.Categorical(MOMENTS.astype(str)),
}


def read(days: object, y: np.ndarray | None = None) -> tuple[Reading, np.ndarray]:
    frame = pd.DataFrame({"day": days})
    return fit_reading(frame, np.arange(float(len(frame))) if y is None else y, labels=False, seed=0)


@pytest.mark.parametrize("held", HELD)
def test_parts_are_those_of_pandas_however_dates_are_held(held: str) -> None:
    reading, found = read(HELD[held])
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    assert list(reading.names) == [f"day ({part})" for part in ("days", "month", "hour", *names)]
    series = pd.Series(MOMENTS)
    np.testing.assert_allclose(found[:, 0], [moment.timestamp() / 86400 for moment in MOMENTS], rtol=1e-12)
    np.testing.assert_array_equal(found[:, 1], series.dt.month)
    np.testing.assert_allclose(found[:, 2], series.dt.hour + 0.5, atol=1e-6)
    np.testing.assert_array_equal(found[:, 3:], np.eye(7)[series.dt.weekday])
    assert set(reading.owner) == {0} and reading.free.tolist() == [True] * 3 + [False] + [True] * 6


def test_only_what_varies_is_a_number() -> None:
    assert read([datetime.date(2024, 3, day) for day in (4, 11, 18)] * 4)[0].names == ("day (days)",)
    same, found = read(["2024-03-04"] * 12)
    assert same.names == ("day (days)",) and len(np.unique(found)) == 1


def test_the_same_hour_of_every_day_is_no_number() -> None:
    """7/24 of a day is rounded, to another number where the days are more than 16,384."""
    reading, _ = read(pd.date_range("2010-01-01 07:00", periods=3000))
    assert "day (hour)" not in reading.names and len(reading.names) == 9


def test_hours_are_those_that_are_written() -> None:
    """A file of a frame with a zone holds two offsets, of summer and of winter: each row's hour is its own."""
    here = pd.date_range("2024-01-01 00:30", periods=60, freq="5D", tz="Europe/Berlin")
    written = pd.Series(here).astype(str)
    assert written.str[-6:].nunique() == 2
    np.testing.assert_array_equal(read(written)[1], read(here)[1])
    np.testing.assert_array_equal(read(written.str.replace(" ", "T"))[1], read(here)[1])


def test_moments_that_are_all_missing_are_dates_to_come() -> None:
    reading, _ = read(pd.Series([pd.NaT] * 12, dtype="datetime64[ns]"))
    assert reading.kinds.dates == (0,) and np.isfinite(reading.apply(pd.DataFrame({"day": MOMENTS}))).all()


def test_ends_of_time_and_numbers_of_parts() -> None:
    _, found = read(["2024-03-04"] * 6 + ["9999-12-31"] * 2)
    assert found[-1, 0] == (datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days
    frame = pd.DataFrame({"part": [f"{1000 + 100 * i}-{1 + i % 12:02d}" for i in range(40)]})
    reading, _ = fit_reading(frame, np.arange(40.0), labels=False, seed=0)
    assert reading.kinds.texts == (0,) and not reading.kinds.dates
    assert read([f"20{i % 30:02d}-{1 + i % 12:02d}" for i in range(60)])[0].kinds.dates == (0,)


def test_before_1970_and_far_ahead() -> None:
    days = pd.to_datetime(["1969-12-31 23:00", "1900-02-28 06:00", "2199-12-31 12:00"] * 4)
    reading, found = read(days)
    at = {name: place for place, name in enumerate(reading.names)}
    np.testing.assert_array_equal(found[:3, at["day (month)"]], [12, 2, 12])
    np.testing.assert_allclose(found[:3, at["day (hour)"]], [23, 6, 12], atol=1e-6)
    np.testing.assert_array_equal(found[:3, at["day (Wednesday)"]], [1, 1, 0])  # the last one is a Tuesday


def test_gaps_are_filled_and_marked() -> None:
    days = pd.Series(MOMENTS)
    days[[3, 8]] = pd.NaT
    reading, found = read(days)
    assert reading.names[-1] == "day (no date)"
    np.testing.assert_array_equal(found[:, -1], days.isna())
    known = np.delete(found, [3, 8], axis=0)
    np.testing.assert_allclose(found[3, :3], np.median(known[:, :3], axis=0))
    later = reading.apply(pd.DataFrame({"day": [None, "2024-01-01"]}))
    np.testing.assert_array_equal(later[0], found[3])
    assert later[1, -1] == 0
    whole, _ = read(MOMENTS)
    assert np.isfinite(whole.apply(pd.DataFrame({"day": [pd.NaT]}))).all()


@pytest.mark.parametrize(
    ("days", "match"),
    [
        (pd.period_range("2020-01", periods=60, freq="M"), r"spans of time \(period\).*dt.to_timestamp"),
        (pd.to_timedelta(range(60), unit="D"), r"spans of time \(timedelta\).*dt.total_seconds"),
        (pd.Series(MOMENTS).dt.strftime("%d.%m.%Y"), r"day or month comes first: make dates of them, .*dayfirst=True"),
        ([*pd.Series(MOMENTS).astype(str)[:59], "soon"], "holds what is none, 'soon': leave that empty"),
        ([*pd.Series(MOMENTS).astype(str)[:59], "2024-02-30"], "holds what is none, '2024-02-30': leave that empty"),
    ],
    ids=["periods", "timedeltas", "day first", "a text", "no day"],
)
def test_what_is_no_date_is_refused_with_the_remedy(days: object, match: str) -> None:
    frame = pd.DataFrame({"day": days, "area": np.arange(60.0)})
    with pytest.raises(ValueError, match=f"column 'day' of X .*{match}"):
        bp.BayesianSparseRegressor(**SHORT).fit(frame, np.arange(60.0))


@pytest.mark.parametrize(
    "later", [[20000.0], ["soon"], [pd.Timedelta(days=1)], ["2024-02-30"]], ids=["numbers", "texts", "spans", "no day"]
)
def test_later_rows_must_hold_dates_too(later: list[object]) -> None:
    reading, _ = read(MOMENTS)
    with pytest.raises(ValueError, match=r"column 'day' of X is one of dates, and holds what is none"):
        reading.apply(pd.DataFrame({"day": later}))


@pytest.mark.parametrize("first", [["a", "b"] * 30, np.arange(60.0)], ids=["texts", "numbers"])
@pytest.mark.parametrize("later", [pd.Timestamp("2024-01-01"), pd.Timedelta(days=1)], ids=["dates", "spans"])
def test_what_held_none_is_refused_when_it_does(first: object, later: object) -> None:
    """Texts would be another category without a word, and moments are whole numbers to NumPy."""
    model = bp.BayesianSparseRegressor(**SHORT).fit(pd.DataFrame({"a": first, "b": np.arange(60.0)}), np.arange(60.0))
    with pytest.raises(ValueError, match=r"column 'a' of X holds dates .*, and held none when it was fitted"):
        model.predict(pd.DataFrame({"a": [later], "b": [1.0]}))


UTC = pd.date_range("2024-03-25", periods=240, freq="h", tz="UTC")  # in these days Berlin's clocks go forward
TOKYO, BERLIN = UTC.tz_convert("Asia/Tokyo"), UTC.tz_convert("Europe/Berlin")
SAME = {
    "another zone": TOKYO,
    "texts with an offset": TOKYO.astype(str),
    "offsets of hours": [text[:-3] for text in TOKYO.astype(str)],
    "texts with a letter": [moment.isoformat().replace("+00:00", "Z") for moment in UTC],
    "several offsets": BERLIN.astype(str),
    "objects": pd.Series(list(TOKYO.to_pydatetime()), dtype=object),
    "a nameless zone": UTC.tz_convert(datetime.timezone(datetime.timedelta(hours=9), "CET")),
}


@pytest.mark.parametrize("later", SAME)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", datetime.timezone(datetime.timedelta(hours=-3), "CET")], ids=str)
def test_the_same_moments_are_the_same_numbers_in_whatever_zone_they_come(zone: object, later: str) -> None:
    reading, found = read(UTC.tz_convert(zone))
    np.testing.assert_allclose(found[:, reading.names.index("day (hour)")], UTC.tz_convert(zone).hour, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(reading.apply(pd.DataFrame({"day": SAME[later]})), found)


def test_the_zone_of_polars_is_one() -> None:
    polars = pytest.importorskip("polars")
    reading, found = read(UTC)
    theirs = polars.Series("day", list(UTC.to_pydatetime())).dt.convert_time_zone("Asia/Tokyo").to_frame()
    np.testing.assert_array_equal(reading.apply(of_polars(theirs)), found)


@pytest.mark.parametrize(
    ("first", "later", "words"),
    [
        (UTC, UTC.tz_localize(None), r"had the zone UTC .* without one now: .*tz_localize\('UTC'\)"),
        (UTC, [*TOKYO.astype(str)[:239], "2024-04-03 23:00:00"], r"had the zone UTC .* without one now"),
        (UTC.astype(str), TOKYO.astype(str), r"other offsets from Greenwich \(\+09:00\) than .* \(\+00:00\).*tz_convert"),
        (UTC.astype(str), TOKYO, r"other offsets from Greenwich \(\+09:00\) than .* \(\+00:00\)"),
        (UTC.astype(str), UTC.tz_localize(None), r"other offsets from Greenwich \(none\) than .* \(\+00:00\)"),
        (UTC.tz_localize(None), BERLIN, r"other offsets from Greenwich \(\+01:00, \+02:00\) than .* \(none\)"),
        (BERLIN.astype(str), UTC, r"other offsets from Greenwich \(\+00:00\) than .* \(\+01:00, \+02:00\)"),
    ],
)
def test_where_no_zone_says_which_moments_are_meant_it_is_warned_of(first: object, later: object, words: str) -> None:
    reading, _ = read(first)
    with pytest.warns(UserWarning, match=words):
        reading.apply(pd.DataFrame({"day": later}))


@pytest.mark.parametrize("held", [BERLIN.astype(str), UTC.tz_localize(None), UTC.astype(str)], ids=["two", "none", "one"])
def test_the_offsets_of_the_fit_are_nothing_to_speak_of(held: pd.Index) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reading, found = read(held)
        np.testing.assert_array_equal(reading.apply(pd.DataFrame({"day": held[:9]})), found[:9])


def test_a_clock_survives_a_file(tmp_path: Path) -> None:
    pytest.importorskip("skops")
    reading, found = read(UTC)
    saving.save(reading, tmp_path / "reading")
    np.testing.assert_array_equal(saving.load(tmp_path / "reading").apply(pd.DataFrame({"day": TOKYO})), found)


def test_hours_without_a_zone_are_those_of_the_fit_s() -> None:
    """Berlin's, an hour or two ahead of Greenwich, alone and among times of another zone."""
    berlin = UTC.tz_convert("Europe/Berlin")
    reading, found = read(berlin)
    bare = berlin.tz_localize(None).astype(str)
    for later in (bare, [*bare[:100], *TOKYO[100:].astype(str)]):
        with pytest.warns(UserWarning, match="had the zone Europe/Berlin"):
            np.testing.assert_array_equal(reading.apply(pd.DataFrame({"day": later})), found)


def test_a_zone_of_dateutil_s_is_known_by_its_file() -> None:
    reading, found = read(UTC.tz_convert(dateutil.tz.gettz("Europe/Berlin")))
    np.testing.assert_array_equal(found, read(UTC.tz_convert("Europe/Berlin"))[1])
    np.testing.assert_array_equal(reading.apply(pd.DataFrame({"day": TOKYO})), found)


def test_a_zone_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"column 'day' of X has a zone that is known by no name, .*tz_convert\('UTC'\)"):
        read(UTC.tz_convert(dateutil.tz.tzstr("EST5EDT")))


@pytest.mark.slow
def test_a_weekday_is_learned_and_explained_as_one_column() -> None:
    """Sundays are dear: found by one part of the date, and credited to the date."""
    rng = np.random.default_rng(1)
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, 400), unit="D")
    frame = pd.DataFrame({"day": days, "noise": rng.standard_normal(400)})
    y = 3.0 * (frame.day.dt.weekday == 6).to_numpy() + 0.1 * rng.standard_normal(400)
    assert is_encoded(frame)
    model = bp.BayesianSparseRegressor(random_state=0, num_steps=2000, num_samples=20).fit(frame[:300], y[:300])
    assert model.score(frame[300:], y[300:]) > 0.95
    assert model.used_features_.tolist() == [True, False]
    reasons = model.explain(frame[300:304])
    assert reasons.values.shape[1] == 2 and np.abs(reasons.values[:, 0]).sum() > 20 * np.abs(reasons.values[:, 1]).sum()
    written = frame.assign(day=frame.day.astype(str))
    np.testing.assert_array_equal(model.predict(written[300:]), model.predict(frame[300:]))


@pytest.mark.parametrize("word", ["now", "today"])
def test_words_that_mean_another_day_every_day_are_no_dates(word: str) -> None:
    frame = pd.DataFrame({"day": HELD["texts"], "size": np.arange(60.0)})
    reading, _ = fit_reading(frame, np.arange(60.0), labels=False, seed=0)
    with pytest.raises(ValueError, match=f"column 'day' of X is one of dates, and holds what is none, '{word}'"):
        reading.apply(pd.DataFrame({"day": [word, "2024-03-01"], "size": [1.0, 2.0]}))
