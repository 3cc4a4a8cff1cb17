"""The column that is predicted: classes, real numbers, counts or shares; and of counts the column of exposures, how long, or
over what area, those of each row were taken."""

from dataclasses import dataclass

import numpy as np
from jax.typing import ArrayLike

from bayesprune.data.scaling import fit_scaling
from bayesprune.data.tables.columns import as_texts, check_names, positions, zeros_in_front
from bayesprune.data.tables.reading import are_codes, floats, is_number

COUNTS = ("counts", "overdispersed counts")
POISSON = 2.0  # times what Poisson's law has is the most that the variance of its counts is taken to be
FEW = 20  # whole numbers of no more values than this may be classes
EACH = 5  # rows with a class, on average
CLASSES = "or take all values as classes, kind='classes'."
KINDS = ("classes", "numbers", *COUNTS, "shares")
HIGHEST = 100  # of what is taken for counts


@dataclass(frozen=True)
class Target:
    """What is predicted. ``classes``: their names, in the order of the labels; ``text``: whether the file had them as text.

    ``loc``, ``scale``: of numbers, which are standardised by the training rows; counts and shares are taken as they are.
    ``rate``: of counts, their mean over the training rows for an exposure of one; None in files of before. ``exposure``: the
    column that says over how much they were taken, if there is one. ``others``: the kinds that the values might be as well.
    """

    name: str
    kind: str
    classes: tuple[str, ...] = ()
    text: bool = False
    loc: float = 0.0
    scale: float = 1.0
    rate: float | None = None
    exposure: str = ""
    others: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether the classes have the order of numbers, no two of them the same."""
        if not self.text:
            return True
        return are_codes(self.classes) and len({float(name) for name in self.classes}) == len(self.classes)

    def encode(self, values: np.ndarray, where: str, exposures: np.ndarray | None = None) -> np.ndarray:
        """(rows,): int32 labels, or float32 in training units; (rows, 2) of counts beside their exposures."""
        if self.kind == "classes":
            return positions(as_texts(values), self.classes, f"class of {self.name!r}", where)
        numbers = (as_numbers(values, self.name, self.kind) - self.loc) / self.scale
        if exposures is not None:
            numbers = np.column_stack([numbers, as_exposures(exposures, self.exposure, where)])
        return numbers.astype(np.float32)

    def undo(self, values: ArrayLike) -> np.ndarray:
        """Predicted numbers in the file's own units, float64: beside a large mean float32 has no digits left for the rest."""
        return np.asarray(values, np.float64) * self.scale + self.loc


def infer_target(
    name: str,
    values: np.ndarray,
    train: np.ndarray,
    kind: str | None,
    exposure: str = "",
    exposures: np.ndarray | None = None,
) -> Target:
    """What a column without missing values is as a target, or, with ``kind``, that it can be this; numbers of ``train`` rows.

    ``exposure``, ``exposures``: the name of their column and its values, by which the target is of counts.

    Raises `ValueError` for a target of one value, for a kind that its values are not, and, where no kind is given, for texts
    that are numbers or dates, or too many to be classes.
    """
    if len(set(values.tolist())) < 2:
        raise ValueError(f"target {name!r} has one value in all rows, {as_texts(values)[0]}: there is nothing to learn.")
    if exposures is not None:
        exposures = as_exposures(exposures, exposure, "the file")
        kind = kind or kind_of_counts(as_numbers(values, name, COUNTS[0]), exposures)
    if values.dtype.kind == "f":
        as_numbers(values, name, "numbers")  # an infinite one is refused, whatever the kind
    if values.dtype.kind not in "biuf" and kind != "classes":
        _check_classes(name, values, asked=kind is not None)
    kind = kind or guess(values)
    others = tuple(other for other in may_be(values) if other != kind)
    if kind == "classes":
        texts = set(as_texts(values))
        if values.dtype.kind == "f" and not all(text.lstrip("-").isdigit() for text in texts):
            raise ValueError(f"target {name!r} holds fractions, such as {values[0]}: choose a likelihood of numbers.")
        order = sorted(texts, key=lambda text: (float(text) if is_number(text) else 0.0, text))
        return Target(name, kind, tuple(order), text=values.dtype.kind not in "biuf", others=others)
    numbers = as_numbers(values, name, kind)
    if kind in COUNTS:
        rate = mean_rate(numbers[train], None if exposures is None else exposures[train])
        return Target(name, kind, rate=rate, exposure=exposure, others=others)
    if kind != "numbers":
        return Target(name, kind, others=others)
    scaling = fit_scaling(numbers[train])
    return Target(name, kind, loc=float(scaling.loc), scale=float(scaling.scale), others=others)


def guess(values: np.ndarray) -> str:
    """Texts, bits and few whole numbers are classes; whole numbers from 0 to at most 100 are counts; all else is real.

    Counts are overdispersed where their variance is more than twice their mean, which is Poisson's variance.

    >>> [guess(np.array(values)) for values in (["a", "b"], [0, 1] * 9, [0, 1, 2, 5], range(99), range(999), [0.5, 1.0])]
    ['classes', 'classes', 'counts', 'overdispersed counts', 'numbers', 'numbers']
    """
    if values.dtype.kind not in "iuf":
        return "classes"
    if not np.all(values == np.round(values)):
        return "numbers"
    different = len(np.unique(values))
    if different <= FEW and _repeat(different, len(values)):
        return "classes"
    if values.min() != 0 or values.max() > HIGHEST:
        return "numbers"
    return kind_of_counts(values)


def may_be(values: np.ndarray) -> list[str]:
    """Of `KINDS`, what finite values allow: fractions are no classes or counts, and shares lie between 0 and 1.

    Texts are classes; of `are_codes` they may be numbers, where somebody says so.

    >>> [may_be(np.array(values)) for values in (["a", "b"], [-1, 1], [0.5, 2.0], [0.5, 0.2])]
    [['classes'], ['classes', 'numbers'], ['numbers'], ['numbers', 'shares']]
    >>> may_be(np.array([0, 1, 1]))
    ['classes', 'numbers', 'counts', 'overdispersed counts']
    """
    if values.dtype.kind not in "biuf":
        if not are_codes(set(as_texts(values))):
            return ["classes"]
        values = floats(values)
    whole, low, high = bool(np.all(values == np.round(values))), values.min(), values.max()
    counts = whole and low >= 0
    allowed = {"classes": whole, "numbers": True, **dict.fromkeys(COUNTS, counts), "shares": low > 0 and high < 1}
    return [kind for kind in KINDS if allowed[kind]]


def _repeat(different: int, rows: int) -> bool:
    """Whether so many different values come back often enough to be classes."""
    return different == 2 or rows >= EACH * different


def _check_classes(name: str, values: np.ndarray, asked: bool) -> None:
    """Refuse texts that were not declared as classes and do not look like such; ``asked``: where numbers were wanted."""
    texts = sorted(set(as_texts(values)))
    check_names(f"target {name!r}", values, texts, CLASSES)
    if not asked and not _repeat(len(texts), len(values)):
        raise ValueError(
            f"target {name!r} is text of {len(texts):,} different values, such as {texts[0]!r}, in {len(values):,} rows: fewer "
            f"than {EACH} for each. Unite rare ones, or leave their rows out, {CLASSES}{zeros_in_front(texts)}"
        )


def as_numbers(values: np.ndarray, name: str, kind: str) -> np.ndarray:
    """float64; an error for a target that is none, or has infinite ones."""
    try:
        numbers = floats(values)
    except (TypeError, ValueError):
        held = values.dtype if values.dtype.kind in "mMc" else "texts"
        raise ValueError(
            f"target {name!r} holds {held}, no {kind}: choose a likelihood of classes, or write numbers."
        ) from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"target {name!r} is infinite in row {int(np.argmin(np.isfinite(numbers))) + 1}: correct it.")
    return numbers


def check_column(name: str, target: str | None, features: tuple[str, ...], kind: str | None) -> None:
    """Refuse a column that is the target or an input too, and targets that are said to be no counts."""
    if name == target:
        raise ValueError(f"exposure is the target, {target!r}: name the column that says over how much its counts were taken.")
    if name in features:
        raise ValueError(f"features holds the column of exposures, {name!r}: leave it out of one of them.")
    if kind not in (None, *COUNTS):
        raise ValueError(f"exposure={name!r} is of counts, and the target is to be {kind}: leave one of them out.")


def as_exposures(values: np.ndarray, name: str, where: str) -> np.ndarray:
    """(rows,) float64, finite and positive; an error for others, by row."""
    try:
        exposures = floats(values)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} of {where} holds no numbers, and exposures are numbers: write them as such."
        ) from None
    good = np.isfinite(exposures) & (exposures > 0)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"exposures must be positive, got {exposures[row]:g} in row {row + 1} of column {name!r} of {where}: correct "
            "it, or delete rows in which nothing could be counted."
        )
    return exposures


def mean_rate(counts: np.ndarray, exposures: np.ndarray | None = None) -> float:
    """Counts for an exposure of one: sum y / sum e, which is Poisson's most likely rate."""
    return float(counts.sum() / (len(counts) if exposures is None else exposures.sum()))


def kind_of_counts(counts: np.ndarray, exposures: np.ndarray | None = None) -> str:
    """Overdispersed where the mean of (y - m)² / m is above 2, with m = e sum y / sum e; it is 1 under Poisson's law.

    >>> kind_of_counts(np.array([0, 1, 2, 5])), kind_of_counts(np.arange(99))
    ('counts', 'overdispersed counts')
    >>> kind_of_counts(np.array([1, 99]), np.array([1.0, 100.0]))
    'counts'
    """
    expected = mean_rate(counts, exposures) * (np.ones(len(counts)) if exposures is None else exposures)
    spread = np.square(counts - expected) / np.where(expected > 0, expected, 1.0)
    return COUNTS[int(spread.mean() > POISSON)]
