"""Sets without files of their own: two small ones of scikit-learn, so that a first run needs no file, and image sets by way of
tensorflow-datasets.

The two small ones are cut once and for all, by `hold_out`: a fifth of the rows is for testing. Reading a set that
tensorflow-datasets has prepared needs no TensorFlow. Preparing one may: it writes images as PNG with it.
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

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


class Unavailable(Exception):
    """tensorflow-datasets cannot give the set; the message says why."""


def read_tfds(name: str, part: str, searched: Iterable[Path], download: bool) -> RawImages:
    """Images and labels of one part ("train" or "test"), in the order of tensorflow-datasets, which is a shuffled one.

    A folder of ``searched`` that holds the prepared set (NAME/VERSION/dataset_info.json) is taken first, then the default
    folder of tensorflow-datasets, where the set is downloaded and prepared if it is not there and ``download`` allows it.

    Raises:
        Unavailable: the package is not installed, or it fails.
    """
    if importlib.util.find_spec("tensorflow_datasets") is None:
        raise Unavailable("The package tensorflow_datasets, which might have it, is not installed.")
    prepared = [root for root in searched if any((root / name).glob("*/dataset_info.json"))]
    places = {"data_dir": str(prepared[0]), "download": False} if prepared else {"download": download}
    try:
        import tensorflow_datasets

        source = tensorflow_datasets.data_source(name, split=part, **places)
        rows = [(np.asarray(row["image"], np.uint8), int(row["label"])) for row in source]
    except Exception as error:  # no network, no disk, no decoder, another version: all the same to the one who asked
        hint = "" if download else " With download=True it would try to fetch it."
        reason = (str(error).splitlines() or [""])[0][:300]
        raise Unavailable(f"tensorflow_datasets could not give it ({type(error).__name__}: {reason}).{hint}") from error
    return RawImages(np.stack([image for image, _ in rows]), np.array([label for _, label in rows], np.int32))
