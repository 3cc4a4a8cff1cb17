"""What the columns of a pandas frame hold: numbers, texts, dates, gaps."""

import importlib.util
import warnings
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from jaxtyping import Float64, Shaped

from bayesprune.core.given import GivenColumn, GivenFrame
from bayesprune.data.tables.columns import beside_a_number
from bayesprune.data.tables.reading import are_codes
from bayesprune.sklearn.clocks import Clock
from bayesprune.sklearn.dates import HELD, NO_DATES, as_days, dates_of, fit_clock, kind_of

WITH_A_POINT = "write numbers with a point and nothing beside them (pd.read_csv reads decimal commas by decimal=',')"
EXACT, LEAST_DIGITS = 2**53, 1e-3  # above which float64 rounds whole numbers, and by what share of their deviation it may
MOST = 20  # categories of a column that are told apart one by one


def is_frame(X: object) -> TypeGuard[GivenFrame]:
    """Of pandas, as those of polars become by `of_polars`; other libraries' frames are read as arrays."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def of_polars(X: Any) -> Any:
    """A frame of polars as one of pandas, numbers as they are with NaN for nulls; all else as it is.

    Raises `TypeError` for a lazy one, which holds no rows yet.
    """
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, which holds no rows yet: give them, X.collect().")
    if not hasattr(X, "get_column") or importlib.util.find_spec("pandas") is None:
        return X
    import pandas as pd

    columns = {name: X.get_column(name) for name in X.columns}
    return pd.DataFrame({n: c.to_numpy() if c.dtype.is_numeric() else c.to_list() for n, c in columns.items()})


def check_frame(X: object) -> None:
    """Refuse names that are not each column's own, and arrays of dates."""
    if not is_frame(X):
        if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
            raise _dates_in(X.dtype)  # type: ignore[attr-defined]
        return
    if not X.columns.is_unique:
        name = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"several columns of X have the name {name!r}: rename them, or leave out all but one.")


def check_digits(values: Any, name: str) -> None:
    """Refuse whole numbers whose differences float64 leaves out, as it does of 2**60 + 1 and 2**60 + 2; column by column."""
    if is_frame(values):
        for called, column in values.items():
            check_digits(column, f"column {called!r} of {name}")
        return
    try:
        whole = np.asarray(values)
    except (TypeError, ValueError):  # rows of several lengths, which others refuse
        return
    if whole.dtype.kind not in "iu" or not whole.size or max(int(whole.max()), -int(whole.min())) <= EXACT:
        return
    for column in whole.reshape((len(whole), -1)).T:
        largest = max(int(column.max()), -int(column.min()))
        spread = (column - column.min()).astype(np.uint64).std()  # which is the difference where int64 ends, too
        if np.spacing(float(largest)) > LEAST_DIGITS * spread > 0:
            raise ValueError(
                f"{name} holds whole numbers up to {largest} that vary by {spread:.3g}, and float64 cannot tell such numbers "
                "apart: subtract a constant from them, in the fit and in what is predicted."
            )


def check_no_moments(X: object) -> None:
    """Refuse dates of NumPy's in a list, or among objects: as floats they would be days, or nanoseconds, since 1970."""
    try:
        X = np.asarray(X) if isinstance(X, list | tuple) else X
    except (TypeError, ValueError):
        return
    if isinstance(X, np.ndarray) and X.dtype == object:
        X = next((value for value in X.flat if isinstance(value, np.datetime64 | np.timedelta64)), X)
    if isinstance(X, np.ndarray | np.generic) and X.dtype.kind in "mM":
        raise _dates_in(X.dtype)


def _dates_in(dtype: object) -> ValueError:
    return ValueError(f"X holds dates ({dtype}): give them in a pandas DataFrame, whose columns of dates are read.")


def names_of(X: object) -> tuple[str, ...]:
    """Names of a frame's columns that are no texts, such as numbers, as they are written; none of others.

    scikit-learn remembers and compares texts alone.
    """
    if not is_frame(X) or all(isinstance(name, str) for name in X.columns):
        return ()
    return tuple(map(str, X.columns))


def in_order(X: Any, names: tuple[str, ...]) -> Any:
    """A frame's columns as they stood in the fit, by the `names_of` that one; where a name is another `ValueError`.

    Frames whose names are texts, and arrays, are read by their places: scikit-learn warns where one of the two has names.
    """
    now = names_of(X)
    if not now or not names or now == names or len(now) != len(names):  # another number of them scikit-learn refuses
        return X
    if new := [name for name in now if name not in set(names)]:
        gone = [name for name in names if name not in set(now)]
        raise ValueError(
            f"columns of X have other names than when it was fitted: {', '.join(new[:5])} not seen then, {', '.join(gone[:5])} "
            "missing now. Give the same columns, or, where only the names are others, their values alone, X.to_numpy()."
        )
    places = {name: place for place, name in enumerate(now)}
    return X.iloc[:, [places[name] for name in names]]


class Kinds(NamedTuple):
    """Places of a frame's columns that hold texts, or dates; numbers all others. ``clocks``: of the dates, once fitted."""

    texts: tuple[int, ...] = ()
    dates: tuple[int, ...] = ()
    clocks: tuple[Clock, ...] = ()


def kinds_of(frame: GivenFrame) -> Kinds:
    """Of columns whatever their dtype; `ValueError` for spans of time, lists, and dates whose writing leaves them open."""
    from pandas.api import types

    for place, name in enumerate(frame.columns):
        _check_values(name, frame.iloc[:, place])
    dates = dates_of(frame)
    others = [at for at, kind in enumerate(frame.infer_objects().dtypes) if not types.is_numeric_dtype(kind)]
    return Kinds(tuple(at for at in others if at not in dates and not _are_exact_numbers(frame.iloc[:, at])), dates)


def with_clocks(frame: GivenFrame, kinds: Kinds) -> Kinds:
    """The kinds of a frame that is fitted, with the clocks that its dates, and later ones, are read by."""
    return kinds._replace(clocks=tuple(fit_clock(frame.columns[place], frame.iloc[:, place]) for place in kinds.dates))


def _types_in(column: GivenColumn) -> set[type]:
    """Of a column's values, gaps left out, where they may be of any type; of Arrow's columns all have that of the first."""
    if column.dtype == object:
        return set(map(type, column.dropna()))
    return set(map(type, column.dropna()[:1])) if hasattr(column.dtype, "pyarrow_dtype") else set()


def _are_exact_numbers(column: GivenColumn) -> bool:
    """Whether a column holds numbers of Python's that NumPy has no type for, as databases give prices; floats among them."""
    found = _types_in(column)
    return bool(found & {Decimal, Fraction}) and all(issubclass(kind, Real | Decimal) for kind in found)


def _check_values(name: object, column: GivenColumn) -> None:
    """Refuse lists and their like: neither numbers nor texts, and nothing to compare."""
    if several := [kind.__name__ for kind in _types_in(column) if kind.__hash__ is None]:
        raise ValueError(
            f"column {name!r} of X holds several values a row ({several[0]}): give each as a column of its own, as by "
            f"pd.DataFrame(X[{name!r}].tolist(), index=X.index), or what they come to, such as how many they are; or leave the "
            "column out."
        )


def of_kinds(X: object, kinds: Kinds) -> Any:
    """Numbers and days as float64 with NaN for gaps, texts as such with NaN; the same category whatever type writes it."""
    if not is_frame(X):
        return X
    import pandas as pd

    return pd.DataFrame({place: _read(X, place, kinds) for place in range(X.shape[1])}, index=X.index)


def _read(X: GivenFrame, place: int, kinds: Kinds) -> Shaped[np.ndarray, " rows"]:
    name, column = X.columns[place], X.iloc[:, place]
    if place in kinds.dates:
        return as_days(name, column, dict(zip(kinds.dates, kinds.clocks, strict=True))[place])
    _check_values(name, column)
    check_no_dates(name, column)
    return _category(column) if place in kinds.texts else _floats(name, column)


def check_no_dates(name: object, column: GivenColumn) -> None:
    """Refuse what became a column of dates, or of spans of time, after the fit."""
    from pandas.api import types

    if not types.is_numeric_dtype(column.dtype) and (kind := kind_of(column)) in (*HELD, *NO_DATES):
        raise ValueError(
            f"column {name!r} of X holds dates ({kind}), and held none when it was fitted: give what it held then, or fit to "
            "such a frame."
        )


def _floats(name: object, column: GivenColumn) -> Float64[np.ndarray, " rows"]:
    if column.dtype.kind == "c":
        raise ValueError(f"column {name!r} of X holds complex numbers: give their real and imaginary parts as two columns.")
    try:
        return column.to_numpy(np.float64, na_value=np.nan)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        if odd := beside_a_number([value for value in column.dropna().unique() if isinstance(value, str)]):
            raise ValueError(
                f"column {name!r} of X held numbers when it was fitted, and holds texts such as {odd!r} now: {WITH_A_POINT}."
            ) from None
        truths = set(map(str, column.dropna().unique())) <= {"True", "False", "true", "false", "TRUE", "FALSE"}
        how = f"X[{name!r}].astype(str).str.lower() == 'true'" if truths else f"pd.to_numeric(X[{name!r}], errors='coerce')"
        raise ValueError(
            f"column {name!r} of X held numbers when it was fitted, and holds others now ({error}): make numbers of it, as by "
            f"{how}{'' if truths else ', which leaves gaps'}."
        ) from None


def warn_of_numbers(name: object, column: GivenColumn) -> bool:
    """Warn where most texts are written numbers: one that is not makes texts of all in a file.

    Returns whether a comma, a unit or a blank is what keeps them from being numbers.
    """
    import pandas as pd

    written = column.dropna()
    texts = written.unique().tolist()
    if are_codes(texts):
        return False
    if odd := beside_a_number(texts):
        warnings.warn(
            f"column {name!r} of X is read as texts, and would be numbers but for texts such as {odd!r}: {WITH_A_POINT}, "
            "unless they are names.",
            stacklevel=2,
        )
        return True
    numbers = int(pd.to_numeric(written, errors="coerce").notna().sum())
    if written.nunique() > MOST and numbers > len(written) / 2:
        warnings.warn(
            f"column {name!r} of X is read as texts, and {numbers} of its {len(written)} are written numbers: make numbers of "
            f"it, as by pd.to_numeric(X[{name!r}], errors='coerce'), unless they are names.",
            stacklevel=2,
        )
    return False


def _category(column: GivenColumn) -> Shaped[np.ndarray, " rows"]:
    missing = column.isna().to_numpy()
    found = np.array([_written(value) for value in column.to_numpy(object)], object)
    found[missing] = np.nan
    return found


def _written(value: object) -> str:
    """The same for 3, 3.0 and "3"; others for others, to the last digit."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
