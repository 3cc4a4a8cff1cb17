"""Whether values differ by more than their rounding. Check this before you divide by their spread."""

import numpy as np

ULPS = 4.0  # units in the last place, by which values that are equal but for how they were computed may differ


def is_constant(values: np.ndarray) -> np.ndarray:
    """Whether values along the first axis, of any real dtype, are all the same but for their rounding; booleans without it.

      std <= n eps |mean|   or   max - min <= 4 eps' max |v|

    with n values, eps of double precision, and eps' of their own dtype. The first is the rule of scikit-learn's
    ``StandardScaler``. Whole numbers and booleans are exact: they are constant only where they are equal as doubles, in which
    spreads are taken.

    >>> is_constant(np.array([[0.3, 1e9, 1.0], [0.1 + 0.2, 1e9 + 1e-7, 2.0]])).tolist()
    [True, True, False]
    >>> bool(is_constant(np.array([0.1, 0.1 + 1e-8], np.float32))), bool(is_constant(np.array([2**53 - 1, 2**53])))
    (True, False)
    """
    values = np.asarray(values)
    exact = values.astype(np.float64, copy=False)
    equal = np.asarray(exact.max(axis=0) == exact.min(axis=0))
    if not np.issubdtype(values.dtype, np.floating):
        return equal
    size = np.abs(exact).max(axis=0)
    # In units of the largest value: squares of very small and very large ones are no doubles.
    units = exact / np.where(size > 0.0, size, 1.0)
    rounded = np.ptp(units, axis=0) <= ULPS * np.finfo(values.dtype).eps
    as_scikit_learn = units.std(axis=0) <= len(values) * np.finfo(np.float64).eps * np.abs(units.mean(axis=0))
    return np.asarray(equal | rounded | as_scikit_learn)
