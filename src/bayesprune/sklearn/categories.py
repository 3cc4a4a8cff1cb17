"""Columns of texts as numbers: which categories have a column of their own, and warnings about the rest."""

import warnings

from sklearn.preprocessing import OneHotEncoder

from bayesprune.core.given import GivenColumn
from bayesprune.sklearn.frames import MOST
from bayesprune.sklearn.levels import GAP, LevelMeans

LEAST_ROWS = 5  # of a category that is told apart by a column of its own
LEAST_OF_NAMES = 3  # of a text that is more than one row's name


def zeros_and_ones() -> OneHotEncoder:
    """A column for each common category, one for the rare ones together and for those that come later."""
    return OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=LEAST_ROWS, drop="if_binary", sparse_output=False)


def warn_of_names(name: object, column: GivenColumn) -> None:
    """Warn of texts that hardly any rows share: nothing is learnt from them, nor from dates among them."""
    counts = column.value_counts()
    names = counts[counts < LEAST_OF_NAMES]
    if len(names) > MOST and names.sum() > len(column) / 2:
        warnings.warn(
            f"column {name!r} of X has texts in {names.sum()} of its {len(column)} rows that fewer than {LEAST_OF_NAMES} rows "
            "share, and next to nothing can be learnt from such: leave it out, or give what it says as columns of their own; "
            "dates by pd.to_datetime.",
            stacklevel=2,
        )


def are_read_by_means(column: GivenColumn) -> bool:
    """Whether what y is at each category is read: there are more than 20 that five rows have, or most rows have rarer ones."""
    counts = column.value_counts(dropna=False)
    rare = counts[counts < LEAST_ROWS]
    return bool(len(counts) - len(rare) > MOST or (len(rare) > MOST and rare.sum() > len(column) / 2))


def warn_of_strangers(name: object, column: GivenColumn, fitted: OneHotEncoder | LevelMeans) -> None:
    """Warn of a column none of whose texts was in the fit: more likely than new, they are written in another way."""
    if isinstance(fitted, LevelMeans):
        known, told_apart = fitted.levels_[fitted.levels_ != GAP], fitted.shared_
    else:
        known, rare = fitted.categories_[0], fitted.infrequent_categories_[0]
        told_apart = len(known) - (0 if rare is None else len(rare))
    if told_apart < 2 or len(column) < LEAST_ROWS or not column.notna().any() or column.isin(known).any():
        return
    then, now = (
        ", ".join(repr(value) for value in sorted(map(str, values))[:3]) for values in (known, column.dropna().unique())
    )
    warnings.warn(
        f"no value of column {name!r} of X was there when it was fitted ({then} then, {now} now), so that they say nothing: "
        f"give the column as it was written, as by dtype={{{name!r}: str}} of pd.read_csv.",
        stacklevel=5,
    )
