"""Two small sets that come with scikit-learn, so that a first run needs no file at all.

Both are cut once and for all: a permutation of the rows by NumPy's legacy generator (whose stream is frozen) with seed 0;
the first four fifths, rounded, are for training.
"""

import numpy as np

from bayesprune.core.types import Dataset
from bayesprune.data.images import RawImages

TRAIN_SHARE = 0.8


def digits() -> tuple[RawImages, RawImages]:
    """1797 grey 8 x 8 digits, pixels 0 to 16, ten classes: (rows, 8, 8, 1). Source: Alpaydin & Kaynak (1998), UCI."""
    bunch = _scikit_learn().load_digits()
    x, y = bunch.images.astype(np.uint8)[..., None], bunch.target.astype(np.int32)
    train, test = _rows(len(y))
    return RawImages(x[train], y[train], top=16), RawImages(x[test], y[test], top=16)


def diabetes() -> tuple[Dataset, Dataset]:
    """442 patients, 10 measurements, disease progression after a year. Source: Efron et al. (2004), Least angle regression."""
    x, y = _scikit_learn().load_diabetes(return_X_y=True, scaled=False)
    train, test = _rows(len(y))
    return Dataset(x[train], y[train]), Dataset(x[test], y[test])


def _rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.RandomState(0).permutation(count)
    cut = round(TRAIN_SHARE * count)
    return order[:cut], order[cut:]


def _scikit_learn():
    try:
        import sklearn.datasets
    except ImportError as error:
        raise ImportError("digits and diabetes come from scikit-learn: pip install 'bayesprune[data]'.") from error
    return sklearn.datasets
