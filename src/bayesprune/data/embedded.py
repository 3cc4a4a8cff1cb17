"""Two small sets that come with scikit-learn, so that a first run needs no file at all.

Both are cut once and for all, by `hold_out`: a fifth of the rows is for testing.
"""

import numpy as np

from bayesprune.core.types import Dataset
from bayesprune.data.hold_out import hold_out
from bayesprune.data.images import RawImages

TEST_SHARE = 0.2


def digits() -> tuple[RawImages, RawImages]:
    """1797 grey 8 x 8 digits, pixels 0 to 16, ten classes: (rows, 8, 8, 1). Source: Alpaydin & Kaynak (1998), UCI."""
    bunch = _scikit_learn().load_digits()
    whole = Dataset(bunch.images.astype(np.uint8)[..., None], bunch.target.astype(np.int32))
    train, test = hold_out(whole, TEST_SHARE)
    return RawImages(*train, top=16), RawImages(*test, top=16)


def diabetes() -> tuple[Dataset, Dataset]:
    """442 patients, 10 measurements, disease progression after a year. Source: Efron et al. (2004), Least angle regression."""
    return hold_out(Dataset(*_scikit_learn().load_diabetes(return_X_y=True, scaled=False)), TEST_SHARE)


def _scikit_learn():
    try:
        import sklearn.datasets
    except ImportError as error:
        raise ImportError("digits and diabetes come from scikit-learn: pip install 'bayesprune[data]'.") from error
    return sklearn.datasets
