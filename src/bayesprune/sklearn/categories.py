"""Columns of texts as numbers: which categories have a number of their own, how it is computed, and warnings about the rest."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.utils.fixes import parse_version

import sklearn
from bayesprune.core.given import GivenColumn, GivenFrame
from bayesprune.sklearn.frames import MOST

LEAST_ROWS = 5  # of a category that is told apart by a column of its own
LEAST_OF_MEANS = 3  # of one that is told apart by its mean target, which in the fit is that of its other rows
RARE = "\0rare"
VERSION, SPLITTERS = parse_version(sklearn.__version__), parse_version("1.9")  # from which on folds of targets are a splitter's


def zeros_and_ones() -> OneHotEncoder:
    """A column for each common category, one for the rare ones together and for those that come later."""
    return OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=LEAST_ROWS, drop="if_binary", sparse_output=False)


def means(labels: bool, seed: int) -> Pipeline:
    """The cross-fitted mean target of each common category, and of the rare ones together; ``labels``: whether of classes."""
    kind = "auto" if labels else "continuous"
    if VERSION < SPLITTERS:
        encoder = TargetEncoder(target_type=kind, random_state=seed)
    else:
        encoder = TargetEncoder(target_type=kind, cv=(StratifiedKFold if labels else KFold)(5, shuffle=True, random_state=seed))
    return make_pipeline(CommonCategories(), encoder)


def warn_of_names(name: object, column: GivenColumn) -> None:
    """Warn of texts that few rows share: nothing is learnt from them, nor from dates among them."""
    common = common_in(column)
    rare = ~column.isin(common.values) & column.notna()
    if column[rare].nunique() > MOST and rare.sum() > len(column) / 2:
        warnings.warn(
            f"column {name!r} of X has texts in {rare.sum()} of its {len(column)} rows that fewer than {common.least} rows "
            "share, and all of them are read as one: leave it out, or give what it says as columns of their own; dates by "
            "pd.to_datetime.",
            stacklevel=2,
        )


def forget_few(fitted: OneHotEncoder | Pipeline) -> None:
    """Give the rare categories the mean of all targets where fewer than five rows have one: theirs is of hardly any rows.

    Every later unknown text counts as rare, and would be predicted as those few rows were.
    """
    if not isinstance(fitted, Pipeline) or fitted[0].rare_rows_[0] >= LEAST_ROWS:
        return
    encoder = fitted[1]
    is_rare = encoder.categories_[0] == RARE
    for encoding, mean in zip(encoder.encodings_, np.atleast_1d(encoder.target_mean_), strict=True):
        encoding[is_rare] = mean


class Common(NamedTuple):
    """The categories of a column, gaps too, that ``least`` rows have; ``by_means``: so many that their means are read."""

    values: Any
    least: int
    by_means: bool


def common_in(column: GivenColumn) -> Common:
    """The categories that are kept apart: of more than 20 that five rows have, all that three have, by their means."""
    counts = column.value_counts(dropna=False)
    by_means = bool((counts >= LEAST_ROWS).sum() > MOST)
    least = LEAST_OF_MEANS if by_means else LEAST_ROWS
    return Common(counts.index[counts >= least], least, by_means)


class CommonCategories(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Replaces all rare categories, and later unknown ones, by one.

    The mean target of a category of one row is that row's target, but in cross-fitting it is the mean of other rows. Of a
    column of names, one for each row, the network would be trained on the one and predict by the other.
    """

    def fit(self, X: GivenFrame, y: object = None) -> "CommonCategories":
        self.n_features_in_ = X.shape[1]
        # Arrays of objects, for skops writes no index and no column of pandas'.
        self.common_ = [np.asarray(common_in(X.iloc[:, place]).values, object) for place in range(X.shape[1])]
        self.rare_rows_ = [int((~X.iloc[:, place].isin(self.common_[place])).sum()) for place in range(X.shape[1])]
        self.seen_ = [np.asarray(X.iloc[:, place].unique(), object) for place in range(X.shape[1])]
        return self

    def transform(self, X: GivenFrame) -> Any:
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
        kept = [column.where(column.isin(common), RARE) for column, common in zip(columns, self.common_, strict=True)]
        return np.column_stack([column.to_numpy(object) for column in kept])


def warn_of_strangers(name: object, column: GivenColumn, fitted: OneHotEncoder | Pipeline) -> None:
    """Warn of a column none of whose texts was in the fit: more likely than new, they are written in another way."""
    if isinstance(fitted, Pipeline):
        known, told_apart = fitted[0].seen_[0], len(fitted[0].common_[0])
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
