"""What the columns of a pandas frame hold: numbers, texts, gaps; dates are refused."""

import importlib.util
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from bayesprune.data.tables.texts import a_date

MOST = 20  # categories of a column that are told apart one by one
_OF_DATES = "give what of them matters as numbers or texts, such as the year, the month's name, or days since the first."
DATES = ("date", "datetime", "datetime64", "period", "timedelta", "timedelta64")  # as pandas infers objects


def is_frame(X: Any) -> bool:
    """Of pandas, as those of polars become by `of_polars`; other libraries' frames are read as arrays."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def of_polars(X: Any) -> Any:
    """A frame of polars as one of pandas, numbers as they are with NaN for nulls; all else as it is."""
    if not hasattr(X, "get_column") or importlib.util.find_spec("pandas") is None:
        return X
    import pandas as pd

    columns = {name: X.get_column(name) for name in X.columns}
    return pd.DataFrame({n: c.to_numpy() if c.dtype.is_numeric() else c.to_list() for n, c in columns.items()})


def check_frame(X: Any) -> None:
    """Refuse dates, and of a frame names that are not each column's own."""
    if not is_frame(X):
        if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
            raise ValueError(f"X holds dates ({X.dtype}): {_OF_DATES}")
        return
    if not X.columns.is_unique:
        name = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"several columns of X have the name {name!r}: rename them, or leave out all but one.")
    _refuse_dates(X)


def _refuse_dates(frame: Any) -> None:
    """What of them matters, nobody can know."""
    from pandas.api import types

    for place, kind in enumerate(frame.dtypes):
        if types.is_numeric_dtype(kind):
            continue
        found = types.infer_dtype(frame.iloc[:, place], skipna=True)
        if found in DATES:
            _of_dates(frame.columns[place], found if str(kind) == "object" else str(kind))


def _of_dates(name: object, what: str) -> None:
    raise ValueError(f"column {name!r} of X holds dates ({what}): {_OF_DATES}")


def texts_of(frame: Any) -> tuple[int, ...]:
    """Places of columns that are no numbers, whatever their dtype."""
    from pandas.api import types

    return tuple(place for place, kind in enumerate(frame.infer_objects().dtypes) if not types.is_numeric_dtype(kind))


def of_kinds(X: Any, texts: tuple[int, ...]) -> Any:
    """Numbers as float64 with NaN for gaps, all else as texts with NaN for gaps; the same category whatever type writes it."""
    if not is_frame(X):
        return X
    import pandas as pd

    columns = [X.iloc[:, place] for place in range(X.shape[1])]
    read = [_category(c) if place in texts else _floats(X.columns[place], c) for place, c in enumerate(columns)]
    return pd.DataFrame(dict(enumerate(read)), index=X.index)


def _floats(name: object, column: Any) -> Float64[np.ndarray, " rows"]:
    try:
        return column.to_numpy(np.float64, na_value=np.nan)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} of X held numbers when it was fitted, and holds others now ({error}): make numbers of it, as by "
            f"pd.to_numeric(X[{name!r}], errors='coerce'), which leaves gaps."
        ) from None


def check_texts(name: object, column: Any) -> None:
    """Refuse written dates; warn where most texts are written numbers: one that is not makes texts of all in a file."""
    import pandas as pd

    written = column.dropna()
    if odd := a_date([str(text) for text in written.unique()]):
        _of_dates(name, f"such as {odd!r}")
    numbers = int(pd.to_numeric(written, errors="coerce").notna().sum())
    if written.nunique() > MOST and numbers > len(written) / 2:
        warnings.warn(
            f"column {name!r} of X is read as texts, and {numbers} of its {len(written)} are written numbers: make numbers of "
            f"it, as by pd.to_numeric(X[{name!r}], errors='coerce'), unless they are names.",
            stacklevel=2,
        )


def _category(column: Any) -> Shaped[np.ndarray, " rows"]:
    missing = column.isna().to_numpy()
    found = np.array([_written(value) for value in column.to_numpy(object)], object)
    found[missing] = np.nan
    return found


def _written(value: object) -> str:
    """The same for 3, 3.0 and "3"; others for others, to the last digit."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
