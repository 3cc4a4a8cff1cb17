"""Dates of a frame's column as numbers: days, and what comes back, the month, the day of the week and the hour."""

from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator, TransformerMixin

from bayesprune.core.given import GivenColumn, GivenFrame, GivenTable
from bayesprune.data.tables.columns import a_date
from bayesprune.sklearn.clocks import Clock, as_offset, clock_of, on_clock

HELD = ("date", "datetime", "datetime64")  # as pandas infers objects
NO_DATES = ("period", "timedelta", "timedelta64")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FIRST_YEAR, LAST_YEAR = 1800, 2200  # of a month that is written alone
_FIRST = 3  # 1970-01-01, the day 0, was a Thursday


def kind_of(column: GivenColumn) -> str:
    """What pandas infers of a column's values, whatever its dtype."""
    from pandas.api import types

    return str(types.infer_dtype(column.dropna().astype(object)))


def dates_of(frame: GivenFrame) -> tuple[int, ...]:
    """Places of columns that hold dates, as such or written with the year first.

    Raises `ValueError` for dates that are written otherwise, and for spans of time.
    """
    from pandas.api import types

    places = (place for place, kind in enumerate(frame.dtypes) if not types.is_numeric_dtype(kind))
    return tuple(place for place in places if _holds_dates(frame.columns[place], frame.iloc[:, place]))


def _holds_dates(name: object, column: GivenColumn) -> bool:
    if _is_of_moments(column):  # gaps alone, too
        return True
    kind = kind_of(column)
    if kind in NO_DATES:
        raise ValueError(
            f"column {name!r} of X holds spans of time ({kind}): make numbers of them, as by dt.total_seconds(), or "
            "dates, as by dt.to_timestamp()."
        )
    if kind in HELD:
        return True
    texts = [str(text) for text in column.dropna().unique()]
    written = a_date(texts)
    if written and not written[:4].isdigit():
        raise ValueError(
            f"column {name!r} of X holds dates such as {written!r}, of which nobody knows whether day or month comes "
            f"first: make dates of them, as by pd.to_datetime(X[{name!r}], dayfirst=True)."
        )
    return bool(written) and not _are_numbers_of_parts(texts)


def _are_numbers_of_parts(texts: list[str]) -> bool:
    """Whether what looks like a year and a month, such as 1000-01, has years that are unlikely."""
    months = [text for text in texts if len(text) == len("2024-03")]
    return any(not FIRST_YEAR <= int(text[:4]) <= LAST_YEAR for text in months if text[:4].isdigit())


def _is_of_moments(column: GivenColumn) -> bool:
    from pandas.api import types

    return bool(types.is_datetime64_any_dtype(column.dtype))


_OFFSET = r"(:\d{2}(?:\.\d+)?) ?(Z|UTC|[+-]\d{2}(?::?\d{2})?)$"  # of a time from that of Greenwich


def fit_clock(name: object, column: GivenColumn) -> Clock:
    """The clock of a column of the fit, which `as_days` reads later ones by."""
    return clock_of(name, *_moments(name, column))


def as_days(name: object, column: GivenColumn, clock: Clock) -> Float64[np.ndarray, " rows"]:
    """Days since 1970 began, with their fractions, NaN for gaps; by the hours that the clock of the fit shows."""
    shown = on_clock(name, *_moments(name, column), clock)
    since = shown.to_numpy().astype("datetime64[us]") - np.datetime64(0, "us")  # in nanoseconds 9999 is out of bounds
    return np.where(np.isnat(since), np.nan, since / np.timedelta64(1, "D"))


def _moments(name: object, column: GivenColumn) -> tuple[Any, Any]:
    """A column as moments of pandas, with its zone if it has one, and the offset that is written beside each time, or ""."""
    import pandas as pd

    kind, moments = "datetime64" if _is_of_moments(column) else kind_of(column), column
    written = pd.Series("", index=column.index, dtype=object)
    if kind not in (*HELD, "string", "empty"):  # of numbers pandas would make moments, too
        raise _no_date(name, f"{kind} values")
    if not _is_of_moments(column):
        values = column.astype(object)
        try:
            read = values
            if kind == "string":
                known = values.where(~values.isin(["now", "today"]))  # of which pandas makes another day every day
                read = known.str.replace(_OFFSET, r"\1", regex=True)
                written = values.str.extract(_OFFSET)[1].fillna("").astype(object).map(as_offset)
            moments = pd.to_datetime(read, errors="coerce", **({} if kind in HELD else {"format": "ISO8601"}))
        except ValueError as error:  # of several zones
            raise _no_date(name, str(error)) from None
        if (odd := (moments.isna() & values.notna()).to_numpy()).any():
            raise _no_date(name, repr(values[odd].iloc[0]))
    return moments, written


def _no_date(name: object, what: str) -> ValueError:
    return ValueError(
        f"column {name!r} of X is one of dates, and holds what is none, {what}: leave that empty, which makes a gap, or make "
        f"dates of all by pd.to_datetime(X[{name!r}], ...)."
    )


class DateParts(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Days of one column, (rows, 1), as numbers: the days, and of month, hour and weekday what is not the same in all rows.

    Month and hour are numbers, 1 to 12 and 0 to 24; a weekday is one column of zeros and ones for each that there is. Gaps are
    filled by each part's median, and where there are some in the fit a column of zeros and ones says where.

    X: a frame, as a `ColumnTransformer` gives it, or an array.

    >>> days = np.array([["2024-03-01"], ["2024-03-02"], ["2024-04-05"]], "datetime64[D]").astype(float)
    >>> parts = DateParts().fit(days)
    >>> parts.transform(days).tolist()
    [[19783.0, 3.0, 1.0, 0.0], [19784.0, 3.0, 0.0, 1.0], [19818.0, 4.0, 1.0, 0.0]]
    >>> parts.get_feature_names_out(["day"]).tolist()
    ['day (days)', 'day (month)', 'day (Friday)', 'day (Saturday)']
    """

    def fit(self, X: GivenTable, y: object = None) -> "DateParts":
        days = np.asarray(X, np.float64)[:, 0]
        known = days[~np.isnan(days)]
        self.fill_ = {name: float(np.median(part)) for name, part in _parts(known).items() if len(np.unique(part)) > 1}
        self.fill_ = self.fill_ or {"days": float(np.median(known)) if len(known) else 0.0}
        self.gaps_, self.n_features_in_ = len(known) < len(days), 1
        return self

    def transform(self, X: GivenTable) -> Float64[np.ndarray, "rows parts"]:
        days = np.asarray(X, np.float64)[:, 0]
        gaps = np.isnan(days)
        parts = _parts(np.where(gaps, 0.0, days))
        columns = [np.where(gaps, fill, parts[name]) for name, fill in self.fill_.items()]
        return np.stack([*columns, *([gaps.astype(np.float64)] if self.gaps_ else [])], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        return np.array(
            [f"{np.ravel(input_features)[0]} ({name})" for name in (*self.fill_, *["no date"] * self.gaps_)], object
        )

    @property
    def implied(self) -> list[int]:
        """Places of parts that the others imply: of the weekdays one."""
        return [place for place, name in enumerate(self.fill_) if name in WEEKDAYS][:1]


def _parts(days: Float64[np.ndarray, " rows"]) -> dict[str, Float64[np.ndarray, " rows"]]:
    whole = np.floor(days)
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    weekday = (whole + _FIRST) % 7
    parts = {"days": days, "month": months % 12 + 1.0, "hour": np.round(24 * (days - whole), 6)}  # a day's fraction is rounded
    return parts | {name: (weekday == number).astype(np.float64) for number, name in enumerate(WEEKDAYS)}
