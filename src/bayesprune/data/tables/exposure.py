"""The column of exposures: how long, or over what area, the counts of each row were taken."""

import numpy as np

from bayesprune.data.tables.reading import floats

COUNTS = ("counts", "overdispersed counts")
POISSON = 2.0  # times what Poisson's law has is the most that the variance of its counts is taken to be


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
