"""Tables that are not numbers alone: texts become zeros and ones, dates their parts, gaps are filled, by transformers."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from numpy.typing import ArrayLike
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, check_X_y, validate_data

from bayesprune.core.given import GivenTable
from bayesprune.core.numbers import without_mask
from bayesprune.data.tables.reading import is_declared
from bayesprune.sklearn import frames, levels
from bayesprune.sklearn.dates import DateParts
from bayesprune.sklearn.frames import Kinds, is_frame
from bayesprune.sklearn.levels import LevelMeans
from sklearn import config_context

NUMBERS, NAMES = "numbers", "names"  # of a part of the encoder, and of one for each column of them, before its place
FLOATS = (np.float64, np.float32)  # of inputs that are fitted: whether a column is constant depends on its rounding


class TwoCategories(NamedTuple):
    """A column of texts at ``place`` that is 1 for the second of the ``known`` two, and ``share``, the mean, for others."""

    place: int
    number: int
    known: tuple[Any, ...]
    share: float


class Reading(NamedTuple):
    """How rows of X become numbers; where they are numbers without gaps, and no codes, they stay as they are.

    ``encoder``: None there. ``columns``: of a frame, else None; ``kinds``: places of those that are no numbers.
    ``owner``: of each number, the column of X it comes of; ``names``: its own. ``free``: False of one category of each column,
    which is where all others are not, and of the first of several classes, whose means add up to 0. ``medians``: of numbers
    without an encoder, for gaps that come later. ``twofold``: of each column of two categories, which is one number.
    """

    encoder: ColumnTransformer | None
    columns: tuple[Any, ...] | None
    kinds: Kinds
    owner: Int64[np.ndarray, " numbers"]
    free: Bool[np.ndarray, " numbers"]
    names: tuple[str, ...]
    medians: Float64[np.ndarray, " numbers"] | None = None
    twofold: tuple[TwoCategories, ...] = ()

    def apply(self, X: Any) -> Any:
        """The numbers, (rows, numbers); where nothing is encoded X itself, floats, its gaps filled."""
        if self.encoder is None:
            return X if self.medians is None or not np.isnan(X).any() else np.where(np.isnan(X), self.medians, X)
        with warnings.catch_warnings(), config_context(transform_output="default"):
            warnings.filterwarnings("ignore", "Found unknown categories")  # they count as rare ones, as the docstring says
            frame = frames.of_kinds(self._framed(X), self.kinds)
            found = self.encoder.transform(frame)
        columns = self.columns or ()  # without a frame there are no texts
        for place in self.kinds.texts:
            levels.warn_of_strangers(columns[place], frame.iloc[:, place], self.encoder.named_transformers_[str(place)])
        for column in self.twofold:
            found[~frame.iloc[:, column.place].isin(column.known).to_numpy(), column.number] = column.share
        return found

    def of_table(self, values: Shaped[np.ndarray, " numbers"], join: np.ufunc) -> Shaped[np.ndarray, " columns"]:
        """One value for each column of X, joined from those of its numbers: all have some."""
        first = np.unique(self.owner, return_index=True)[1]
        joined, others = values[first], np.setdiff1d(np.arange(len(values)), first)
        join.at(joined, self.owner[others], values[others])
        return joined

    def _framed(self, X: object) -> Any:
        """Where a frame was fitted, an array's columns are taken in their order."""
        if self.columns is None or is_frame(X):
            return X
        import pandas as pd

        # Of lists with texts NumPy would make texts of gaps, too.
        rows = np.array(X, object) if isinstance(X, list | tuple) else np.asarray(X)
        return pd.DataFrame(rows, columns=list(self.columns))


def of_numbers(x: Float[np.ndarray, "rows numbers"]) -> Reading:
    """Of columns that are taken as they are."""
    medians = np.median(np.asarray(x, np.float64), axis=0)
    return Reading(None, None, Kinds(), np.arange(x.shape[1]), np.ones(x.shape[1], bool), (), medians)


def is_encoded(X: object) -> bool:
    """Whether rows are to be encoded: a frame with texts, categories, dates or gaps, or an array of floats with gaps."""
    if is_frame(X):
        return any(frames.kinds_of(X)) or bool(X.isna().to_numpy().any())
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and bool(np.isnan(X).any())


def fit_reading(
    X: Any, y: np.ndarray, labels: bool, seed: int, coded: tuple[int, ...] | None = None
) -> tuple[Reading, Shaped[np.ndarray, "rows numbers"]]:
    """How such rows are read, and the numbers of these.

    Numbers: gaps are filled by the median, and a column of zeros and ones says where they were.

    Texts, a gap counting as a category:
      - each category of five rows or more becomes a column of zeros and ones; rarer and later ones share one column;
      - two categories become one column, in which a later one, a gap too, is the mean;
      - a column of more than twenty categories of five rows, or of more than twenty rarer ones that most rows have, becomes
        the mean target of each, shrunk towards that of all, in the fit by other rows than a row's own (`LevelMeans`); later
        categories have that of all.

    Whole numbers are amounts; where they tell y apart as names do, what y is at each stands beside them (`LevelMeans`).

    Dates, as such or as texts with the year first: a number of days, and of month, weekday and hour those that vary
    (`dates.DateParts`), by the clock of the column's time zone, for later rows too.

    ``X``: as of `is_encoded`, or numbers some of which are names; ``y``: (rows,), or (rows, outputs), whose mean is then not
    read. ``labels``: whether of classes. ``coded``: of numbers without gaps, which columns are names, if that is known.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [1.0, None, 3.0] * 5, "town": ["a", "b", "c"] * 5})
    >>> reading, numbers = fit_reading(table, np.arange(15.0), labels=False, seed=0)
    >>> numbers[:3].tolist(), reading.owner.tolist()
    ([[1.0, 0.0, 1.0, 0.0, 0.0], [2.0, 1.0, 0.0, 1.0, 0.0], [3.0, 0.0, 0.0, 0.0, 1.0]], [0, 0, 1, 1, 1])

    """
    y = np.ravel(y) if np.shape(y)[1:] == (1,) else y
    kinds = frames.with_clocks(X, frames.kinds_of(X)) if is_frame(X) else Kinds()
    frame = frames.of_kinds(X, kinds)
    for place in kinds.texts:
        # Declared categories may be written numbers.
        if is_declared(X.iloc[:, place]) or not frames.warn_of_numbers(X.columns[place], frame.iloc[:, place]):
            levels.warn_of_names(X.columns[place], frame.iloc[:, place])
    numbers = [place for place in range(frame.shape[1]) if place not in (*kinds.texts, *kinds.dates)]
    parts: list[tuple[str, Any, list[int]]] = []
    if numbers:
        amounts = frame.iloc[:, numbers].to_numpy(np.float64, na_value=np.nan) if is_frame(X) else frame
        parts.append((NUMBERS, SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), numbers))
        coded = levels.places_of_names(amounts, y, labels, seed) if coded is None else coded
        parts += [(f"{NAMES} {numbers[place]}", LevelMeans(labels, seed), [numbers[place]]) for place in coded]
    can_have_means = np.ndim(y) == 1 and levels.targets_of(y, labels) is not None
    for place in kinds.texts:
        by_means = can_have_means and levels.are_read_by_means(frame.iloc[:, place])
        parts.append((str(place), LevelMeans(labels, seed, texts=True) if by_means else levels.zeros_and_ones(), [place]))
    parts += [(str(place), DateParts(), [place]) for place in kinds.dates]
    encoder = ColumnTransformer(parts, sparse_threshold=0.0)
    with config_context(transform_output="default"):  # whatever is set for all transformers
        found = np.asarray(encoder.fit_transform(frame, y), np.float64)
    owner, free = np.zeros(found.shape[1], np.int64), np.ones(found.shape[1], bool)
    called = [str(name) for name in X.columns] if is_frame(X) else [f"x{place}" for place in range(frame.shape[1])]
    names, twofold = np.empty(found.shape[1], object), []
    for name, fitted, places in encoder.transformers_:
        of = encoder.output_indices_[name]
        names[of] = fitted.get_feature_names_out(np.take(called, places))
        owner[of] = [*places, *np.take(places, fitted.indicator_.features_)] if name == NUMBERS else places[0]
        if isinstance(fitted, OneHotEncoder | LevelMeans) and of.stop - of.start > 1:
            free[of.start] = False
        elif isinstance(fitted, DateParts):
            free[of.start + np.array(fitted.implied, int)] = False
        elif isinstance(fitted, OneHotEncoder) and fitted.drop_idx_[0] is not None and fitted.infrequent_categories_[0] is None:
            twofold.append(TwoCategories(places[0], of.start, tuple(fitted.categories_[0]), float(found[:, of.start].mean())))
    columns = tuple(X.columns) if is_frame(X) else None
    return Reading(encoder, columns, kinds, owner, free, tuple(names), twofold=tuple(twofold)), found


def _with_gaps(X: object) -> Any:
    """A list, or an array of objects, as floats where it is numbers with gaps; else as it is."""
    if not isinstance(X, list | tuple | np.ndarray) or (isinstance(X, np.ndarray) and X.dtype != object):
        return X
    try:
        found = np.asarray(X, np.float64)
    except (TypeError, ValueError):
        return X
    return found if np.isnan(found).any() else X


class WithRows:
    """How both estimators read rows."""

    def _read(self: Any, X: GivenTable, y: Any, labels: bool = False, **checks: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows to fit as numbers, and their targets, checked; draws the seed, and learns how rows are read."""
        coded = None
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        frames.check_no_moments(X)
        frames.check_frame(X := _with_gaps(frames.of_polars(X)))
        frames.check_digits(X, "X")
        self._names = frames.names_of(X)
        if not is_encoded(X):
            try:
                x, y = validate_data(self, X, y, dtype=FLOATS, ensure_min_samples=2, **checks)
            except ValueError as error:
                if "could not convert string to float" not in str(error):
                    raise
                raise ValueError(
                    f"{error}. Texts are read of a pandas DataFrame: its columns know what is text and what is not."
                ) from None
            coded = levels.places_of_names(x, y, labels, self._seed)
            if not coded:
                self._reading = of_numbers(x)
                return x, y
            X = X if is_frame(X) else x
        validate_data(self, X, skip_check_array=True)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        check_consistent_length(X, y)
        self._reading, numbers = fit_reading(X, y, labels, self._seed, coded)
        return check_X_y(numbers, y, dtype=FLOATS, ensure_min_samples=2, estimator=self, **checks)  # type: ignore[no-any-return]

    def _rows(self: Any, X: ArrayLike | Any) -> np.ndarray:
        """Rows to predict, checked."""
        check_is_fitted(self)
        if self._reading.columns is None:
            frames.check_no_moments(X)
        frames.check_frame(X := _with_gaps(frames.of_polars(without_mask(X, "X"))))
        X = frames.in_order(X, self._names)
        if self._reading.encoder is None:
            for place in range(X.shape[1]) if is_frame(X) else ():
                frames.check_no_dates(X.columns[place], X.iloc[:, place])
            rows = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite="allow-nan")
            return self._reading.apply(rows)  # type: ignore[no-any-return]
        if self._reading.columns is None and not is_frame(X):
            X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        validate_data(self, X, reset=False, skip_check_array=True)
        return check_array(self._reading.apply(X), dtype=np.float64, estimator=self)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    def numbers_of(self: Any, X: ArrayLike | Any) -> np.ndarray:
        """Rows of X as numbers, float64 (rows, numbers): X itself, or where it has texts, gaps or codes
        what ``number_names_`` says.

        `compact` reads these, and so does every file that is made of it.
        """
        return self._rows(X)

    @property
    def number_names_(self: Any) -> tuple[str, ...]:
        """What the columns of `numbers_of` are, in their order."""
        check_is_fitted(self)
        return self._reading.names or tuple(getattr(self, "feature_names_in_", (f"x{i}" for i in range(self.n_features_in_))))
